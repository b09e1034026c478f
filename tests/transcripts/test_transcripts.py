"""Every transcript is what the kernel does; each strategy, shape and state machine has one."""

from __future__ import annotations

from pathlib import Path

import pytest

from decision_service.kernel.model import Shape
from decision_service.kernel.reset import RESETS
from decision_service.policy.vocabulary import INTERNAL_STRATEGY, STRATEGIES
from docs_build.durations import spoken
from tests.transcripts import given
from tests.transcripts.language import Command, parse, replayed
from tests.transcripts.play import HERE, played, scripts
from tests.transcripts.stage import ACTIONS, SETUP
from tests.transcripts.words import duration, options

NAMES = {path.stem for path in scripts()}


@pytest.mark.parametrize("path", scripts(), ids=lambda path: path.stem)
def test_a_transcript_is_what_the_kernel_does(path: Path) -> None:
    assert played(path) == path.read_text(), "review the change, then `make transcripts`"


def test_nothing_that_decides_is_without_a_transcript() -> None:
    assert {f"strategy-{name}" for name in (*STRATEGIES, INTERNAL_STRATEGY)} <= NAMES
    by_strategy = {Shape.SINGLE, Shape.FUSION, Shape.PIPELINE}
    assert {f"shape-{shape}" for shape in set(Shape) - by_strategy} <= NAMES
    assert {f"machine-{kind}" for kind in RESETS} <= NAMES


@pytest.mark.parametrize("path", scripts(), ids=lambda path: path.stem)
def test_a_transcript_begins_with_its_subject(path: Path) -> None:
    first = path.read_text().splitlines()[0]
    assert first.startswith("# ")
    assert len(first) < 120


# The language


def test_output_is_written_anew_and_the_rest_stays() -> None:
    text = "# a remark\n\n> one a 'b c'\n>   more d\nold output\n\n> two\n"
    seen: list[Command] = []

    def run(command: Command) -> list[str]:
        seen.append(command)
        return [f"{command.words[0]} was run"]

    fresh = replayed(text, run)
    assert fresh == "# a remark\n\n> one a 'b c'\n>   more d\none was run\n\n> two\ntwo was run\n"
    assert [(command.line, command.words, command.more) for command in seen] == [
        (3, ["one", "a", "b c"], [["more", "d"]]),
        (7, ["two"], []),
    ]
    assert replayed(fresh, run) == fresh


def test_a_mistake_is_named_by_its_line() -> None:
    def run(command: Command) -> list[str]:
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="line 2: no such thing"):
        replayed("# remark\n> one\n", run)


def test_a_stale_transcript_is_noticed(tmp_path: Path) -> None:
    stale = tmp_path / "stale.txt"
    stale.write_text("# x\n> candidate p/m@a\n> decide p/m\n  decision 0 by priority: something else\n    1  p/m@a\n")
    assert played(stale) != stale.read_text()
    assert [part for part in parse(stale.read_text()) if isinstance(part, str)] == ["# x"]


@pytest.mark.parametrize(("word", "ms"), [("1ms", 1), ("2m30s", 150_000), ("1h", 3_600_000), ("3d", 259_200_000)])
def test_durations(word: str, ms: int) -> None:
    assert duration(word) == ms
    assert spoken(ms) == word


@pytest.mark.parametrize("word", ["", "5", "s", "5 s", "5sx"])
def test_what_is_no_duration(word: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        duration(word)


def test_options_are_known_and_have_values() -> None:
    table = {"in": ("input_tokens", int), "tools": ("has_tools", True)}
    assert options(["tools", "in", "5"], table) == {"has_tools": True, "input_tokens": 5}
    with pytest.raises(ValueError, match="none of in, tools"):
        options(["out", "5"], table)
    with pytest.raises(ValueError, match="'in' has no value"):
        options(["in"], table)


def test_every_command_and_option_is_explained() -> None:
    text = (HERE / "README.md").read_text()
    commands = {*SETUP, *ACTIONS}
    assert [name for name in commands if f"`{name} " not in text] == []
    tables = (given.CANDIDATE, given.SIGNALS, given.STEP, given.DECIDE, given.REPORT, given.KEY)
    assert [name for options_ in tables for name in options_ if f"`{name}" not in text] == []
