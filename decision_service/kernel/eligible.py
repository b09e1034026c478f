"""Who may be chosen: the gate applied to a pool, and the refusal when it lets nobody through."""

from __future__ import annotations

from collections.abc import Mapping

from decision_service.kernel.draft import Ask
from decision_service.kernel.health import Phase
from decision_service.kernel.live import ChangeLog, Member
from decision_service.kernel.model import Refused, Rejection
from decision_service.kernel.pool import Pool, Unit
from decision_service.kernel.recall import pinned
from decision_service.kernel.screening import (
    WINDOW_FILTERS,
    Needs,
    earliest_recovery,
    first_filters,
    incapable,
    unavailable,
)
from decision_service.kernel.state import RoutingState


def eligible(needs: Needs, ask: Ask, rejected: dict[str, Rejection]) -> list[Unit]:
    """The units that may be chosen for a call with these needs; who is stopped lands in ``rejected``.

    Raises ``Refused`` when there is none.
    """
    pool, now = ask.pool, ask.turn.now
    stops = pool.gate.stops(needs, ask.state.log, now)
    for place, stop in stops.items():
        rejected[pool.members[place].id] = stop
    units = available(stops, ask, rejected)
    if not units:
        raise refusal(pool, needs, rejected, now)
    return units


def unreachable(member: Member, scope: str, state: RoutingState, now: int) -> Rejection | None:
    """Why a member cannot be chosen in a scope now, whatever the request; None: it can."""
    stop = unavailable(member, now)
    exclusion = state.exclusion(scope, member.id)
    if stop is None and exclusion.out(now):
        return Rejection("exclusion", "excluded by score", exclusion.recovers_at(now))
    return stop


def available(stops: Mapping[int, Rejection], ask: Ask, rejected: dict[str, Rejection]) -> list[Unit]:
    """The units with the members that nothing stops, each unit's members in the order in which they are tried.

    Candidates that are excluded by score come back when nothing else is left.
    """
    pool = ask.pool
    if stops or not pool.flat:
        units = [left for unit in pool.units if (left := open_unit(unit, stops, ask)) is not None]
    else:
        units = list(pool.units)
    exclusions = ask.state.exclusions.of(ask.scope)
    out = {candidate for candidate, exclusion in exclusions.items() if exclusion.out(ask.turn.now)}
    admitted = [unit for unit in units if unit.members[0].id not in out] if out else units
    if len(admitted) in (0, len(units)):
        return units
    for unit in units:
        if unit.head.id in out:
            until = exclusions[unit.head.id].recovers_at(ask.turn.now)
            rejected[unit.head.id] = Rejection("exclusion", "excluded by score", until)
    return admitted


def open_unit(unit: Unit, stops: Mapping[int, Rejection], ask: Ask) -> Unit | None:
    """The unit with what is left of its members: the conversation's first, then the least busy and longest unused.

    Of a reference, the members of each inner step stay together, in declared order.
    """
    members = [member for member in unit.members if member.place not in stops]
    if len(members) == len(unit.members) == 1:
        return unit
    if not members:
        return None
    rank = {step: place for place, step in enumerate(dict.fromkeys(m.step.id for m in members))}
    home = pinned(members, ask.pin, ask.turn.now)
    members.sort(key=lambda m: (rank[m.step.id], m is not home, m.account.in_flight, m.account.last_used))
    return Unit(unit.step, members, unit.key, unit.place)


def refusal(pool: Pool, needs: Needs, rejected: Mapping[str, Rejection], now: int) -> Refused:
    """Why nothing can be chosen: policy, capability or availability, in this order of blame."""
    if not pool.every:
        return Refused("NO_AVAILABLE_TARGET", "no connection serves this model: add one, or set a provider key")
    if not pool.units:
        names = ", ".join(dict.fromkeys(stop.filter for stop in pool.rejected.values()))
        return Refused("POLICY_EXCLUDES_ALL", f"policy excludes every candidate: {names}", rejected=pool.rejected)
    stops = {m.id: stop for m in pool.members if (stop := incapable(m, needs)) is not None}
    waiting = {m.id: rejected[m.id] for m in pool.members if m.id not in stops and m.id in rejected}
    if not waiting:
        alone = all(stop.filter in WINDOW_FILTERS for stop in stops.values())
        reason = "CONTEXT_LENGTH_EXCEEDED" if alone else "CAPABILITY_MISMATCH"
        return Refused(reason, _incapacity(stops, needs, alone=alone), rejected=rejected)
    return Refused(
        "NO_AVAILABLE_TARGET",
        f"no target is available now ({first_filters(waiting)})",
        retry_at=earliest_recovery(list(waiting.values())),
        rate_limited=all(stop.rate_limited for stop in waiting.values()),
        rejected=rejected,
    )


def _incapacity(stops: Mapping[str, Rejection], needs: Needs, *, alone: bool) -> str:
    if alone and any(stop.filter == "min_context" for stop in stops.values()):
        asked = "X-OmniRoute-Min-Context, or the combo's minContextWindow"
        return f"no candidate has a window of {needs.floor} tokens: {asked}"
    reasons = sorted({stop.reason for stop in stops.values()})
    return "no candidate can serve this request: " + "; ".join(reasons[:3])


def in_incident(pool: Pool, log: ChangeLog, now: int) -> bool:
    """Strictly more than half of the pool's providers are open."""
    if not pool.gate.any_troubled(log):
        return False
    down = sum(1 for p in pool.providers if p.breaker.open and p.breaker.phase(now) is Phase.OPEN)
    return 2 * down > len(pool.providers)
