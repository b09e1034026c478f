"""Scores: the weighted sum of the factors, each clamped once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from decision_service.kernel.draft import Ask, Draft
from decision_service.kernel.factors import FACTORS, Scene, survey
from decision_service.kernel.knowledge.tiers import recommended_tier
from decision_service.kernel.live import Member
from decision_service.kernel.pool import Unit
from decision_service.kernel.recall import cache_key, rendezvous_winner
from decision_service.kernel.statistics import clamp01


def score(members: Sequence[Member], scene: Scene, weights: Mapping[str, float]) -> list[float]:
    """Scores in [0,1] in the order of the members, factor by factor. Factors of weight 0 are not read."""
    rows = [(weight, FACTORS[name]) for name, weight in weights.items() if weight > 0.0]
    return [clamp01(sum([weight * clamp01(factor(m, scene)) for weight, factor in rows])) for m in members]


def breakdown(member: Member, scene: Scene) -> dict[str, float]:
    """Every factor of one member, each in [0,1]."""
    return {name: clamp01(factor(member, scene)) for name, factor in FACTORS.items()}


def score_units(units: Sequence[Unit], ask: Ask, draft: Draft) -> list[float]:
    """Scores of the units' heads under the draft's weights; the draft keeps them.

    A flat pool has its columns kept ready; others are scored the long way.
    """
    request, now = ask.request, ask.turn.now
    members = [unit.members[0] for unit in units]
    winner = ""
    if draft.weights["cacheAffinity"] > 0.0 and (key := cache_key(request, ask.state.roster)):
        winner = rendezvous_winner(members, key)
    if ask.pool.flat:
        hinted = None if request.specificity is None else recommended_tier(request.specificity)
        sheet = ask.pool.sheet(draft.weights, draft.task_type, hinted)
        sheet.sync(ask.state.log, now)
        places = None if len(units) == len(ask.pool.units) else [unit.place for unit in units]
        values = sheet.scores(places, request, now, winner)
        draft.sheet, draft.places = sheet, places
    else:
        values = score(members, survey(members, request, draft.task_type, now, winner), draft.weights)
        draft.sheet = None
    draft.scored, draft.values = members, values
    return values


def scene_of(ask: Ask, draft: Draft) -> Scene:
    """The scene that a draft's members were scored in, for an explanation."""
    return survey(draft.scored, ask.request, draft.task_type, ask.turn.now, _winner(ask, draft))


def factors_of(ask: Ask, draft: Draft) -> dict[str, list[float]]:
    """Every factor of the draft's scored members, in their order, for an explanation."""
    if draft.sheet is not None:
        return draft.sheet.factors(draft.places, ask.request, ask.turn.now, _winner(ask, draft))
    scene = scene_of(ask, draft)
    rows = [breakdown(member, scene) for member in draft.scored]
    return {name: [row[name] for row in rows] for name in FACTORS}


def _winner(ask: Ask, draft: Draft) -> str:
    key = cache_key(ask.request, ask.state.roster)
    return rendezvous_winner(draft.scored, key) if key else ""
