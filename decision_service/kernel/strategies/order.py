"""Orders that are drawn."""

from __future__ import annotations

from collections.abc import Sequence
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
    """An order drawn without replacement by weight; what weighs nothing comes last."""
    keys = [rng.random() ** (1.0 / weight) if weight > 0.0 else -1.0 for weight in weights]
    return [items[i] for i in sorted(range(len(items)), key=keys.__getitem__, reverse=True)]
