"""Scores: the weighted sum of the factors, clamped once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from decision_service.kernel.factors import FACTORS, Scene
from decision_service.kernel.live import Member
from decision_service.kernel.statistics import clamp01


def score(members: Sequence[Member], scene: Scene, weights: Mapping[str, float]) -> list[float]:
    """Scores in [0,1] in the order of the members. Factors of weight 0 are not read."""
    rows = [(weight, FACTORS[name]) for name, weight in weights.items() if weight > 0.0]
    return [clamp01(sum([weight * clamp01(factor(m, scene)) for weight, factor in rows])) for m in members]


def breakdown(member: Member, scene: Scene) -> dict[str, float]:
    """Every factor of one member, each in [0,1]."""
    return {name: clamp01(factor(member, scene)) for name, factor in FACTORS.items()}
