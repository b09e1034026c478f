"""Whether to wait for the decision service: a breaker, of time alone."""

from __future__ import annotations

from collections.abc import Callable

FAILURES_TO_SKIP = 3
FIRST_SKIP_S, LONGEST_SKIP_S = 0.5, 2.0

Clock = Callable[[], float]


class Patience:
    """Whether to wait for a service: after some failures in a row it is tried by one call at a time, now and then."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._skip_until = 0.0
        self._skip_s = FIRST_SKIP_S

    @property
    def is_lost(self) -> bool:
        """The last calls failed, and none has succeeded since."""
        return self._failures >= FAILURES_TO_SKIP

    def allows(self) -> bool:
        """Ask now. While it is failing, a yes holds off the others until this call has ended or a while has passed."""
        if not self.is_lost:
            return True
        if self._clock() < self._skip_until:
            return False
        self._skip_until = self._clock() + self._skip_s
        return True

    def succeeded(self) -> None:
        self._failures, self._skip_s = 0, FIRST_SKIP_S

    def failed(self) -> None:
        self._failures += 1
        if self.is_lost:
            self._skip_until = self._clock() + self._skip_s
            self._skip_s = min(2 * self._skip_s, LONGEST_SKIP_S)
