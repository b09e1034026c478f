"""Words of a transcript: durations, quotas and options, read and written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from docs_build.durations import UNITS

DURATION = re.compile(r"(\d+)(ms|s|m|h|d)")

Reader = Callable[[str], Any]


def duration(word: str) -> int:
    """Milliseconds of ``2m30s``."""
    found = DURATION.findall(word)
    if not found or "".join(number + unit for number, unit in found) != word:
        raise ValueError(f"{word!r} is no duration")
    return sum(int(number) * UNITS[unit] for number, unit in found)


def percent(word: str) -> float:
    return float(word.removesuffix("%")) / 100.0


def windows(word: str) -> list[dict[str, Any]]:
    """Quota windows of ``weekly=20%/3d,session=5%``: what is left, and in how long it starts anew."""
    found = []
    for one in word.split(","):
        name, _, rest = one.partition("=")
        left, _, reset = rest.partition("/")
        window = {"name": name, "remaining_fraction": percent(left)}
        found.append(window | ({"resets_in_s": duration(reset) / 1_000} if reset else {}))
    return found


def options(words: Sequence[str], table: Mapping[str, tuple[str, Reader | Any]]) -> dict[str, Any]:
    """Options behind a command: a name with a value where the table has a reader, else a name that stands for one."""
    given: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if word not in table:
            raise ValueError(f"{word!r} is none of {', '.join(table)}")
        field, meaning = table[word]
        value = next(rest, "") if callable(meaning) else meaning
        if value == "":
            raise ValueError(f"{word!r} has no value")
        given[field] = meaning(value) if callable(meaning) else value
    return given
