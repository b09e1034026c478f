"""How well counts fit probabilities."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import sqrt
from typing import TypeVar

K = TypeVar("K", bound=Hashable)

# Of thirty thousand fair experiments one is further off than this. The seeds are fixed: what passes once passes always.
FAR = 4.0


def assert_fits(counts: Mapping[K, int], probabilities: Mapping[K, float]) -> None:
    """Chi-square over all outcomes; what is impossible may not have happened at all."""
    total = sum(counts.values())
    possible = {outcome: p for outcome, p in probabilities.items() if p > 0.0}
    assert counts.keys() <= possible.keys(), f"impossible: {counts.keys() - possible.keys()}"
    assert abs(sum(possible.values()) - 1.0) < 1e-9, possible
    expected = {outcome: total * p for outcome, p in possible.items()}
    assert min(expected.values()) >= 5, "too few draws to tell anything"
    statistic = sum((counts.get(outcome, 0) - e) ** 2 / e for outcome, e in expected.items())
    distance = normal_distance(statistic, len(possible) - 1)
    assert distance < FAR, f"{distance:.1f} deviations from {possible}: {dict(counts)}"


def normal_distance(statistic: float, freedom: int) -> float:
    """A chi-square statistic as standard deviations of a normal (Wilson and Hilferty); -inf without any freedom."""
    if not freedom:
        return float("-inf")
    scale = 2.0 / (9.0 * freedom)
    return float(((statistic / freedom) ** (1.0 / 3.0) - (1.0 - scale)) / sqrt(scale))


def uniform(outcomes: Mapping[K, object] | set[K] | list[K]) -> dict[K, float]:
    """The same probability for each."""
    return dict.fromkeys(outcomes, 1.0 / len(outcomes))
