"""One decision: resolve -> screen -> order -> chain. Reads state, writes none."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from decision_service.kernel.controls import Wishes, adaptive_effort, read_controls
from decision_service.kernel.draft import Ask, Draft, Effect, Readmit
from decision_service.kernel.health import Phase
from decision_service.kernel.live import Member
from decision_service.kernel.model import SECOND, Combo, Refused, Rejection, Request, Shape, Turn
from decision_service.kernel.pool import Pool, Unit
from decision_service.kernel.screening import (
    WINDOW_FILTERS,
    Needs,
    earliest_recovery,
    first_filters,
    incapable,
    needs_of,
    unavailable,
)
from decision_service.kernel.state import RoutingState
from decision_service.kernel.strategies import STRATEGIES

REQUEST_TIMEOUT_MS = 600 * SECOND
LEASE_GRACE_MS = 30 * SECOND
SHORTEST_PROBE_MS = 5 * SECOND


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided, with what is needed to explain it.

    ``chain`` holds the calls in order; ``timeouts`` their time-outs in milliseconds. ``probe``: the first call is a
    probe. ``reusable``: an edge may use the plan again for the like. ``rejected`` is what was stopped at this moment;
    ``pool.rejected`` what the policy stops always.
    """

    request: Request
    combo: Combo
    pool: Pool
    turn: Turn
    draft: Draft
    scope: str
    shape: Shape
    chain: Sequence[Member]
    timeouts: Sequence[int]
    lease_ms: int
    probe: bool
    incident: bool
    effort: str
    reusable: bool
    opened: tuple[str, ...]
    ignored: tuple[str, ...]
    rejected: Mapping[str, Rejection]

    @property
    def effects(self) -> Sequence[Effect]:
        return self.draft.effects


def decide(request: Request, state: RoutingState, turn: Turn) -> Decision:
    """The decision on a request; raises ``Refused``. The same state, request and turn give the same decision."""
    wishes = read_controls(request)
    combo = state.combo(request.model)
    pool = state.pool(combo, request.model, request.api_key_id)
    needs = needs_of(request, max(wishes.min_context, combo.config.min_context_window or 0))
    rejected: dict[str, Rejection] = {}
    units = screen(pool, needs, state, combo.name, turn.now, rejected)
    if not units:
        raise refusal(pool, needs, rejected, turn.now)
    incident = in_incident(pool, turn.now)
    ask = Ask(state, request, combo, pool, turn, wishes, combo.name, incident)
    draft = Draft(rejected=rejected)
    ordered = _busy_last(STRATEGIES[combo.strategy](units, ask, draft), ask)
    chain = _distinct(ordered)
    due = _awaiting_probe(chain, ask, draft)
    timeouts = [_timeout(member, ask, due) for member in chain]
    return Decision(
        request=request,
        combo=combo,
        pool=pool,
        turn=turn,
        draft=draft,
        scope=combo.name,
        shape=Shape.SINGLE,
        chain=chain,
        timeouts=timeouts,
        lease_ms=min(REQUEST_TIMEOUT_MS, sum(timeouts)) + LEASE_GRACE_MS,
        probe=chain[0].id in due or _half_open(chain[0], turn.now),
        incident=incident,
        effort=adaptive_effort(request, wishes),
        reusable=not _strict_budget(wishes, combo),
        opened=(*pool.opened, *draft.opened),
        ignored=wishes.ignored,
        rejected=rejected,
    )


def screen(
    pool: Pool, needs: Needs, state: RoutingState, scope: str, now: int, rejected: dict[str, Rejection]
) -> list[Unit]:
    """The units with the members that pass every gate; the others land in ``rejected``.

    Candidates that are excluded by score come back when nothing else is left.
    """
    units: list[Unit] = []
    excluded: list[Unit] = []
    check_exclusions = bool(state.exclusions)
    for unit in pool.units:
        passed = []
        for member in unit.members:
            stop = unavailable(member, now) or incapable(member, needs)
            if stop is None:
                passed.append(member)
            else:
                rejected[member.id] = stop
        if not passed:
            continue
        if len(passed) > 1:
            passed.sort(key=lambda m: (m.account.in_flight, m.account.last_used))
        out = check_exclusions and state.exclusion(scope, passed[0].id).out(now)
        (excluded if out else units).append(Unit(unit.step, passed, unit.key, unit.place))
    if not units:
        return excluded
    for unit in excluded:
        recovers = state.exclusion(scope, unit.head.id).recovers_at(now)
        rejected[unit.head.id] = Rejection("exclusion", "excluded by score", recovers)
    return units


def refusal(pool: Pool, needs: Needs, rejected: Mapping[str, Rejection], now: int) -> Refused:
    """Why nothing can be chosen: policy, capability or availability, in this order of blame."""
    if not pool.every:
        return Refused("NO_AVAILABLE_TARGET", "no connection serves this model: add one, or set a provider key")
    if not pool.units:
        names = ", ".join(pool.policy_filters)
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


def in_incident(pool: Pool, now: int) -> bool:
    """Strictly more than half of the pool's providers are open."""
    down = sum(1 for p in pool.providers if p.breaker.open and p.breaker.phase(now) is Phase.OPEN)
    return 2 * down > len(pool.providers)


def _busy_last(units: list[Unit], ask: Ask) -> list[Unit]:
    """Steps at their limit of live leases go to the tail, in the same order."""
    default = ask.combo.config.max_concurrent
    leases = ask.state.step_leases

    def busy(unit: Unit) -> bool:
        limit = default if unit.step.max_concurrent is None else unit.step.max_concurrent
        return limit > 0 and leases.get((ask.scope, unit.key), 0) >= limit

    if not default and all(not unit.step.max_concurrent for unit in units):
        return units
    return sorted(units, key=busy)


def _distinct(units: Sequence[Unit]) -> list[Member]:
    """The chain: every candidate once, at its first place."""
    chain: dict[str, Member] = {}
    for unit in units:
        for member in unit.members:
            chain.setdefault(member.id, member)
    return list(chain.values())


def _awaiting_probe(chain: Sequence[Member], ask: Ask, draft: Draft) -> frozenset[str]:
    """Those whose next call is the probe of their exclusion: it has run out, and no good score ends it here."""
    if not ask.state.exclusions:
        return frozenset()
    readmitted = {effect.candidate for effect in draft.effects if isinstance(effect, Readmit)}
    due = {m.id for m in chain if ask.state.exclusion(ask.scope, m.id).due(ask.turn.now)}
    return frozenset(due - readmitted)


def _timeout(member: Member, ask: Ask, due: Container[str]) -> int:
    """A target's time-out; a quarter of it, at least 5 s, while it would be an exclusion's probe."""
    timeout = ask.combo.config.target_timeout_ms
    return min(timeout, max(SHORTEST_PROBE_MS, timeout // 4)) if member.id in due else timeout


def _half_open(member: Member, now: int) -> bool:
    return member.provider.breaker.open and member.provider.breaker.phase(now) is Phase.HALF_OPEN


def _strict_budget(wishes: Wishes, combo: Combo) -> bool:
    capped = wishes.budget is not None or combo.config.budget_cap is not None
    return capped and (wishes.budget_fallback or combo.config.budget_fallback) == "strict"
