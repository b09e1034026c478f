"""The `auto` strategy: budget -> score -> exclusion -> explore or pick -> chain."""

from __future__ import annotations

from collections.abc import Sequence

from decision_service.kernel.draft import Ask, Draft, Exclude, Readmit
from decision_service.kernel.factors import survey
from decision_service.kernel.health import EXCLUDE_BELOW, READMIT_FROM
from decision_service.kernel.knowledge.tasks import task_type_of
from decision_service.kernel.live import Member
from decision_service.kernel.model import Refused, Rejection
from decision_service.kernel.pool import Unit
from decision_service.kernel.pricing import estimate
from decision_service.kernel.routers import ROUTER_STRATEGIES, Scored
from decision_service.kernel.scoring import score
from decision_service.kernel.strategies.order import pick_index
from decision_service.kernel.weights import PACKS, normalised

INCIDENT_PACK = "reliability-first"


def auto(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    members = [unit.head for unit in units]
    draft.task_type = task_type_of(ask.request)
    _choose_weights(ask, draft)
    affordable = _within_budget(members, ask, draft)
    scored = _scored(affordable or members, ask, draft)
    if not affordable:
        draft.reason = "cheapest: every candidate is over the budget"
        ordered: Sequence[Member] = sorted(scored.members, key=lambda m: estimate(m.candidate, ask.request))
    else:
        ordered = _pick(_kept(scored, ask, draft), ask, draft)
    by_member = {id(unit.head): unit for unit in units}
    return [by_member[id(member)] for member in ordered]


def _choose_weights(ask: Ask, draft: Draft) -> None:
    config, channel = ask.combo.config, ask.combo.channel
    pack = ask.wishes.pack or (INCIDENT_PACK if ask.incident else None) or config.mode_pack
    if pack is None and config.weights is not None:
        draft.weights_source, draft.weights = "combo", normalised(config.weights)
        return
    draft.weights_source = pack or (channel.pack if channel else "balanced")
    draft.weights = PACKS[draft.weights_source]


def _within_budget(members: list[Member], ask: Ask, draft: Draft) -> list[Member]:
    """The members under the cap; none when all are over it and the fallback is `cheapest`."""
    cap = ask.wishes.budget or ask.combo.config.budget_cap
    if cap is None:
        return members
    costs = {m.id: estimate(m.candidate, ask.request) for m in members}
    affordable = [m for m in members if costs[m.id] <= cap]
    if affordable:
        for member in members:
            if costs[member.id] > cap:
                draft.rejected[member.id] = Rejection("budget", f"estimate {costs[member.id]:.6g} USD > {cap:.6g} USD")
        return affordable
    if (ask.wishes.budget_fallback or ask.combo.config.budget_fallback) == "strict":
        cheapest = min(costs.values())
        raise Refused(
            "BUDGET_EXCEEDED", f"budget: cap {cap:.6g} USD, the cheapest candidate is estimated at {cheapest:.6g} USD"
        )
    draft.opened.append("budget")
    return []


def _scored(members: Sequence[Member], ask: Ask, draft: Draft) -> Scored:
    scene = survey(members, ask.request, draft.task_type, ask.turn.now)
    scores = score(members, scene, draft.weights)
    draft.scene, draft.scored = scene, members
    draft.scores = {m.id: s for m, s in zip(members, scores, strict=True)}
    return Scored(members, draft.scores, scene)


def _kept(scored: Scored, ask: Ask, draft: Draft) -> Scored:
    """The exclusion check: what scores under the bar is out, unless nothing else is left."""
    state, now = ask.state, ask.turn.now
    kept: list[Member] = []
    low: list[Member] = []
    for member in scored.members:
        exclusion = state.exclusion(ask.scope, member.id)
        value = scored.scores[member.id]
        if exclusion.due(now) and value >= READMIT_FROM:
            draft.effects.append(Readmit(ask.scope, member.id))
        exempt = exclusion.until > 0 or now < exclusion.exempt_until
        (low if value < EXCLUDE_BELOW and not exempt else kept).append(member)
    if not kept:
        return scored
    stored = ask.wishes.pack is None and not ask.incident
    for member in low:
        draft.rejected[member.id] = Rejection("exclusion", f"score {scored.scores[member.id]:.4f} < {EXCLUDE_BELOW}")
        if stored:
            draft.effects.append(Exclude(ask.scope, member.id))
    return Scored(kept, scored.scores, scored.scene) if low else scored


def _pick(scored: Scored, ask: Ask, draft: Draft) -> list[Member]:
    """The pick, then the others by score; and the probability of that pick."""
    config, members = ask.combo.config, scored.members
    rate = 0.0 if ask.incident or len(members) < 2 else config.exploration_rate
    draft.router_strategy = config.router_strategy
    explore = rate > 0.0 and ask.turn.rng.random() < rate
    drawn = members[pick_index(len(members), ask.turn.rng)] if explore else None
    routed = ROUTER_STRATEGIES[config.router_strategy](scored, ask, draft)
    chosen = routed if drawn is None else drawn
    draft.propensity = rate / len(members) + (1.0 - rate if chosen is routed else 0.0)
    if drawn is not None:
        draft.exploration = True
        draft.reason = "explored at random"
    others = [m for m in members if m is not chosen]
    return [chosen, *sorted(others, key=lambda m: -scored.scores[m.id])]
