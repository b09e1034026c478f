"""The pages as the tests see them: fenced blocks, tables, links."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
EXAMPLES = DOCS / "examples"

FENCE = re.compile(r"^```(.*)$")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`]+)`")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; ``info`` is what follows the opening fence."""

    page: str
    line: int
    info: str
    text: str

    @property
    def language(self) -> str:
        return self.info.split(" ")[0]

    @property
    def runs(self) -> bool:
        return self.language in ("bash", "python") and "not-run" not in self.info.split(" ")

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def all_pages() -> list[Path]:
    return [README, ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def blocks(page: Path) -> tuple[Block, ...]:
    """The fenced blocks of a page, in order."""
    return tuple(_blocks(page))


def _blocks(page: Path) -> Iterator[Block]:
    info, start, lines = None, 0, list[str]()
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        fence = FENCE.match(line)
        if fence is None:
            lines.append(line)
        elif info is None:
            info, start, lines = fence[1].strip(), number, []
        else:
            yield Block(name_of(page), start, info, "\n".join(lines) + "\n")
            info = None
    assert info is None, f"{page}: a block is not closed"


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    text = page.read_text()
    for block in blocks(page):
        text = text.replace(f"```{block.info}\n{block.text}```", "")
    return text


def tables(page: Path) -> list[list[dict[str, str]]]:
    """Every table of a page: a row is a dictionary from column to cell."""
    found: list[list[dict[str, str]]] = []
    header: list[str] = []
    for line in [*prose(page).splitlines(), ""]:
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            header = []
        elif not header:
            header = cells
            found.append([])
        elif set(line) - set("|- "):
            assert len(cells) == len(header), f"{page}: {line}"
            found[-1].append(dict(zip(header, cells, strict=True)))
    return found


def table(page: Path, *columns: str) -> list[dict[str, str]]:
    """All rows of the tables with these columns."""
    rows = [row for rows in tables(page) for row in rows if set(columns) <= set(row)]
    assert rows, f"{page}: no table with the columns {columns}"
    return rows


def codes(cell: str) -> list[str]:
    """What stands in backquotes in a cell."""
    return CODE.findall(cell)


def by_first_code(rows: list[dict[str, str]], column: str) -> Mapping[str, dict[str, str]]:
    return {code: row for row in rows for code in codes(row[column])}


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    headings = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in HEADING.findall(prose(page))]
    return set(headings)
