"""Orders that are drawn: the only method used is ``random()``, whose sequence Python keeps stable."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


def pick_index(count: int, rng: Random) -> int:
    """A uniform index below ``count``."""
    return min(count - 1, int(rng.random() * count))


def shuffled(items: Sequence[T], rng: Random) -> list[T]:
    """A uniform order."""
    keys = [rng.random() for _ in items]
    return [items[i] for i in sorted(range(len(items)), key=keys.__getitem__)]
