"""What every command has: a summary, an example that can be typed, --json, plain text in a pipe; and completion."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer.main

from omnictl.__main__ import build
from omnictl.printing import show_table
from tests.omnictl.commands.conftest import Omnictl

CONTRACT = "up decide explain candidates connections combos keys overrides mappings state top backup restore".split()
OFFLINE = ["simulate", "replay"]
EXAMPLE = re.compile(r"Example: `omnictl (.*)`")
ROOT: Any = typer.main.get_command(build([]))


def leaves(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, by what is typed."""
    children: Mapping[str, Any] | None = getattr(command, "commands", None)
    if children is None:
        yield path, command
    for name, child in (children or {}).items():
        yield from leaves(child, *path, name)


COMMANDS = dict(leaves(ROOT))
every_command = pytest.mark.parametrize("path", COMMANDS, ids=" ".join)


def test_the_contracts_commands_are_there() -> None:
    assert {*CONTRACT, *OFFLINE} <= {path[0] for path in COMMANDS}


@every_command
def test_help_has_a_summary_and_an_example(offline: Omnictl, path: tuple[str, ...]) -> None:
    told = offline(*path, "--help")
    assert told.status == 0
    assert "\x1b" not in told.out
    summary = (COMMANDS[path].help or "").partition("\n")[0]
    assert summary.endswith(".")
    example = EXAMPLE.fullmatch(COMMANDS[path].epilog or "")
    assert example is not None
    words = " ".join(told.out.split())
    assert summary.partition("`")[0].rstrip() in words
    assert f"Example: omnictl {' '.join(path)}" in words


@every_command
def test_its_example_can_be_typed(path: tuple[str, ...]) -> None:
    """As far as options and arguments go."""
    example = EXAMPLE.fullmatch(COMMANDS[path].epilog)
    assert example is not None
    typed = shlex.split(example[1])
    assert tuple(typed[: len(path)]) == path
    COMMANDS[path].make_context(path[-1], typed[len(path) :])


@every_command
def test_json_is_accepted(path: tuple[str, ...]) -> None:
    assert "--json" in [option for parameter in COMMANDS[path].params for option in parameter.opts]


@every_command
def test_an_unknown_option_is_wrong_usage(offline: Omnictl, path: tuple[str, ...]) -> None:
    ran = offline(*path, "--no-such-option")
    assert ran.status == 2
    assert "--no-such-option" in ran.err
    assert f"omnictl {' '.join(path)} --help" in " ".join(ran.err.replace("│", "").split())


NEEDS_NOBODY = {"up", "simulate", "replay", "backup", "restore"}


@pytest.mark.parametrize("path", [path for path in COMMANDS if path[0] not in NEEDS_NOBODY], ids=" ".join)
def test_when_nobody_answers_it_says_what_to_do(offline: Omnictl, path: tuple[str, ...], tmp_path: Path) -> None:
    example = EXAMPLE.fullmatch(COMMANDS[path].epilog)
    assert example is not None
    (tmp_path / "frugal.yaml").write_text("name: frugal")
    typed = [str(tmp_path / word) if word == "frugal.yaml" else word for word in shlex.split(example[1])]
    typed += ["--once"] if path == ("top",) else []
    line = offline(*typed, "--address", "127.0.0.1:1", "--json", OPENAI_API_KEY="sk-1").refused(1)
    assert "no decision service answers" in line
    assert " - " in line


def run(*arguments: str, **environ: str) -> str:
    command = [sys.executable, "-m", "omnictl", *arguments]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OMNIROUTE_")}
    return subprocess.run(command, env=clean | environ, capture_output=True, text=True, timeout=30, check=True).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_shown_and_installed(shell: str, tmp_path: Path) -> None:
    named = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", "HOME": str(tmp_path)}
    script = run("--show-completion", shell, **named)
    assert f"complete_{shell}" in script
    run("--install-completion", shell, **named)
    installed = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(f"complete_{shell}" in text for text in installed)


def test_completion_knows_commands_and_options() -> None:
    def completed(words: str) -> list[str]:
        count = str(len(words.split(" ")) - 1)
        return run(_OMNICTL_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=count).split()

    assert completed("omnictl re") == ["replay", "restore"]
    assert completed("omnictl connections en") == ["enable"]
    assert "--with-secret-key" in completed("omnictl backup --with")


def test_a_table_in_a_pipe_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(("a", "b"), [("x", 1.5), ("y", None)], empty="")
    assert "\x1b" not in capsys.readouterr().out
