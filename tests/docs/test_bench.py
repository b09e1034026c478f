"""The benchmark runs to its end, leaves nothing behind, and its figures fit the page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import page
from tests.docs import pages

LIMIT_S = 100


def processes() -> set[str]:
    """Command lines of what a benchmark starts."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if " -m bench." in line:
            found.add(f"{entry.parent.name} {line}")
    return found


@pytest.mark.full
@pytest.mark.timeout(LIMIT_S + 20)
def test_a_quick_run_has_every_figure_and_leaves_nothing_behind() -> None:
    before = processes()
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick"],
        cwd=pages.ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert set(found) == {"machine", "versions", "kernel", "rpc", "path", "relay", "seconds"}
    assert set(found["kernel"]) == {"pool_10", "pool_100", "pool_1000"}
    for load in (found["rpc"]["pool_10"]["at_once_1"], found["rpc"]["pool_100"]["at_once_64"]):
        assert min(load[call]["calls"] for call in ("echo", "decide", "decide_and_report", "report")) > 0
    assert found["path"]["stream"]["at_once_32"]["added_to_first_content"]["p50_us"] > 0
    assert found["relay"]["executor"]["stream"]["relayed_to_bare_rate"] > 0
    assert all(f"### {title}" in page.figures(found) for title in page.SECTIONS)
    assert processes() <= before


def test_the_page_has_figures_of_every_section() -> None:
    text = (pages.DOCS / "benchmarks.md").read_text()
    assert page.REGION.search(text)
    assert all(f"### {title}\n" in text for title in page.SECTIONS)


def test_unknown_arguments_are_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--fast"],
        cwd=pages.ROOT,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "usage: python -m bench [--quick]\n")
