"""Self-healing: breaker, cooldown, lockout and exclusion as frozen values with transition tables and pure folds.

Every function takes ``now`` and answers the next value. An unchanged value means that nothing moved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from decision_service.kernel.model import DAY, HOUR, MINUTE, SECOND, ProviderClass

UNKNOWN_LONG = 8 * DAY
LONG_HINT = HOUR


class Phase(StrEnum):
    """What a breaker lets through."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


class Verdict(StrEnum):
    """What an outcome says to a state machine."""

    SUCCESS = "SUCCESS"
    FAILURE = "FAILURE"
    NEUTRAL = "NEUTRAL"


@dataclass(frozen=True, slots=True)
class BreakerLimits:
    """Counted failures that open a breaker, and its base rest in milliseconds."""

    failures: int
    reset_ms: int


BREAKER_LIMITS: Mapping[ProviderClass, BreakerLimits] = MappingProxyType(
    {
        ProviderClass.OAUTH: BreakerLimits(8, 60 * SECOND),
        ProviderClass.API_KEY: BreakerLimits(12, 30 * SECOND),
        ProviderClass.LOCAL: BreakerLimits(2, 15 * SECOND),
    }
)


@dataclass(frozen=True, slots=True)
class Breaker:
    """Breaker of one provider.

    ``moved_seq`` is the number of the event that last opened or closed it: a decision with a lower number holds an
    older generation. ``probe`` is the decision that holds the one permit of HALF_OPEN, until ``probe_until``.
    """

    open: bool = False
    failures: int = 0
    openings: int = 0
    generation: int = 0
    open_until: int = 0
    moved_seq: int = 0
    probe: str = ""
    probe_until: int = 0

    def phase(self, now: int) -> Phase:
        """The phase that a new request sees; a rested breaker whose permit is out reads OPEN."""
        if not self.open:
            return Phase.CLOSED
        if now < self.open_until or self.probe_held(now):
            return Phase.OPEN
        return Phase.HALF_OPEN

    def rested(self, now: int) -> bool:
        """Open, and its rest is over: the next outcome that counts is a probe's."""
        return self.open and now >= self.open_until

    def probe_held(self, now: int) -> bool:
        return bool(self.probe) and now < self.probe_until

    def recovers_at(self, now: int) -> int:
        """The earliest instant at which it may let a request through."""
        return self.probe_until if self.rested(now) and self.probe_held(now) else self.open_until


def rest_multiplier(openings: int) -> int:
    """1 for the first three openings since the last close, then 2, 4, 8 and at most 16."""
    return int(1 << min(4, max(0, openings - 3)))


def _open(breaker: Breaker, now: int, limits: BreakerLimits, seq: int) -> Breaker:
    openings = breaker.openings + 1
    return Breaker(
        open=True,
        openings=openings,
        generation=breaker.generation + 1,
        open_until=now + limits.reset_ms * rest_multiplier(openings),
        moved_seq=seq,
    )


def _count(breaker: Breaker, now: int, limits: BreakerLimits, seq: int) -> Breaker:
    failures = breaker.failures + 1
    if failures >= limits.failures:
        return _open(breaker, now, limits, seq)
    return replace(breaker, failures=failures)


def _forgive(breaker: Breaker, now: int, limits: BreakerLimits, seq: int) -> Breaker:
    return replace(breaker, failures=breaker.failures - 1) if breaker.failures else breaker


def _close(breaker: Breaker, now: int, limits: BreakerLimits, seq: int) -> Breaker:
    return Breaker(generation=breaker.generation + 1, moved_seq=seq)


def _return_permit(breaker: Breaker, now: int, limits: BreakerLimits, seq: int) -> Breaker:
    return replace(breaker, probe="", probe_until=0)


BreakerMove = Callable[[Breaker, int, BreakerLimits, int], Breaker]
BREAKER_MOVES: Mapping[tuple[Phase, Verdict], BreakerMove] = MappingProxyType(
    {
        (Phase.CLOSED, Verdict.FAILURE): _count,
        (Phase.CLOSED, Verdict.SUCCESS): _forgive,
        (Phase.HALF_OPEN, Verdict.SUCCESS): _close,
        (Phase.HALF_OPEN, Verdict.FAILURE): _open,
        (Phase.HALF_OPEN, Verdict.NEUTRAL): _return_permit,
    }
)


def fold_breaker(breaker: Breaker, verdict: Verdict, holder: str, now: int, limits: BreakerLimits, seq: int) -> Breaker:
    """One outcome of the current generation folded in.

    ``holder`` is the decision whose call holds the permit, empty for other calls. While rested, only the holder moves
    it, or anyone when the permit is free.
    """
    if not breaker.open:
        phase = Phase.CLOSED
    elif not breaker.rested(now):
        return breaker
    elif breaker.probe_held(now) and breaker.probe != holder:
        return breaker
    else:
        phase = Phase.HALF_OPEN
    move = BREAKER_MOVES.get((phase, verdict))
    return move(breaker, now, limits, seq) if move else breaker


def grant_probe(breaker: Breaker, decision_id: str, until: int) -> Breaker:
    """The permit of a half-open breaker goes to a decision, until an instant."""
    return replace(breaker, probe=decision_id, probe_until=until)


def withdraw_probe(breaker: Breaker, decision_id: str) -> Breaker:
    """The permit comes back when its decision ended without an outcome that counts."""
    return replace(breaker, probe="", probe_until=0) if breaker.probe == decision_id else breaker


class Wait(StrEnum):
    """Why a connection or a model on it rests."""

    RATE_LIMITED = "rate_limited"
    QUOTA_EXHAUSTED = "quota_exhausted"
    AUTH_FAILED = "auth_failed"
    MODEL_NOT_FOUND = "model_not_found"
    OVERLOADED = "overloaded"


@dataclass(frozen=True, slots=True)
class Backoff:
    """Growing rests: ``base`` x 2^k, at most ``cap``; without growth where ``cap`` equals ``base``."""

    base: int
    cap: int

    def rest(self, step: int) -> int:
        return int(min(self.cap, self.base << min(step, 20)))


AUTH_BACKOFF = Backoff(5 * MINUTE, HOUR)
QUOTA_BACKOFF = Backoff(HOUR, HOUR)
OVERLOAD_BACKOFF = Backoff(120 * SECOND, 30 * MINUTE)
MISSING_MODEL_BACKOFF = Backoff(HOUR, HOUR)
RATE_LIMIT_BACKOFF: Mapping[ProviderClass, Backoff] = MappingProxyType(
    {
        ProviderClass.API_KEY: Backoff(3 * SECOND, 3 * SECOND << 5),
        ProviderClass.LOCAL: Backoff(3 * SECOND, 3 * SECOND << 5),
        ProviderClass.OAUTH: Backoff(5 * SECOND, 5 * SECOND << 5),
    }
)


@dataclass(frozen=True, slots=True)
class Rest:
    """A cooldown of a connection or a lockout of a model on one. Over at the instant ``until``.

    ``step`` is the k of the next growing rest. ``stepped_seq`` is the event that last raised it, ``set_seq`` the one
    that last moved ``until``; a lease is newer than either when its own number is higher.
    """

    until: int = 0
    wait: Wait | None = None
    step: int = 0
    stepped_seq: int = -1
    set_seq: int = -1

    def active(self, now: int) -> bool:
        return now < self.until


NO_REST = Rest()


def usable_hint(hint_ms: int | None) -> int | None:
    """A Retry-After as it counts: none or 0 is no hint, above 8 days is taken as one hour."""
    if hint_ms is None or hint_ms <= 0:
        return None
    return LONG_HINT if hint_ms > UNKNOWN_LONG else hint_ms


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure that asks for rest: its lease's number, its own number, the instant, and a usable hint if one came."""

    wait: Wait
    lease_seq: int
    seq: int
    now: int
    hint_ms: int | None = None


def fold_wait(rest: Rest, failure: Failure, backoff: Backoff) -> Rest:
    """A failure folded into a rest.

    With a hint the end moves there. Without one the rest grows, but only by a failure whose lease began after the
    last step; an older one repeats that step. The end never moves earlier.
    """
    if failure.hint_ms is not None:
        return _until(rest, failure, failure.hint_ms)
    if backoff.cap == backoff.base:
        return _until(rest, failure, backoff.base)
    if failure.lease_seq <= rest.stepped_seq:
        return _until(rest, failure, backoff.rest(max(0, rest.step - 1)))
    moved = _until(rest, failure, backoff.rest(rest.step))
    return replace(moved, step=rest.step + 1, stepped_seq=failure.seq)


def _until(rest: Rest, failure: Failure, length: int) -> Rest:
    until = failure.now + length
    if until <= rest.until:
        return rest
    return replace(rest, until=until, wait=failure.wait, set_seq=failure.seq)


def fold_cooldown_success(rest: Rest, lease_seq: int) -> Rest:
    """A success resets k; one whose lease began after the cooldown was set also ends it."""
    if rest is NO_REST or lease_seq > rest.set_seq:
        return NO_REST
    return replace(rest, step=0, stepped_seq=-1)


def fold_lockout_success(rest: Rest, lease_seq: int) -> Rest:
    """A success halves k; one whose lease began after the lockout was set also ends it."""
    if rest is NO_REST:
        return rest
    halved = replace(rest, step=rest.step // 2)
    if lease_seq <= rest.set_seq:
        return halved
    return replace(halved, until=0, wait=None) if halved.step else NO_REST


EXCLUDE_BELOW = 0.2
READMIT_FROM = 0.3
FIRST_EXCLUSION = 5 * MINUTE
LONGEST_EXCLUSION = 30 * MINUTE
CHECK_SUSPENDED = 30 * MINUTE
DOUBLING_FORGOTTEN = 30 * MINUTE


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Exclusion of one candidate in one scope.

    ``until`` 0: not excluded. ``ended_at`` is when it last ended. ``exempt_until`` suspends the check after a good
    probe. ``probe`` holds the one permit after the exclusion's end, until ``probe_until``.
    """

    until: int = 0
    length: int = 0
    ended_at: int = 0
    exempt_until: int = 0
    probe: str = ""
    probe_until: int = 0

    def out(self, now: int) -> bool:
        """A new request sees it excluded: still running, or its probe is under way."""
        return self.until > 0 and (now < self.until or (bool(self.probe) and now < self.probe_until))

    def due(self, now: int) -> bool:
        """The exclusion has run out and waits for a good score or a probe."""
        return self.until > 0 and now >= self.until and not self.out(now)

    def exempt(self, now: int) -> bool:
        """A low score starts nothing: it is out, or waits for its probe, or a good probe was not long ago."""
        return self.until > 0 or now < self.exempt_until

    def recovers_at(self, now: int) -> int:
        return self.until if now < self.until else self.probe_until


NOT_EXCLUDED = Exclusion()


def start_exclusion(exclusion: Exclusion, now: int) -> Exclusion:
    """A score under the bar: 5 minutes, doubled each time again within 30 minutes, at most 30 minutes."""
    again = exclusion.length and now - exclusion.ended_at < DOUBLING_FORGOTTEN
    length = min(LONGEST_EXCLUSION, exclusion.length * 2) if again else FIRST_EXCLUSION
    return Exclusion(until=now + length, length=length)


def fold_exclusion(exclusion: Exclusion, verdict: Verdict, now: int) -> Exclusion:
    """The outcome of an exclusion's probe folded in."""
    if verdict is Verdict.SUCCESS:
        return Exclusion(length=exclusion.length, ended_at=now, exempt_until=now + CHECK_SUSPENDED)
    if verdict is Verdict.FAILURE:
        length = min(LONGEST_EXCLUSION, max(FIRST_EXCLUSION, exclusion.length * 2))
        return Exclusion(until=now + length, length=length)
    return replace(exclusion, probe="", probe_until=0)


def readmit(exclusion: Exclusion, now: int) -> Exclusion:
    """A good score after the exclusion's end."""
    return Exclusion(length=exclusion.length, ended_at=now)
