"""The `auto` strategy: budget -> score -> exclusion -> explore or pick -> chain. And `lkgp`, its plain sister."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from decision_service.kernel.affinity import SERVED_BEFORE
from decision_service.kernel.budget import by_estimate, within_budget
from decision_service.kernel.draft import Advance, Ask, Draft, Exclude, Readmit, shared
from decision_service.kernel.health import EXCLUDE_BELOW, NOT_EXCLUDED, READMIT_FROM, start_exclusion
from decision_service.kernel.knowledge.tasks import task_type_of
from decision_service.kernel.model import Rejection
from decision_service.kernel.pool import Unit
from decision_service.kernel.recall import pinned
from decision_service.kernel.routers import PINNABLE, ROUTER_STRATEGIES, Scored, equals_in_turn, known_good
from decision_service.kernel.scoring import score_units
from decision_service.kernel.strategies.order import pick_index
from decision_service.kernel.weights import PACKS

INCIDENT_PACK = "reliability-first"


def auto(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    draft.task_type = task_type_of(ask.request)
    draft.weights_source, draft.weights = _weights(ask, ask.wishes.pack)
    draft.effects.append(Advance(ask.scope))
    affordable = within_budget(units, ask, draft)
    if not affordable:
        score_units(units, ask, draft)
        return by_estimate(units, ask, draft)
    values = score_units(affordable, ask, draft)
    kept = _kept(affordable, values, ask, draft)
    if kept is not None:
        affordable = [affordable[i] for i in kept]
        values = [values[i] for i in kept]
    scored = Scored([unit.members[0] for unit in affordable], _multiplied(affordable, values, ask), draft.task_type)
    return [affordable[i] for i in _chain(scored, _pick(scored, ask, draft))]


def lkgp(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    """Last known good of the scope first, then by score, equals in turn."""
    draft.task_type = task_type_of(ask.request)
    draft.weights_source, draft.weights = _weights(ask, None)
    draft.effects.append(Advance(ask.scope))
    values = score_units(units, ask, draft)
    scored = Scored(draft.scored, values, draft.task_type)
    first = known_good(scored, ask, draft)
    if first is None:
        group = equals_in_turn(scored, ask)
        first, draft.reason = group[0], shared("highest score", len(group))
    return [units[i] for i in _chain(scored, first)]


def _weights(ask: Ask, wished: str | None) -> tuple[str, Mapping[str, float]]:
    """Name of the source, and the weights."""
    config, channel = ask.combo.config, ask.combo.channel
    pack = wished or (INCIDENT_PACK if ask.incident else None) or config.mode_pack
    if pack is None and ask.pool.weights is not None:
        return "combo", ask.pool.weights
    name = pack or (channel.pack if channel else "balanced")
    return name, PACKS[name]


def _kept(units: Sequence[Unit], values: Sequence[float], ask: Ask, draft: Draft) -> list[int] | None:
    """The exclusion check: places of what is not under the bar. None: all stay, or nothing else would be left."""
    exclusions = ask.state.exclusions.of(ask.scope)
    if not exclusions and min(values) >= EXCLUDE_BELOW:
        return None
    kept: list[int] = []
    low: list[int] = []
    for place, (unit, value) in enumerate(zip(units, values, strict=True)):
        exclusion = exclusions.get(unit.head.id)
        exempt = False
        if exclusion is not None:
            exempt = exclusion.exempt(ask.turn.now)
            if exclusion.due(ask.turn.now) and value >= READMIT_FROM:
                draft.effects.append(Readmit(ask.scope, unit.head.id))
        (low if value < EXCLUDE_BELOW and not exempt else kept).append(place)
    if not low or not kept:
        return None
    stored = ask.wishes.pack is None and not ask.incident
    for place in low:
        member = units[place].head
        started = start_exclusion(exclusions.get(member.id, NOT_EXCLUDED), ask.turn.now)
        until = started.until if stored else None
        draft.rejected[member.id] = Rejection("exclusion", f"score {values[place]:.4f} < {EXCLUDE_BELOW}", until)
        if stored:
            draft.effects.append(Exclude(ask.scope, member.id))
    return kept


def _multiplied(units: Sequence[Unit], values: Sequence[float], ask: Ask) -> Sequence[float]:
    """A key's multipliers re-order what is left; 0 puts a candidate last, not out."""
    multipliers = ask.pool.multipliers
    if not multipliers:
        return values
    return [value * multipliers.get(unit.head.id, 1.0) for unit, value in zip(units, values, strict=True)]


def _pick(scored: Scored, ask: Ask, draft: Draft) -> int:
    """The place of the pick; and the probability with which it was made."""
    config, count = ask.combo.config, len(scored.members)
    rate = 0.0 if ask.incident or count < 2 else config.exploration_rate
    explore = rate > 0.0 and ask.turn.rng.random() < rate
    drawn = pick_index(count, ask.turn.rng) if explore else None
    routed = _routed(scored, ask, draft)
    chosen = routed if drawn is None else drawn
    draft.propensity = rate / count + (1.0 - rate if chosen == routed else 0.0)
    if drawn is not None:
        draft.exploration = True
        draft.reason = "explored: drawn at random"
    return chosen


def _routed(scored: Scored, ask: Ask, draft: Draft) -> int:
    """The session pin where the router strategy allows it, else the router strategy's pick."""
    name = draft.router_strategy = ask.combo.config.router_strategy
    if ask.pin is not None and name in PINNABLE:
        member = pinned(scored.members, ask.pin, ask.turn.now)
        if member is not None:
            draft.reason = SERVED_BEFORE
            return scored.members.index(member)
    router = ROUTER_STRATEGIES.get(name) or ask.state.routers[name]
    return router(scored, ask, draft)


def _chain(scored: Scored, first: int) -> list[int]:
    """The pick, then the others by score; equals in pool order."""
    order = sorted(range(len(scored.values)), key=scored.values.__getitem__, reverse=True)
    order.remove(first)
    order.insert(0, first)
    return order
