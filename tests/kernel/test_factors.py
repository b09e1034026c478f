"""The sixteen factors, each by hand: its value, and what stands in for a missing signal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from decision_service.kernel.health import Breaker
from decision_service.kernel.knowledge.fitness import fitness
from decision_service.kernel.model import (
    DAY,
    HOUR,
    MINUTE,
    EconomicTier,
    ModelFacts,
    Outcome,
    OutcomeClass,
    ProviderClass,
    QuotaWindow,
    Request,
)
from decision_service.kernel.pricing import actual, estimate, prices
from decision_service.kernel.statistics import TargetStatistics
from tests.kernel.rig import Rig, combo, parts, roster

ONE, TWO, OTHER = "p/m@a", "p/m@b", "q/n@c"


def rig(facts: dict[str, ModelFacts] | None = None, **more: Any) -> Rig:
    three = [ONE, TWO, OTHER]
    return Rig(roster(three, combo("auto", three, exploration_rate=0.0), facts=facts, **more))


def factor(over: Rig, name: str, **request: Any) -> list[float]:
    """A factor of the three candidates."""
    decision = over.ask(**request)
    by_id = {m.id: value for m, value in zip(decision.draft.scored, decision.factors()[name], strict=True)}
    return [by_id[candidate] for candidate in (ONE, TWO, OTHER) if candidate in by_id]


def near(*values: float) -> Any:
    return pytest.approx(list(values), abs=1e-12)


def measured(over: Rig, candidate: str, **signals: float) -> None:
    provider, model, connection = parts(candidate)
    assert connection is not None
    over.state.target(provider, connection, model).statistics = TargetStatistics(signals)


def windows(over: Rig, *told: QuotaWindow) -> None:
    over.state.account("p", "a").quota = {window.name: window for window in told}


def test_quota_is_the_smallest_remaining_fraction() -> None:
    over = rig()
    assert factor(over, "quota") == near(1, 1, 1)
    windows(over, QuotaWindow("weekly", 0.4), QuotaWindow("session", 0.9), QuotaWindow("tokens", 0.6))
    assert factor(over, "quota") == near(0.4, 1, 1)
    windows(over, QuotaWindow("weekly", 1.7))
    assert factor(over, "quota") == near(1, 1, 1)


def test_health_is_by_phase() -> None:
    over = rig()
    assert factor(over, "health") == near(1, 1, 1)
    over.state.provider("p").breaker = Breaker(open=True, open_until=over.now)
    assert factor(over, "health") == near(0.5, 0.5, 1)
    over.state.provider("p").breaker = Breaker(open=True, open_until=over.now + 1)
    assert factor(over, "health") == near(1), "who is open is not scored"


def test_cost_is_against_the_dearest() -> None:
    facts = {ONE: ModelFacts(input_price=1.0, output_price=2.0), OTHER: ModelFacts(input_price=7.0)}
    assert factor(rig(facts), "costInv") == near(1 - 1.4 / 7, 1 - 1 / 7, 0)
    free = {candidate: ModelFacts(input_price=0.0) for candidate in (ONE, TWO, OTHER)}
    assert factor(rig(free), "costInv") == near(1, 1, 1)


def test_latency_is_against_the_slowest() -> None:
    over = rig()
    assert factor(over, "latencyInv") == near(0, 0, 0), "nobody is known: all are as slow"
    measured(over, ONE, p95_ms=500.0)
    assert factor(over, "latencyInv") == near(0, 0, 0), "the unknown take the median of the known"
    measured(over, TWO, p95_ms=2_000.0)
    assert factor(over, "latencyInv") == near(0.75, 0, 1 - 1_250 / 2_000)


def test_stability_is_against_the_least_steady() -> None:
    over = rig()
    measured(over, ONE, p95_ms=1_000.0, latency_std_ms=50.0)
    measured(over, TWO, p95_ms=4_000.0)
    measured(over, OTHER, p95_ms=20.0)
    assert factor(over, "stability") == near(1 - 50 / 400, 0, 1 - 10 / 400)


def test_task_fit_is_the_models_fitness_for_the_task() -> None:
    facts = {ONE: ModelFacts(fitness={"coding": 0.9, "default": 0.3}), TWO: ModelFacts(fitness={"default": 0.4})}
    over = rig(facts)
    assert factor(over, "taskFit", task_type="coding")[:2] == near(0.9, 0.4)
    assert factor(over, "taskFit", task_type="review")[:2] == near(0.3, 0.4)
    assert fitness(over.ask().chain[0].candidate, "coding") in (0.9, 0.4, 0.5)


@pytest.mark.parametrize(
    ("tier", "value"),
    [("ultra", 1), ("ULTRA", 1), ("Pro", 0.67), ("standard", 0.33), ("free", 0), ("", 0.33), ("gold", 0.33)],
)
def test_tier_priority_is_the_accounts(tier: str, value: float) -> None:
    assert factor(rig(connections={"a": {"account_tier": tier}}), "tierPriority") == near(value, 0.33, 0.33)


PRICED = {
    ONE: ModelFacts(input_price=0.0),
    TWO: ModelFacts(input_price=1.0),
    OTHER: ModelFacts(input_price=1.1),
}


@pytest.mark.parametrize(
    ("hint", "affinity", "match"),
    [
        (None, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
        (0.0, (1, 0.7, 0.3), (0.9, 0.4, 0.3)),
        (15.0, (1, 0.7, 0.3), (0.9, 0.4, 0.3)),
        (15.1, (0.7, 1, 0.7), (0.2, 0.9, 0.3)),
        (50.0, (0.7, 1, 0.7), (0.2, 0.9, 0.3)),
        (50.1, (0.3, 0.7, 1), (0.2, 0.4, 0.9)),
        (100.0, (0.3, 0.7, 1), (0.2, 0.4, 0.9)),
    ],
)
def test_tier_affinity_and_specificity(hint: float | None, affinity: Any, match: Any) -> None:
    over = rig(PRICED)
    assert factor(over, "tierAffinity", specificity=hint) == near(*affinity)
    assert factor(over, "specificityMatch", specificity=hint) == near(*match)


@pytest.mark.parametrize(
    ("price", "tier"),
    [
        (0.0, EconomicTier.FREE),
        (0.01, EconomicTier.CHEAP),
        (1.0, EconomicTier.CHEAP),
        (1.01, EconomicTier.PREMIUM),
        (None, EconomicTier.PREMIUM),
    ],
)
def test_the_economic_tier_is_by_input_price(price: float | None, tier: EconomicTier) -> None:
    over = roster([ONE], facts={ONE: ModelFacts(input_price=price)})
    assert over.pool[0].economic_tier is tier


def test_context_affinity_is_what_the_window_leaves() -> None:
    over = rig({ONE: ModelFacts(context_window=1_000), TWO: ModelFacts(context_window=4_000)})
    assert factor(over, "contextAffinity") == near(1, 1, 0.5)
    assert factor(over, "contextAffinity", input_tokens=500, max_output_tokens=300) == near(0.2, 0.8, 0.5)
    assert factor(over, "contextAffinity", input_tokens=1_000) == near(0, 0.75, 0.5)


def test_session_availability_is_for_oauth_alone() -> None:
    over = rig(classes={"p": ProviderClass.OAUTH})
    for session in ("one", "two"):
        over.decide(session_id=session)
    over.state.account("q", "c").sessions["one"] = over.now + HOUR
    live = [over.state.account("p", c).live_sessions("", over.now) for c in "ab"]
    assert sum(live) == 2
    assert factor(over, "sessionAvailability") == near(1 / (1 + live[0]), 1 / (1 + live[1]), 1)
    over.pass_time(10 * MINUTE)
    assert factor(over, "sessionAvailability") == near(1, 1, 1)


def test_ones_own_session_takes_nothing_away() -> None:
    over = rig(classes={"p": ProviderClass.OAUTH})
    over.state.account("p", "a").sessions.update(mine=over.now + HOUR, other=over.now + HOUR)
    assert factor(over, "sessionAvailability", session_id="mine") == near(1 / 2, 1, 1)
    assert factor(over, "sessionAvailability") == near(1 / 3, 1, 1)


def test_connection_density_spreads_over_a_providers_connections() -> None:
    over = rig()
    assert factor(over, "connectionDensity") == near(1, 1, 0.5)
    over.state.account("p", "a").in_flight = 3
    over.state.account("p", "b").in_flight = 1
    over.state.account("q", "c").in_flight = 9
    over.state.log.note(over.state.account("p", "a"))
    over.state.log.note(over.state.account("p", "b"))
    assert factor(over, "connectionDensity") == near(0.25, 0.75, 0.5)


def test_cache_affinity_goes_to_one_winner() -> None:
    over = rig()
    assert factor(over, "cacheAffinity") == near(0, 0, 0)
    winners = {tuple(factor(over, "cacheAffinity", prompt_cache_key=key)) for key in "abcdefghijkl"}
    assert winners == {(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)}


def test_reset_window_affinity_is_a_weighted_mean() -> None:
    over = rig()
    assert factor(over, "resetWindowAffinity") == near(0.5, 0.5, 0.5)
    windows(over, QuotaWindow("session", 0.5, over.now + HOUR))
    assert factor(over, "resetWindowAffinity")[0] == pytest.approx(0.8)
    windows(over, QuotaWindow("session", 0.5, over.now + HOUR), QuotaWindow("weekly", 0.5, over.now + 7 * DAY))
    assert factor(over, "resetWindowAffinity")[0] == pytest.approx(0.35 * 0.8)
    windows(over, QuotaWindow("monthly", 0.5, over.now + 3 * DAY))
    assert factor(over, "resetWindowAffinity")[0] == pytest.approx(0.9)
    windows(over, QuotaWindow("weekly", 0.5))
    assert factor(over, "resetWindowAffinity")[0] == 0.5
    windows(over, QuotaWindow("weekly", 0.5, over.now + 99 * DAY))
    assert factor(over, "resetWindowAffinity")[0] == 0.0


def test_quality_and_reliability_are_the_trackers() -> None:
    over = rig()
    assert factor(over, "quality") == near(0.5, 0.5, 0.5)
    assert factor(over, "reliability") == near(1, 1, 1)
    measured(over, ONE, quality=0.8, failure_rate=0.25)
    assert factor(over, "quality")[0] == pytest.approx(0.8)
    assert factor(over, "reliability")[0] == pytest.approx(0.75)


# Money


def candidate(**facts: Any) -> Any:
    return roster([ONE], facts={ONE: ModelFacts(**facts)}).pool[0]


@pytest.mark.parametrize(
    ("facts", "both"),
    [
        ({}, (1.0, 1.0)),
        ({"output_price": 9.0}, (1.0, 1.0)),
        ({"input_price": 2.0}, (2.0, 2.0)),
        ({"input_price": 2.0, "output_price": 9.0}, (2.0, 9.0)),
        ({"input_price": 0.0, "output_price": 0.0}, (0.0, 0.0)),
    ],
)
def test_what_stands_in_for_a_missing_price(facts: dict[str, float], both: tuple[float, float]) -> None:
    assert prices(candidate(**facts)) == both


def test_an_estimate_and_what_was_used() -> None:
    known = candidate(input_price=2.0, output_price=8.0, cached_input_price=0.5)
    assert estimate(known, Request("m", input_tokens=1_000)) == pytest.approx((2_000 + 256 * 8) / 1e6)
    assert estimate(known, Request("m", input_tokens=1_000, max_output_tokens=0)) == pytest.approx(0.002)


@pytest.mark.parametrize(
    ("used", "facts", "usd"),
    [
        ((1_000, 10, 400), {"cached_input_price": 0.5}, (600 * 2 + 400 * 0.5 + 10 * 8) / 1e6),
        ((1_000, 10, 400), {}, (1_000 * 2 + 10 * 8) / 1e6),
        ((100, 0, 4_000), {"cached_input_price": 0.5}, 100 * 0.5 / 1e6),  # no more can be cached than was sent
        ((0, 0, 0), {}, 0.0),
    ],
)
def test_the_cost_of_what_was_used(used: tuple[int, int, int], facts: dict[str, float], usd: float) -> None:
    known = candidate(input_price=2.0, output_price=8.0, **facts)
    sent, got, cached = used
    told = Outcome("d", 1, "1", OutcomeClass.SUCCESS, 0, input_tokens=sent, output_tokens=got, cached_tokens=cached)
    assert actual(known, told) == pytest.approx(usd)
    assert actual(known, replace(told, cost_usd=0.7)) == 0.7, "what the upstream says counts"
