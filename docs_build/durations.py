"""Durations as people write them: ``2m30s``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

UNITS: Mapping[str, int] = MappingProxyType({"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1})


def spoken(ms: int) -> str:
    """``2m30s`` of milliseconds, largest unit first."""
    text = ""
    for unit, size in UNITS.items():
        count, ms = divmod(ms, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"
