"""Weights: the seven packs, and their normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

FACTOR_NAMES = (
    "quota",
    "health",
    "costInv",
    "latencyInv",
    "taskFit",
    "stability",
    "tierPriority",
    "tierAffinity",
    "specificityMatch",
    "contextAffinity",
    "sessionAvailability",
    "connectionDensity",
    "cacheAffinity",
    "resetWindowAffinity",
    "quality",
    "reliability",
)
PACK_NAMES = (
    "balanced",
    "ship-fast",
    "cost-saver",
    "quality-first",
    "offline-friendly",
    "reliability-first",
    "chaos-mode",
)

# One row a factor in the order of FACTOR_NAMES, one column a pack in the order of PACK_NAMES.
_TABLE = (
    (0.1429, 0.1133, 0.1133, 0.0752, 0.3324, 0.1133, 0.0376),  # quota
    (0.1605, 0.2667, 0.181, 0.1714, 0.2667, 0.3524, 0.4),  # health
    (0.1429, 0.0276, 0.3324, 0.0276, 0.0752, 0.0181, 0.014),  # costInv
    (0.1143, 0.3048, 0.0476, 0.0476, 0.0476, 0.0476, 0.0186),  # latencyInv
    (0.0762, 0.0952, 0.0952, 0.3524, 0.0, 0.0952, 0.1905),  # taskFit
    (0.0476, 0.0, 0.0476, 0.1429, 0.0952, 0.1905, 0.1714),  # stability
    (0.0476, 0.0376, 0.0376, 0.0276, 0.0376, 0.0276, 0.004),  # tierPriority
    (0.0476, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),  # tierAffinity
    (0.0476, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),  # specificityMatch
    (0.0476, 0.0095, 0.0, 0.0, 0.0, 0.0, 0.0186),  # contextAffinity
    (0.0476, 0.0476, 0.0476, 0.0476, 0.0476, 0.0476, 0.0476),  # sessionAvailability
    (0.0476, 0.0476, 0.0476, 0.0476, 0.0476, 0.0476, 0.0476),  # connectionDensity
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),  # cacheAffinity
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),  # resetWindowAffinity
    (0.03, 0.02, 0.02, 0.03, 0.02, 0.02, 0.02),  # quality
    (0.0, 0.03, 0.03, 0.03, 0.03, 0.04, 0.03),  # reliability
)


def normalised(weights: Mapping[str, float]) -> Mapping[str, float]:
    """Exactly the sixteen factors, summing to 1. Absent, negative or not finite counts 0; none left: balanced."""
    kept = {name: w if 0.0 < (w := weights.get(name, 0.0)) < float("inf") else 0.0 for name in FACTOR_NAMES}
    if not any(kept.values()):
        return PACKS["balanced"]
    return MappingProxyType(dict(zip(kept, shares(list(kept.values())), strict=True)))


def shares(weights: Sequence[float]) -> list[float]:
    """What part of their total each is; equal parts where all are 0. Weights are finite and not negative."""
    largest = max(weights, default=0.0)
    if largest <= 0.0:
        return [1.0 / len(weights) for _ in weights]
    scaled = [weight / largest for weight in weights]  # their total is finite, whatever theirs was
    total = sum(scaled)
    return [weight / total for weight in scaled]


_COLUMNS = dict(zip(PACK_NAMES, zip(*_TABLE, strict=True), strict=True))
PACKS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {pack: normalised(dict(zip(FACTOR_NAMES, column, strict=True))) for pack, column in _COLUMNS.items()}
)
