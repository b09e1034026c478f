"""Pages hold together: links lead somewhere, blocks can be read, nothing is named that has no place in a document."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.docs import pages

PAGES = pages.all_pages()
EVERY = pytest.mark.parametrize("page", PAGES, ids=pages.name_of)
# Places of single machines, registries, and words of unfinished work.
FORBIDDEN = re.compile(r"/(?:home|root|work|tmp|Users)/|pypi|npmjs|TODO|FIXME|placeholder", re.IGNORECASE)
DIAGRAMS = ("flowchart", "sequenceDiagram", "stateDiagram-v2")


@EVERY
def test_links_lead_somewhere(page: Path) -> None:
    for target in pages.LINK.findall(pages.prose(page)):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", path):
            assert path.startswith("https://"), target
            continue
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in pages.anchors(file), f"{page.name}: {target}"


@EVERY
def test_files_that_are_named_exist(page: Path) -> None:
    named = re.findall(
        r"`((?:docs|tests|bench|protos|service_kit|decision_service|executor|edge_gateway)/[\w/.-]+)`",
        pages.prose(page),
    )
    missing = [name for name in named if not (pages.ROOT / name).exists()]
    assert not missing


@EVERY
def test_nothing_is_named_that_belongs_to_one_machine(page: Path) -> None:
    found = FORBIDDEN.search(page.read_text())
    assert found is None, found


@EVERY
def test_blocks_can_be_read(page: Path) -> None:
    for block in pages.blocks(page):
        match block.language:
            case "python":
                ast.parse(block.text)
            case "bash":
                done = subprocess.run(
                    ["bash", "-n"], input=block.text, text=True, capture_output=True, timeout=10, check=False
                )
                assert done.returncode == 0, f"{block.place}: {done.stderr}"
            case "json":
                json.loads(block.text)
            case "toml":
                tomllib.loads(block.text)
            case "yaml":
                yaml.safe_load(block.text)
            case "mermaid":
                assert block.text.split()[0] in DIAGRAMS, block.place
            case other:
                raise AssertionError(f"{block.place}: blocks of {other!r} are not checked by anything")


@EVERY
def test_decision_pages_have_one_form(page: Path) -> None:
    if page.parent.name != "decisions" or page.name.startswith("0003"):
        return
    headings = re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE)
    assert headings == ["Context", "Choice", "What it costs", "In the code"]
    assert page.read_text().startswith(f"# {page.name[:4]} ")
    assert len(page.read_text().splitlines()) <= 60


def test_every_page_is_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [pages.README]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        for target in pages.LINK.findall(pages.prose(page)):
            path = (page.parent / target.partition("#")[0]).resolve()
            waiting += sorted(path.glob("*.md")) if path.is_dir() else [path] if path.is_file() else []
    assert set(pages.DOCS.rglob("*.md")) <= reached
