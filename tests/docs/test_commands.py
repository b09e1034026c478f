"""Every command and every piece of code on the pages runs as it stands; only ports and the data directory differ."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

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
        subprocess.run(["omnictl", "connections", "remove", added], env=services.environ, timeout=LIMIT_S, check=True)


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


def test_the_backup_is_a_whole_database_with_its_key(services: Services) -> None:
    backups = [block for block in pages.blocks(pages.DOCS / "operations.md") if "BACKUP_DIR" in block.text]
    assert len(backups) == 1
    run(backups[0], services)
    copied = Path(services.environ["BACKUP_DIR"])
    assert (copied / "secret.key").read_text() == (services.data_dir / "secret.key").read_text()
    database = sqlite3.connect(copied / "omniroute.db")
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert database.execute("SELECT count(*) FROM key_check").fetchone() == (1,)
    database.close()


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
