"""The `auto` strategy: weights, budget, exploration, router strategies and the chain."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from decision_service.kernel.decide import Decision
from decision_service.kernel.health import Breaker
from decision_service.kernel.model import Controls, ModelFacts, SlaTargets
from decision_service.kernel.routers import ROUTER_STRATEGIES, below
from decision_service.kernel.statistics import TargetStatistics
from decision_service.kernel.weights import FACTOR_NAMES, PACKS
from tests.kernel.rig import Rig, combo, ids, parts, roster, step

FOUR = ["p/m@a", "q/m@b", "r/m@c", "s/m@d"]


def rig(facts: dict[str, ModelFacts] | None = None, steps: Any = FOUR, **config: Any) -> Rig:
    return Rig(roster(FOUR, combo("auto", steps, **{"exploration_rate": 0.0, **config}), facts=facts))


def measured(over: Rig, candidate: str, **signals: float) -> None:
    provider, model, connection = parts(candidate)
    assert connection is not None
    over.state.target(provider, connection, model).statistics = TargetStatistics(signals)


def order(decision: Decision) -> str:
    return "".join(candidate[0] for candidate in ids(decision))


def priced(*input_prices: float | None, **more: Any) -> dict[str, ModelFacts]:
    return {c: ModelFacts(input_price=p, **more) for c, p in zip(FOUR, input_prices, strict=False)}


def fit(*values: float) -> dict[str, ModelFacts]:
    return {c: ModelFacts(fitness={"default": v}) for c, v in zip(FOUR, values, strict=False)}


# Weights

OWN = {"quota": 1.0}
WEIGHTS = [
    # combo config, request mode, incident: where the weights come from
    ({}, "", False, "balanced"),
    ({"weights": OWN}, "", False, "combo"),
    ({"weights": OWN, "mode_pack": "ship-fast"}, "", False, "ship-fast"),
    ({"weights": OWN, "mode_pack": "ship-fast"}, "best", False, "quality-first"),
    ({"weights": OWN, "mode_pack": "ship-fast"}, "", True, "reliability-first"),
    ({"weights": OWN}, "cheap", True, "cost-saver"),
    ({"weights": OWN}, "nonsense", True, "reliability-first"),
    ({"weights": OWN}, "nonsense", False, "combo"),
    ({"weights": {"quota": 0.0}}, "", False, "combo"),
]


@pytest.mark.parametrize(("config", "mode", "incident", "source"), WEIGHTS)
def test_whose_weights_count(config: dict[str, Any], mode: str, incident: bool, source: str) -> None:
    over = rig(**config)
    if incident:
        for provider in "pqr":
            over.state.provider(provider).breaker = Breaker(open=True, open_until=over.now + 1)
    decision = over.ask(controls=Controls(mode=mode))
    assert decision.incident == incident
    assert decision.draft.weights_source == source
    if source != "combo":
        assert decision.draft.weights == PACKS[source]
    assert tuple(decision.draft.weights) == FACTOR_NAMES
    assert sum(decision.draft.weights.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("model", "pack"), [("auto", "balanced"), ("auto/fast", "ship-fast"), ("auto/coding:reliable", "reliability-first")]
)
def test_a_channel_has_its_own(model: str, pack: str) -> None:
    assert rig().ask(model).draft.weights == PACKS[pack]


@pytest.mark.parametrize(("down", "incident"), [("", False), ("p", False), ("pq", False), ("pqr", True)])
def test_an_incident_is_strictly_more_than_half_of_the_providers(down: str, incident: bool) -> None:
    over = rig(exploration_rate=1.0)
    for provider in down:
        over.state.provider(provider).breaker = Breaker(open=True, open_until=over.now + 1_000)
    decision = over.ask()
    assert decision.incident == incident
    assert decision.draft.exploration != incident
    over.pass_time(1_000)
    assert not over.ask().incident, "it leaves by itself"


# Budget


def test_what_is_over_the_cap_is_out_and_named() -> None:
    over = rig(priced(1.0, 3.0, 2.0, None))
    decision = over.ask(input_tokens=1_000_000, max_output_tokens=0, controls=Controls(budget_usd=2.0))
    assert set(ids(decision)) == {FOUR[0], FOUR[2], FOUR[3]}, "2.00 is not over; an unknown price counts 1.00"
    assert {c: s.filter for c, s in decision.rejected.items()} == {FOUR[1]: "budget"}
    assert set(decision.draft.scores) == set(ids(decision))
    assert not decision.opened


@pytest.mark.parametrize("router", ROUTER_STRATEGIES)
def test_the_cap_acts_before_every_router_strategy(router: str) -> None:
    over = rig(priced(9.0, 9.0, 2.0, 9.0), router_strategy=router, budget_cap=2.0)
    assert order(over.ask(input_tokens=1_000_000, max_output_tokens=0)) == "r"


@pytest.mark.parametrize("router", ROUTER_STRATEGIES)
def test_where_all_are_over_the_cheapest_goes_first_whatever_the_router(router: str) -> None:
    over = rig(priced(4.0, 3.0, 2.0, 3.0), router_strategy=router, exploration_rate=1.0)
    decision = over.ask(input_tokens=1_000, controls=Controls(budget_usd=1e-9))
    assert order(decision) == "rqsp"
    assert decision.opened == ("budget",)
    assert (decision.draft.exploration, decision.draft.propensity) == (False, 1.0)
    assert not decision.rejected


def test_an_opened_budget_skips_the_exclusion_check() -> None:
    facts = {c: ModelFacts(input_price=p, fitness={"default": 0.1}) for c, p in zip(FOUR, (1, 2, 3, 4), strict=True)}
    facts[FOUR[3]] = ModelFacts(input_price=4.0, fitness={"default": 0.9})
    over = rig(facts, weights={"taskFit": 1.0})
    decision = over.decide(input_tokens=1_000, controls=Controls(budget_usd=1e-9))
    assert order(decision) == "pqrs"
    assert not over.state.exclusions


@pytest.mark.parametrize(
    ("config", "controls", "outcome"),
    [
        ({}, {}, "all"),
        ({"budget_cap": 1e-9}, {}, "opened"),
        ({"budget_cap": 1e-9, "budget_fallback": "strict"}, {}, "refused"),
        ({"budget_cap": 1e-9, "budget_fallback": "strict"}, {"budget_fallback": "soft"}, "opened"),
        ({"budget_cap": 1e-9, "budget_fallback": "strict"}, {"budget_fallback": "what"}, "refused"),
        ({"budget_cap": 1e-9}, {"budget_fallback": "hard"}, "refused"),
        ({"budget_cap": 1e-9}, {"budget_usd": 9.0}, "all"),
        ({"budget_cap": 9.0, "budget_fallback": "strict"}, {"budget_usd": 1e-9}, "refused"),
        ({"budget_cap": 1e-9, "budget_fallback": "strict"}, {"budget_usd": -1.0}, "refused"),
    ],
)
def test_a_control_overrides_the_combo(config: dict[str, Any], controls: dict[str, Any], outcome: str) -> None:
    over = rig(priced(1.0, 1.0, 1.0, 1.0), **config)
    asked = Controls(**controls)
    if outcome == "refused":
        assert over.refused(input_tokens=1_000, controls=asked).reason == "BUDGET_EXCEEDED"
    else:
        assert over.ask(input_tokens=1_000, controls=asked).opened == (("budget",) if outcome == "opened" else ())


def test_the_estimate_is_by_256_tokens_where_the_request_has_no_limit() -> None:
    over = rig({FOUR[0]: ModelFacts(input_price=0.0, output_price=1_000_000.0)}, steps=FOUR[:1])
    for cap, opened in ((256.0, ()), (255.9, ("budget",))):
        assert over.ask(controls=Controls(budget_usd=cap)).opened == opened
        assert over.ask(max_output_tokens=0, controls=Controls(budget_usd=cap)).opened == ()


# Exploration


def test_exploration_is_a_uniform_pick_at_its_rate() -> None:
    over = rig(fit(0.5, 0.5, 0.9, 0.5), exploration_rate=0.4)
    decisions = [over.ask(seed=seed) for seed in range(4_000)]
    explored = [d for d in decisions if d.draft.exploration]
    assert len(explored) == pytest.approx(1_600, abs=150)
    firsts = Counter(order(d)[0] for d in explored)
    assert all(count == pytest.approx(400, abs=90) for count in firsts.values())
    assert {order(d)[0] for d in decisions if not d.draft.exploration} == {"r"}


def test_the_propensity_tells_of_the_pick_not_of_the_branch() -> None:
    over = rig(fit(0.5, 0.5, 0.9, 0.5), exploration_rate=0.4)
    for seed in range(50):
        decision = over.ask(seed=seed)
        expected = 0.4 / 4 + (0.6 if order(decision)[0] == "r" else 0.0)
        assert decision.draft.propensity == pytest.approx(expected)


def test_after_the_pick_the_others_follow_by_score() -> None:
    over = rig(fit(0.6, 0.8, 0.9, 0.7), exploration_rate=1.0, weights={"taskFit": 1.0})
    for seed in range(20):
        chain = order(over.ask(seed=seed))
        assert chain[1:] == "".join(c for c in "rqsp" if c != chain[0])


def test_equal_scores_keep_pool_order() -> None:
    assert order(rig(router_strategy="score").ask()) == "pqrs"
    assert order(rig(router_strategy="score", steps=FOUR[::-1]).ask()) == "srqp"


def test_a_candidate_that_comes_by_two_steps_is_one_candidate() -> None:
    doubled: list[Any] = [*FOUR[:2], step("p/m", id="dynamic")]
    over = rig(steps=doubled, exploration_rate=1.0)
    firsts = Counter(order(over.ask(seed=seed))[0] for seed in range(2_000))
    assert firsts["p"] == pytest.approx(1_000, abs=100)
    assert over.ask().draft.propensity == pytest.approx(0.5)
    shared = rig(steps=doubled)
    assert "".join(order(shared.decide())[0] for _ in range(4)) == "pqpq"


# Router strategies


def test_score_takes_the_best_and_the_first_of_equals() -> None:
    over = rig(fit(0.5, 0.9, 0.9, 0.5), router_strategy="score")
    assert [order(over.decide())[0] for _ in range(3)] == ["q", "q", "q"]


def test_cost_takes_the_lowest_blended_price() -> None:
    facts = {
        FOUR[0]: ModelFacts(input_price=1.0, output_price=5.0),  # 2.6
        FOUR[1]: ModelFacts(input_price=2.0, output_price=2.4),  # 2.16
        FOUR[2]: ModelFacts(input_price=2.5),  # 2.5
        FOUR[3]: ModelFacts(input_price=9.0, output_price=0.0),  # 5.4
    }
    assert order(rig(facts, router_strategy="cost").ask())[0] == "q"
    del facts[FOUR[1]]
    assert order(rig(facts, router_strategy="cost").ask())[0] == "q", "an unknown price counts 1.00"


def test_latency_adds_a_second_for_certain_failure() -> None:
    over = rig(router_strategy="latency")
    measured(over, FOUR[0], p95_ms=800.0, error_rate=0.5)
    measured(over, FOUR[1], p95_ms=1_240.0, error_rate=0.0)
    measured(over, FOUR[2], p95_ms=1_200.0)  # unknown: 0.05
    measured(over, FOUR[3], error_rate=0.2)  # unknown: the median of the known, 1200
    assert order(over.ask())[0] == "q"
    measured(over, FOUR[1], p95_ms=1_260.0, error_rate=0.0)
    assert order(over.ask())[0] == "r"


@pytest.mark.parametrize(
    ("value", "target", "result"),
    [(0.0, 0.0, 1.0), (0.1, 0.0, 0.0), (50.0, 100.0, 1.0), (200.0, 100.0, 0.5), (0.0, 5.0, 1.0), (100.0, 100.0, 1.0)],
)
def test_below(value: float, target: float, result: float) -> None:
    assert below(value, target) == pytest.approx(result)


def test_sla_aware_by_hand() -> None:
    over = rig(priced(1.0, 4.0), steps=FOUR[:2], router_strategy="sla-aware")
    measured(over, FOUR[0], p95_ms=4_000.0, latency_std_ms=100.0, error_rate=0.0)
    measured(over, FOUR[1], p95_ms=2_000.0, latency_std_ms=400.0, error_rate=0.1)
    # p: .35 x 1/2 + .35 + .15 + .10 x 3/4 + .05 x 3/4 = .7875; q: .35 + .35 x 1/2 + .15 + 0 + 0 = .675
    assert order(over.ask())[0] == "p"
    measured(over, FOUR[1], p95_ms=2_000.0, latency_std_ms=0.0, error_rate=0.065)
    # q: .35 + .35 x .05/.065 + .15 + 0 + .05 = .8192
    assert order(over.ask())[0] == "q"


def test_hard_targets_come_before_merit() -> None:
    def over(hard: bool) -> Rig:
        made = rig(
            priced(1.0, 9.0),
            steps=FOUR[:2],
            router_strategy="sla-aware",
            sla=SlaTargets(p95_ms=1_000.0, max_error_rate=0.0, hard=hard),
        )
        measured(made, FOUR[0], p95_ms=1_100.0, latency_std_ms=10.0, error_rate=0.0)
        measured(made, FOUR[1], p95_ms=1_000.0, latency_std_ms=900.0, error_rate=0.0)
        return made

    assert order(over(hard=False).ask())[0] == "p", "a tenth too slow, but cheap and steady"
    assert order(over(hard=True).ask())[0] == "q"


def test_a_price_limit_counts_among_the_targets() -> None:
    over = rig(
        priced(2.0, 1.0, 3.0), steps=FOUR[:3], router_strategy="sla-aware", sla=SlaTargets(max_cost=1.0, hard=True)
    )
    for candidate in FOUR[:3]:
        measured(over, candidate, p95_ms=100.0, error_rate=0.0)
    assert order(over.ask())[0] == "q"


def test_an_unknown_error_rate_is_five_percent() -> None:
    over = rig(router_strategy="sla-aware", steps=FOUR[:2], sla=SlaTargets(max_error_rate=0.05, hard=True))
    measured(over, FOUR[0], p95_ms=100.0, error_rate=0.0501)
    measured(over, FOUR[1], p95_ms=100.0)
    assert order(over.ask())[0] == "q"


# Task type


@pytest.mark.parametrize(
    ("named", "text", "task"),
    [
        ("", "", "default"),
        ("Review", "", "review"),
        ("juggling", "", "default"),
        ("", "please debug this crash", "debugging"),
        ("planning", "please debug this crash", "planning"),
        ("juggling", "please debug this crash", "debugging"),
    ],
)
def test_the_task_is_named_or_detected(named: str, text: str, task: str) -> None:
    assert rig().ask(task_type=named, last_user_text=text).draft.task_type == task
