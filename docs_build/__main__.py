"""``python -m docs_build`` writes the pages; with ``--check`` it only says which are not current, by exit status 1."""

from __future__ import annotations

import sys
from pathlib import Path

from docs_build.pages import filled
from docs_build.parts import PARTS

DOCS = Path(__file__).parents[1] / "docs"


def stale() -> dict[Path, str]:
    """The pages that are not what the code says, with what they should be."""
    found = {}
    for name, parts in PARTS.items():
        path = DOCS / name
        text = path.read_text(encoding="utf-8")
        fresh = filled(text, parts)
        if fresh != text:
            found[path] = fresh
    return found


def main(arguments: list[str]) -> int:
    """The exit status."""
    pages = stale()
    for path, text in pages.items():
        if "--check" in arguments:
            print(f"docs/{path.name} is not current: run make docs", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
            print(f"docs/{path.name} written")
    return 1 if pages and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
