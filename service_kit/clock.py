"""The one wall clock, and the line of instants that a service counts by; assembly hands them to whatever needs one."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]

wall: Clock = time.time
"""Seconds since the epoch."""


class Timeline:
    """Epoch milliseconds that never go back and never stand still, whatever the wall clock does.

    Where the wall clock was set back, time goes on from where it was, at the pace of the ``steady`` clock.
    """

    def __init__(self, wall: Clock, steady: Clock) -> None:
        """``steady`` counts seconds from anywhere, and nobody sets it."""
        self._wall, self._steady = wall, steady
        self._now = self._ahead = 0
        self._apart = self._read()[1]

    def now(self) -> int:
        """The present instant."""
        present, apart = self._read()
        self._ahead = max(0, self._ahead + apart - self._apart)
        self._apart = apart
        self._now = max(self._now, present + self._ahead)
        return self._now

    def step(self) -> None:
        """Every later reading is later than the last one."""
        self._now += 1

    def resume(self, instant: int) -> None:
        """Time goes on from an instant, where that is ahead of it."""
        self._ahead += max(0, instant - self.now())

    def _read(self) -> tuple[int, int]:
        """The wall clock, and how far the steady clock is ahead of it, in milliseconds."""
        present = int(self._wall() * 1000)
        return present, int(self._steady() * 1000) - present
