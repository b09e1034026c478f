"""Every command and every piece of code on the pages runs as it stands; only ports and the data directory differ."""

from __future__ import annotations

import json
import pkgutil
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from omnictl import commands
from tests.docs import pages
from tests.docs.conftest import CLIENTS, Services

RUNNING = [page for page in pages.all_pages() if any(block.runs for block in pages.blocks(page))]
LIMIT_S = 60
# Connections that the reader of a page adds; they lead to nobody here, and the other pages do without them.
ADDED = {"README.md": ["openai-main"], "docs/operations.md": ["groq-free"]}


def run(block: pages.Block, services: Services) -> str:
    """Standard output of a block, which must succeed."""
    python = CLIENTS / "python" if "clients" in block.info.split(" ") else Path(sys.executable)
    command = ["bash", "-euo", "pipefail", "-c"] if block.language == "bash" else [str(python), "-c"]
    done = subprocess.run(
        [*command, services.here(block.text)],
        cwd=pages.ROOT,
        env={**services.environ, "OPENAI_API_KEY": "sk-of-the-reader"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{block.place}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.timeout(180)
@pytest.mark.parametrize("page", RUNNING, ids=pages.name_of)
def test_the_blocks_of_a_page_run_one_after_the_other(page: Path, services: Services) -> None:
    if page == pages.DOCS / "clients.md" and not CLIENTS.exists():
        pytest.skip(f"{CLIENTS} is not there: make test installs it")
    for block in pages.blocks(page):
        if block.runs:
            run(block, services)
    for added in ADDED.get(pages.name_of(page), ()):
        omnictl(services, "connections", "remove", added)


def omnictl(services: Services, *arguments: str, **environ: str) -> str:
    """What a command says."""
    command = ["omnictl", *arguments]
    return subprocess.run(
        command, env=services.environ | environ, timeout=LIMIT_S, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def test_first_requests_are_answered_by_a_simulated_provider(services: Services) -> None:
    by_curl, by_openai, by_grpc = [block for block in pages.blocks(pages.README) if block.runs][:3]
    answer = run(by_curl, services)
    assert answer.startswith("HTTP/1.1 200")
    assert "x-omniroute-decision-id: dec_" in answer
    assert "[simulated answer from demo-" in answer
    assert run(by_openai, services).startswith("[simulated answer from demo-")
    assert re.match(r"dec_\w+ \w", run(by_grpc, services))


def test_a_page_that_is_not_run_names_commands_that_exist() -> None:
    makefile = (pages.ROOT / "Makefile").read_text()
    for page in pages.all_pages():
        for block in pages.blocks(page):
            if block.language == "bash" and not block.runs:
                for target in re.findall(r"\bmake ([\w-]+)", block.text):
                    assert re.search(rf"^{target}:", makefile, re.MULTILINE), block.place
                for module in re.findall(r"python -m (\w+)", block.text):
                    assert (pages.ROOT / module / "__main__.py").exists(), block.place


def test_the_backup_of_operations_can_be_restored(services: Services, tmp_path: Path) -> None:
    backups = [block for block in pages.blocks(pages.DOCS / "operations.md") if "omnictl backup" in block.text]
    assert len(backups) == 1
    run(backups[0], services)
    made = max(Path(services.environ["BACKUP_DIR"]).glob("omniroute-*"), key=lambda path: path.stat().st_mtime)
    key = (services.data_dir / "secret.key").read_text().strip()
    omnictl(services, "restore", str(made), "--data-dir", str(tmp_path / "there"), OMNIROUTE_SECRET_KEY=key)
    with closing(sqlite3.connect(tmp_path / "there" / "omniroute.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert database.execute("SELECT count(*) FROM key_check").fetchone() == (1,)


def test_every_command_of_the_command_line_is_on_its_page() -> None:
    rows = pages.table(pages.DOCS / "omnictl.md", "command", "does")
    named = {name for row in rows for name in pages.codes(row["command"])}
    assert named == {module.name for module in pkgutil.iter_modules(commands.__path__)}


def test_the_scenario_answers_what_its_page_says(services: Services) -> None:
    page = pages.DOCS / "scenarios.md"
    (block,) = [block for block in pages.blocks(page) if block.runs]
    answers = [json.loads(line) for line in run(block, services).splitlines()]
    rows = pages.table(page, "decision", "targets", "why")
    assert [answer["targets"] for answer in answers] == [pages.codes(row["targets"]) for row in rows]
    assert [answer["probe"] for answer in answers] == [False, False, False, True, False]
    assert answers[2]["rejected"] == [
        {"candidate": "alpha/small@a1", "filter": "breaker", "reason": "OPEN", "until_ms": 15_000}
    ]
