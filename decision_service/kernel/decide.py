"""One decision: resolve -> screen -> order -> chain. Reads state, writes none."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from decision_service.kernel.affinity import CACHE_ROTATED, by_cache, home_first
from decision_service.kernel.budget import by_estimate, within_budget
from decision_service.kernel.controls import Wishes, adaptive_effort, read_controls
from decision_service.kernel.draft import Ask, Draft, Effect, Readmit
from decision_service.kernel.factors import Scene
from decision_service.kernel.health import Phase
from decision_service.kernel.live import Member
from decision_service.kernel.model import SECOND, Advice, Combo, Refused, Rejection, Request, Shape, Turn
from decision_service.kernel.pool import Pool, Unit
from decision_service.kernel.recall import pin_key, pinned, sticky
from decision_service.kernel.scoring import scene_of
from decision_service.kernel.screening import (
    WINDOW_FILTERS,
    Needs,
    earliest_recovery,
    first_filters,
    incapable,
    needs_of,
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

    ask: Ask
    draft: Draft
    shape: Shape
    chain: Sequence[Member]
    timeouts: Sequence[int]
    lease_ms: int
    probe: bool
    effort: str
    reusable: bool
    opened: tuple[str, ...]

    @property
    def request(self) -> Request:
        return self.ask.request

    @property
    def combo(self) -> Combo:
        return self.ask.combo

    @property
    def pool(self) -> Pool:
        return self.ask.pool

    @property
    def turn(self) -> Turn:
        return self.ask.turn

    @property
    def scope(self) -> str:
        return self.ask.scope

    @property
    def strategy(self) -> str:
        """The strategy that ordered the chain: the combo's, or the one that the key pins."""
        return self.ask.pool.strategy or self.ask.combo.strategy

    @property
    def incident(self) -> bool:
        return self.ask.incident

    @property
    def ignored(self) -> tuple[str, ...]:
        return self.ask.wishes.ignored

    @property
    def rejected(self) -> Mapping[str, Rejection]:
        return self.draft.rejected

    @property
    def effects(self) -> Sequence[Effect]:
        return self.draft.effects

    def scene(self) -> Scene:
        """What the scored members share, for an explanation; only before the decision takes effect."""
        return scene_of(self.ask, self.draft)


def decide(request: Request, state: RoutingState, turn: Turn, advice: Advice | None = None) -> Decision:
    """The decision on a request; raises ``Refused``. The same state, request and turn give the same decision."""
    wishes = read_controls(request)
    combo = state.combo(request.model)
    pool = state.pool(combo, request.model, request.api_key_id)
    scope = f"{combo.name}@{request.api_key_id}" if pool.strategy else combo.name
    needs = needs_of(request, max(wishes.min_context, combo.config.min_context_window or 0))
    stops = pool.gate.stops(needs, state.log, turn.now)
    pin = state.pins.get(key) if (key := pin_key(request)) and sticky(request, combo, state.roster) else None
    rejected = {pool.members[place].id: stop for place, stop in stops.items()}
    incident = bool(stops) and in_incident(pool, turn.now)
    ask = Ask(state, request, combo, pool, turn, wishes, scope, incident, pin, advice)
    units = available(stops, ask, rejected)
    if not units:
        raise refusal(pool, needs, rejected, turn.now)
    draft = Draft(rejected=rejected)
    ordered = _busy_last(_ordered(units, ask, draft), ask)
    chain = [unit.members[0] for unit in ordered] if pool.flat else _distinct(ordered)
    due = _awaiting_probe(chain, ask, draft)
    timeout = combo.config.target_timeout_ms
    timeouts = [_timeout(member, ask, due) for member in chain] if due else [timeout] * len(chain)
    return Decision(
        ask=ask,
        draft=draft,
        shape=Shape.SINGLE,
        chain=chain,
        timeouts=timeouts,
        lease_ms=min(REQUEST_TIMEOUT_MS, sum(timeouts)) + LEASE_GRACE_MS,
        probe=chain[0].id in due or _half_open(chain[0], turn.now),
        effort=adaptive_effort(request, wishes),
        reusable=not _strict_budget(wishes, combo),
        opened=(*pool.opened, *draft.opened),
    )


def available(stops: Mapping[int, Rejection], ask: Ask, rejected: dict[str, Rejection]) -> list[Unit]:
    """The units with the members that nothing stops, each unit's members in the order in which they are tried.

    Candidates that are excluded by score come back when nothing else is left.
    """
    pool = ask.pool
    if stops or not pool.flat:
        units = [left for unit in pool.units if (left := _open_unit(unit, stops, ask)) is not None]
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


def _open_unit(unit: Unit, stops: Mapping[int, Rejection], ask: Ask) -> Unit | None:
    """The unit with what is left of its members: the conversation's first, then the least busy and longest unused."""
    members = [member for member in unit.members if member.place not in stops]
    if len(members) == len(unit.members) == 1:
        return unit
    if not members:
        return None
    members.sort(key=lambda m: (m.account.in_flight, m.account.last_used))
    home = pinned(members, ask.pin, ask.turn.now)
    if home is not None:
        members.remove(home)
        members.insert(0, home)
    return Unit(unit.step, members, unit.key, unit.place)


def _ordered(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    """The strategy's order, with what stands above every strategy: a key's pinned one, budgets, stickiness."""
    name = ask.pool.strategy or ask.combo.strategy
    if ask.pool.strategy and name != "auto":
        affordable = within_budget(units, ask, draft)
        if not affordable:
            return by_estimate(units, ask, draft)
        units = affordable
    ordered = STRATEGIES[name](units, ask, draft)
    if name in CACHE_ROTATED:
        ordered = by_cache(ordered, ask, draft)
    return home_first(ordered, name, ask, draft)


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

    if not default and not ask.pool.limited:
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
    if not ask.state.exclusions.of(ask.scope):
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
