"""When an attempt must have come to something, and whose doing it is when it has not. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from executor.failover import slice_ms
from executor.failures import failure
from executor.model import Failure, OutcomeClass, Target

C = OutcomeClass

OWN_SLACK_MS = 50  # a slice that falls short of a target's time-out by less was the target's own
TIMER_SLACK_S = 0.005  # timers tick in milliseconds and may be a little early


@dataclass(frozen=True, slots=True)
class Slot:
    """Which call of the request this is, and its time on the loop's clock.

    ``until`` ends the wait for a whole answer or a stream's first content. ``is_own`` says that the target's time-out
    set it, not the request's deadline. A stream that has content may go on until ``deadline``. ``spent_usd`` is what
    the request has cost before this call; ``another`` says that a target waits behind this one.
    """

    number: int
    place: int
    target: Target
    until: float
    is_own: bool
    deadline: float
    spent_usd: float = 0.0
    another: bool = False

    def begun(self, now: float) -> Slot:
        """The same call with the time that it has when it begins now."""
        left_ms = 1000 * (self.deadline - now)
        slice_for_it = slice_ms(self.target, another=self.another, left_ms=left_ms)
        is_own = slice_for_it + OWN_SLACK_MS >= 1000 * self.target.timeout_s
        return replace(self, until=now + slice_for_it / 1000, is_own=is_own)


def out_of_time(slot: Slot, now: float, status: int, *, ended: str, committed: bool) -> Failure:
    """The failure of an attempt whose wait is over: by the deadline, its time-out or a stall.

    ``ended`` says why it was ended from outside; empty: it was not.
    """
    if ended:
        return called_off(ended, status)
    if committed:
        if now >= slot.deadline - TIMER_SLACK_S:
            return _cut_short(status)
        return failure(C.INTERRUPTED, "the upstream's stream stalled", http_status=status)
    if now < slot.until - TIMER_SLACK_S:
        return failure(C.TIMEOUT, "the upstream's stream stalled before its first content", http_status=status)
    if slot.is_own:
        return failure(C.TIMEOUT, f"no answer within {slot.target.timeout_s:g} s", http_status=status)
    return _cut_short(status)


def _cut_short(status: int) -> Failure:
    return failure(
        C.LOCAL_CANCELLED,
        "no more time was left for this attempt",
        http_status=status,
        client_status=504,
    )


def called_off(why: str, status: int = 0) -> Failure:
    """Ended from outside: nothing that could be tried now would fare better."""
    ours = failure(C.LOCAL_CANCELLED, why, http_status=status)
    return replace(ours, returned=True)
