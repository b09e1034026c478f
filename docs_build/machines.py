"""Self-healing: the state machines of ``kernel/health.py``, each with the events that move it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace

from decision_service.kernel.health import (
    AUTH_BACKOFF,
    BREAKER_LIMITS,
    MISSING_MODEL_BACKOFF,
    NO_REST,
    NOT_EXCLUDED,
    OVERLOAD_BACKOFF,
    RATE_LIMIT_BACKOFF,
    Backoff,
    Breaker,
    Exclusion,
    Failure,
    Phase,
    Rest,
    Verdict,
    Wait,
    fold_breaker,
    fold_cooldown_success,
    fold_exclusion,
    fold_lockout_success,
    fold_wait,
    grant_probe,
    readmit,
    start_exclusion,
)
from decision_service.kernel.model import MINUTE, SECOND, ProviderClass
from docs_build.machine import Edge, Machine

NOW = 1_000_000
PROBE_MS = 150 * SECOND
HINT_MS = 10 * SECOND
LOCAL = BREAKER_LIMITS[ProviderClass.LOCAL]


# Breaker


@dataclass(frozen=True, slots=True)
class BreakerAt:
    """A breaker at an instant."""

    breaker: Breaker = Breaker()
    now: int = NOW


def _breaker_phase(world: BreakerAt) -> str:
    return "PROBING" if world.breaker.probe_held(world.now) else world.breaker.phase(world.now).value


def _outcome(verdict: Verdict) -> Callable[[BreakerAt], BreakerAt]:
    def event(world: BreakerAt) -> BreakerAt:
        whose = world.breaker.probe or "any"
        return replace(world, breaker=fold_breaker(world.breaker, verdict, whose, world.now, LOCAL, seq=1))

    return event


def _asked(world: BreakerAt) -> BreakerAt | None:
    if world.breaker.phase(world.now) is not Phase.HALF_OPEN:
        return None
    return replace(world, breaker=grant_probe(world.breaker, "probe", world.now + PROBE_MS))


def _breaker_time(world: BreakerAt) -> BreakerAt | None:
    waits = world.breaker.phase(world.now) is Phase.OPEN
    return replace(world, now=world.breaker.recovers_at(world.now)) if waits else None


BREAKER = Machine(
    begin=BreakerAt(),
    events={
        "failure": _outcome(Verdict.FAILURE),
        "success": _outcome(Verdict.SUCCESS),
        "uncounted": _outcome(Verdict.NEUTRAL),
        "asked": _asked,
        "time": _breaker_time,
    },
    phase=_breaker_phase,
    alike=lambda world: (_breaker_phase(world), world.breaker.failures),
    edges={
        ("CLOSED", "failure", "CLOSED"): "a counted failure",
        ("CLOSED", "success", "CLOSED"): "a success takes one off",
        ("CLOSED", "uncounted", "CLOSED"): "",
        ("CLOSED", "failure", "OPEN"): "as many failures as its limit",
        ("OPEN", "failure", "OPEN"): "",
        ("OPEN", "success", "OPEN"): "",
        ("OPEN", "uncounted", "OPEN"): "",
        ("OPEN", "time", "HALF_OPEN"): "its rest is over",
        ("HALF_OPEN", "asked", "PROBING"): "a decision takes the permit",
        ("HALF_OPEN", "success", "CLOSED"): "a fallback succeeds there",
        ("HALF_OPEN", "failure", "OPEN"): "a fallback fails there",
        ("HALF_OPEN", "uncounted", "HALF_OPEN"): "",
        ("PROBING", "success", "CLOSED"): "the probe succeeds",
        ("PROBING", "failure", "OPEN"): "the probe fails",
        ("PROBING", "uncounted", "HALF_OPEN"): "the probe ends without counting",
        ("PROBING", "time", "HALF_OPEN"): "the permit lapses",
    },
)


# Cooldown, refused credential, lockout


@dataclass(frozen=True, slots=True)
class RestAt:
    """A rest at an instant, after ``seq`` events."""

    rest: Rest = NO_REST
    now: int = NOW
    seq: int = 0


def _rest_phase(world: RestAt) -> str:
    if world.rest == NO_REST:
        return "CLEAR"
    return "RESTING" if world.rest.active(world.now) else "RESTED"


def _failed(wait: Wait, backoff: Backoff, hint_ms: int | None = None) -> Callable[[RestAt], RestAt]:
    """A failure whose attempt began after all that has happened."""

    def event(world: RestAt) -> RestAt:
        failure = Failure(wait, world.seq + 1, world.seq + 2, world.now, hint_ms)
        return RestAt(fold_wait(world.rest, failure, backoff), world.now, world.seq + 2)

    return event


def _succeeded(fold: Callable[[Rest, int], Rest], *, later: bool) -> Callable[[RestAt], RestAt]:
    """A success whose attempt began after the rest was set, or before."""

    def event(world: RestAt) -> RestAt:
        return replace(world, rest=fold(world.rest, world.seq + 1 if later else world.rest.set_seq))

    return event


def _rest_time(world: RestAt) -> RestAt | None:
    return replace(world, now=world.rest.until) if world.rest.active(world.now) else None


def _cleared(world: RestAt) -> RestAt:
    return replace(world, rest=NO_REST)


def _resting(events: Mapping[str, Callable[[RestAt], RestAt | None]], edges: Mapping[Edge, str]) -> Machine[RestAt]:
    def alike(world: RestAt) -> Hashable:
        return _rest_phase(world), min(world.rest.step, 8), world.rest.wait

    return Machine(RestAt(), {**events, "time": _rest_time}, _rest_phase, alike, edges)


COOLDOWN = _resting(
    {
        "hint": _failed(Wait.RATE_LIMITED, RATE_LIMIT_BACKOFF[ProviderClass.API_KEY], HINT_MS),
        "no hint": _failed(Wait.RATE_LIMITED, RATE_LIMIT_BACKOFF[ProviderClass.API_KEY]),
        "success": _succeeded(fold_cooldown_success, later=True),
        "older success": _succeeded(fold_cooldown_success, later=False),
    },
    {
        ("CLEAR", "hint", "RESTING"): "a limit with a hint",
        ("CLEAR", "no hint", "RESTING"): "a limit without one, k rises",
        ("CLEAR", "success", "CLEAR"): "",
        ("CLEAR", "older success", "CLEAR"): "",
        ("RESTING", "hint", "RESTING"): "",
        ("RESTING", "no hint", "RESTING"): "again, its end never moves earlier",
        ("RESTING", "success", "CLEAR"): "a success whose attempt began later",
        ("RESTING", "older success", "RESTING"): "another success, k is 0",
        ("RESTING", "time", "RESTED"): "its end has come",
        ("RESTED", "hint", "RESTING"): "",
        ("RESTED", "no hint", "RESTING"): "again, longer, k rises",
        ("RESTED", "success", "CLEAR"): "a success",
        ("RESTED", "older success", "RESTED"): "",
    },
)

AUTH = _resting(
    {
        "refused": _failed(Wait.AUTH_FAILED, AUTH_BACKOFF),
        "success": _succeeded(fold_cooldown_success, later=True),
        "credential": _cleared,
    },
    {
        ("CLEAR", "refused", "RESTING"): "401 or 403",
        ("CLEAR", "success", "CLEAR"): "",
        ("CLEAR", "credential", "CLEAR"): "",
        ("RESTING", "refused", "RESTING"): "",
        ("RESTING", "success", "CLEAR"): "a success whose attempt began later",
        ("RESTING", "credential", "CLEAR"): "another credential",
        ("RESTING", "time", "RESTED"): "its end has come",
        ("RESTED", "refused", "RESTING"): "again, twice as long",
        ("RESTED", "success", "CLEAR"): "a success",
        ("RESTED", "credential", "CLEAR"): "another credential",
    },
)

LOCKOUT = _resting(
    {
        "missing": _failed(Wait.MODEL_NOT_FOUND, MISSING_MODEL_BACKOFF),
        "hint": _failed(Wait.OVERLOADED, OVERLOAD_BACKOFF, HINT_MS),
        "no hint": _failed(Wait.OVERLOADED, OVERLOAD_BACKOFF),
        "success": _succeeded(fold_lockout_success, later=True),
        "older success": _succeeded(fold_lockout_success, later=False),
    },
    {
        ("CLEAR", "missing", "RESTING"): "the model is not there",
        ("CLEAR", "hint", "RESTING"): "overloaded or limited, with a hint",
        ("CLEAR", "no hint", "RESTING"): "without one, k rises",
        ("CLEAR", "success", "CLEAR"): "",
        ("CLEAR", "older success", "CLEAR"): "",
        ("RESTING", "missing", "RESTING"): "",
        ("RESTING", "hint", "RESTING"): "",
        ("RESTING", "no hint", "RESTING"): "again, its end never moves earlier",
        ("RESTING", "success", "RESTED"): "a success whose attempt began later, half of k is left",
        ("RESTING", "success", "CLEAR"): "such a success, nothing of k is left",
        ("RESTING", "older success", "RESTING"): "another success halves k",
        ("RESTING", "time", "RESTED"): "its end has come",
        ("RESTED", "missing", "RESTING"): "",
        ("RESTED", "hint", "RESTING"): "",
        ("RESTED", "no hint", "RESTING"): "again, longer, k rises",
        ("RESTED", "success", "RESTED"): "a success, half of k is left",
        ("RESTED", "success", "CLEAR"): "a success, nothing of k is left",
        ("RESTED", "older success", "RESTED"): "",
    },
)


# Exclusion


@dataclass(frozen=True, slots=True)
class ExclusionAt:
    """An exclusion at an instant."""

    exclusion: Exclusion = NOT_EXCLUDED
    now: int = NOW

    @property
    def probing(self) -> bool:
        return bool(self.exclusion.probe) and self.now < self.exclusion.probe_until


def _exclusion_phase(world: ExclusionAt) -> str:
    exclusion, now = world.exclusion, world.now
    if world.probing:
        return "PROBING"
    if exclusion.out(now):
        return "EXCLUDED"
    if exclusion.due(now):
        return "DUE"
    return "EXEMPT" if exclusion.exempt(now) else "ADMITTED"


def _low(world: ExclusionAt) -> ExclusionAt | None:
    """A decision scores it under the bar; what is out is not scored."""
    if world.exclusion.out(world.now):
        return None
    if world.exclusion.exempt(world.now):
        return world
    return replace(world, exclusion=start_exclusion(world.exclusion, world.now))


def _good(world: ExclusionAt) -> ExclusionAt | None:
    if world.exclusion.out(world.now):
        return None
    return replace(world, exclusion=readmit(world.exclusion, world.now)) if world.exclusion.due(world.now) else world


def _reached(world: ExclusionAt) -> ExclusionAt | None:
    """An attempt begins at it."""
    if not world.exclusion.due(world.now):
        return None
    return replace(world, exclusion=replace(world.exclusion, probe="probe", probe_until=world.now + PROBE_MS))


def _probed(verdict: Verdict) -> Callable[[ExclusionAt], ExclusionAt | None]:
    def event(world: ExclusionAt) -> ExclusionAt | None:
        return replace(world, exclusion=fold_exclusion(world.exclusion, verdict, world.now)) if world.probing else None

    return event


def _exclusion_time(world: ExclusionAt) -> ExclusionAt | None:
    if world.exclusion.out(world.now):
        return replace(world, now=world.exclusion.recovers_at(world.now))
    exempt = _exclusion_phase(world) == "EXEMPT"
    return replace(world, now=world.exclusion.exempt_until) if exempt else None


def _exclusion_alike(world: ExclusionAt) -> Hashable:
    recent = world.now - world.exclusion.ended_at < 30 * MINUTE
    return _exclusion_phase(world), world.exclusion.length, recent


EXCLUSION = Machine(
    begin=ExclusionAt(),
    events={
        "low": _low,
        "good": _good,
        "reached": _reached,
        "success": _probed(Verdict.SUCCESS),
        "failure": _probed(Verdict.FAILURE),
        "neither": _probed(Verdict.NEUTRAL),
        "time": _exclusion_time,
    },
    phase=_exclusion_phase,
    alike=_exclusion_alike,
    edges={
        ("ADMITTED", "low", "EXCLUDED"): "a score under 0.2",
        ("ADMITTED", "good", "ADMITTED"): "",
        ("EXCLUDED", "time", "DUE"): "its time is over",
        ("DUE", "good", "ADMITTED"): "a score of 0.3 or more",
        ("DUE", "low", "DUE"): "a lower one changes nothing",
        ("DUE", "reached", "PROBING"): "an attempt reaches it",
        ("PROBING", "success", "EXEMPT"): "the probe succeeds",
        ("PROBING", "failure", "EXCLUDED"): "the probe fails, twice as long",
        ("PROBING", "neither", "DUE"): "the probe ends without blame",
        ("PROBING", "time", "DUE"): "the permit lapses",
        ("EXEMPT", "low", "EXEMPT"): "scores are not checked",
        ("EXEMPT", "good", "EXEMPT"): "",
        ("EXEMPT", "time", "ADMITTED"): "half an hour later",
    },
)
