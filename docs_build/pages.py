"""Pages with generated parts. What stands around the parts is written by hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

Part = Callable[[], str]

BEGIN = re.compile(r"<!-- generated: ([\w-]+) -->\n")
END = "<!-- end -->\n"


def filled(text: str, parts: Mapping[str, Part]) -> str:
    """The page with each part written anew. Raises ValueError for a part that is unknown, missing or without an end."""
    done: list[str] = []
    place = 0
    found: list[str] = []
    while (begin := BEGIN.search(text, place)) is not None:
        name = begin[1]
        end = text.find(END, begin.end())
        if end < 0 or BEGIN.search(text, begin.end(), end):
            raise ValueError(f"the part {name!r} has no end")
        if name not in parts:
            raise ValueError(f"the part {name!r} is none of {', '.join(parts)}")
        done += [text[place : begin.end()], parts[name]().rstrip("\n") + "\n", END]
        place = end + len(END)
        found.append(name)
    if sorted(found) != sorted(parts):
        raise ValueError(f"parts {', '.join(found)}; wanted, once each: {', '.join(parts)}")
    return "".join(done) + text[place:]


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    body = ["| " + " | ".join(cells) + " |" for cells in rows]
    return "\n".join(["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|", *body])


def code(*words: str) -> str:
    """Words in backquotes, with commas between."""
    return ", ".join(f"`{word}`" for word in words)
