"""Orders that are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log
from typing import TypeVar

from decision_service.kernel.dice import Rng

T = TypeVar("T")


def pick_index(count: int, rng: Rng) -> int:
    """A uniform index below ``count``."""
    return min(count - 1, int(rng.random() * count))


def shuffled(items: Sequence[T], rng: Rng) -> list[T]:
    """A uniform order."""
    keys = [rng.random() for _ in items]
    return [items[i] for i in sorted(range(len(items)), key=keys.__getitem__)]


def weighted_order(items: Sequence[T], weights: Sequence[float], rng: Rng) -> list[T]:
    """An order drawn without replacement by weight; what weighs nothing comes last.

    By the logarithm of `random() ** (1 / weight)`, which itself is 0 for many a small weight.
    """
    keys = [log(1.0 - rng.random()) / weight if weight > 0.0 else -inf for weight in weights]
    return [items[i] for i in sorted(range(len(items)), key=keys.__getitem__, reverse=True)]
