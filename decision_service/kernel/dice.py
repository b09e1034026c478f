"""Dice: a small generator that costs nothing to seed.

Python's own takes longer to seed than a decision takes; SplitMix64 is two lines, passes the usual tests, and its
sequence is fixed for every version and machine.
"""

from __future__ import annotations

from typing import Protocol

_MASK = (1 << 64) - 1


class Rng(Protocol):
    """What a decision draws from; ``random.Random`` is one too."""

    def random(self) -> float:
        """The next draw, uniform in [0,1)."""


class Dice:
    """SplitMix64. Any integer seeds it; the low 64 bits count."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def random(self) -> float:
        self._state = state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((mixed ^ (mixed >> 31)) >> 11) * 2.0**-53
