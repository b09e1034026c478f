"""The propensity that a decision tells is the frequency with which its pick is made.

Seeds are fixed, so the draws are the same in every run; the bounds are five standard deviations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import sqrt
from typing import Any

import pytest

from decision_service.kernel.health import Breaker
from decision_service.kernel.model import ModelFacts, QuotaWindow
from decision_service.kernel.statistics import TargetStatistics
from tests.kernel.rig import Rig, combo, ids, roster, step

DRAWS = 4_000
FOUR = ["p/m@a", "q/m@b", "r/m@c", "s/m@d"]
WORTH = {c: ModelFacts(fitness={"default": f}) for c, f in zip(FOUR, (0.5, 0.9, 0.9, 0.4), strict=True)}


def rig(strategy: str, steps: Any = FOUR, **config: Any) -> Rig:
    over = Rig(roster(FOUR, combo(strategy, steps, **config), facts=WORTH))
    for candidate, error in zip(FOUR, (0.1, 0.3, 0.3, 0.0), strict=True):
        provider, _, rest = candidate.partition("/")
        over.state.target(provider, rest[-1], "m").statistics = TargetStatistics({"error_rate": error})
    return over


def weighing(*weights: float) -> list[Any]:
    return [step(candidate, weight=weight) for candidate, weight in zip(FOUR, weights, strict=True)]


def frequencies(over: Rig) -> tuple[Mapping[str, int], Mapping[str, float]]:
    """How often each candidate goes first, and with which propensity it says so."""
    counted: Counter[str] = Counter()
    told: dict[str, float] = {}
    for seed in range(DRAWS):
        decision = over.ask(seed=seed)
        first = ids(decision)[0]
        counted[first] += 1
        assert told.setdefault(first, decision.draft.propensity) == pytest.approx(decision.draft.propensity)
    return counted, told


CASES = [
    pytest.param("weighted", weighing(1, 2, 3, 4), {}, id="weighted"),
    pytest.param("weighted", weighing(0, 0, 0, 0), {}, id="weighted, all of them zero"),
    pytest.param("weighted", weighing(0, 5, 0, 1), {}, id="weighted, some of them zero"),
    pytest.param("p2c", FOUR, {}, id="p2c, with a tie"),
    pytest.param("random", FOUR, {}, id="random"),
    pytest.param("random", [*FOUR, step("p/m@a", id="again")], {}, id="random, one listed twice"),
    pytest.param("strict-random", [*FOUR, step("p/m@a", id="again")], {}, id="strict-random, one listed twice"),
    pytest.param("quota-weighted", FOUR, {}, id="quota-weighted"),
    pytest.param("auto", FOUR, {"exploration_rate": 0.4}, id="auto, exploring"),
    pytest.param("auto", FOUR, {"exploration_rate": 1.0}, id="auto, always exploring"),
    pytest.param("auto", FOUR, {"exploration_rate": 0.2, "router_strategy": "cost"}, id="auto by cost, exploring"),
    pytest.param("auto", FOUR, {"exploration_rate": 0.0}, id="auto, never exploring"),
]


@pytest.mark.parametrize(("strategy", "steps", "config"), CASES)
def test_a_pick_is_as_frequent_as_it_says(strategy: str, steps: list[Any], config: dict[str, Any]) -> None:
    over = rig(strategy, steps, **config)
    counted, told = frequencies(over)
    assert sum(told.values()) == pytest.approx(1.0, abs=1e-6), "what never went first has none"
    for candidate, probability in told.items():
        spread = sqrt(DRAWS * probability * (1.0 - probability))
        assert abs(counted[candidate] - DRAWS * probability) <= 5.0 * spread + 1e-6, candidate


def test_quota_weighted_draws_by_what_is_left_and_what_is_under_way() -> None:
    over = rig("quota-weighted")
    for candidate, left in zip(FOUR, (0.8, 0.2, 0.005, 0.4), strict=True):
        over.state.account(candidate[0], candidate[-1]).quota = {"weekly": QuotaWindow("weekly", left)}
    over.state.account("s", "d").in_flight = 1
    counted, told = frequencies(over)
    assert told == pytest.approx({FOUR[0]: 0.8 / 1.2, FOUR[1]: 0.2 / 1.2, FOUR[3]: 0.2 / 1.2})
    assert FOUR[2] not in counted, "under the floor"


def test_a_half_open_provider_is_drawn_against() -> None:
    over = rig("p2c")
    before, _ = frequencies(over)
    over.state.provider("s").breaker = Breaker(open=True, openings=1, open_until=over.now)
    after, told = frequencies(over)
    assert before["s/m@d"] > after.get("s/m@d", 0)
    assert sum(told.values()) == pytest.approx(1.0)
