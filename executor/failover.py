"""What to do after an attempt. Pure: targets, attempts and the time left in, the next step out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from executor.model import MAX_ATTEMPTS, Attempt, Failure, OutcomeClass, RetryRules, Target

MAX_RETRY_HINT_MS = 2_000
UNHINTED_WAIT_MS = 500


@dataclass(frozen=True, slots=True)
class TryNext:
    """Call the target at ``place``."""

    place: int


@dataclass(frozen=True, slots=True)
class RetrySame:
    """Call the target at ``place`` once more, after ``wait_ms``."""

    place: int
    wait_ms: int


class Why(StrEnum):
    """Why no further attempt is made."""

    SERVED = "served"  # or broken off after its first byte: there is no second answer to one request
    RETURNED = "returned"  # the same everywhere: the client gets it as it is
    DEADLINE = "deadline"
    ATTEMPTS = "attempts"
    EXHAUSTED = "exhausted"


@dataclass(frozen=True, slots=True)
class Stop:
    """Make no further attempt."""

    why: Why


Step = TryNext | RetrySame | Stop


def next_step(targets: Sequence[Target], attempts: Sequence[Attempt], rules: RetryRules, left_ms: float) -> Step:
    """The step after ``attempts``, in order of start, over a chain of ``targets``, with ``left_ms`` to the deadline."""
    most = min(rules.max_attempts, MAX_ATTEMPTS)
    if not attempts:
        return Stop(Why.DEADLINE) if left_ms <= 0 else Stop(Why.ATTEMPTS) if most < 1 else TryNext(0)
    last = attempts[-1]
    failure = last.failure
    if failure is None or last.committed:
        return Stop(Why.SERVED)
    if failure.returned:
        return Stop(Why.RETURNED)
    if left_ms <= 0:
        return Stop(Why.DEADLINE)
    if len(attempts) >= most:
        return Stop(Why.ATTEMPTS)
    place = _next_place(targets, last)
    wait_ms = _same_target_wait_ms(failure, another=place is not None)
    retries = sum(attempt.place == last.place for attempt in attempts) - 1
    if wait_ms is not None and retries < rules.max_retries and wait_ms < left_ms:
        return RetrySame(last.place, wait_ms)
    if place is not None:
        return TryNext(place)
    overflow = failure.outcome_class is OutcomeClass.CONTEXT_TOO_LONG
    return Stop(Why.RETURNED if overflow else Why.EXHAUSTED)


def slice_ms(target: Target, *, another: bool, left_ms: float) -> float:
    """Time for one attempt: the target's own time-out, and where another target waits, at most half of what is left."""
    return min(1000 * target.timeout_s, left_ms / 2 if another else left_ms)


def _next_place(targets: Sequence[Target], last: Attempt) -> int | None:
    """The next target in order; after an overflow, the next one whose window is larger or unknown."""
    failure = last.failure
    overflow = failure is not None and failure.outcome_class is OutcomeClass.CONTEXT_TOO_LONG
    window = last.target.context_window
    for place in range(last.place + 1, len(targets)):
        other = targets[place].context_window
        if not (overflow and window and other) or other > window:
            return place
    return None


def _same_target_wait_ms(failure: Failure, *, another: bool) -> int | None:
    if not failure.retryable:
        return None
    if failure.retry_after_ms is not None:
        return failure.retry_after_ms if failure.retry_after_ms <= MAX_RETRY_HINT_MS else None
    return None if another else UNHINTED_WAIT_MS
