"""Round-robin batches, weighted draws and their pins, and the counters of groups that share the load."""

from __future__ import annotations

from collections import Counter

import pytest

from decision_service.kernel.health import Breaker
from decision_service.kernel.model import (
    ComboConfig,
    KeyPolicy,
    ModelFacts,
    OutcomeClass,
    Override,
    Settings,
    Step,
)
from decision_service.kernel.strategies.rotation import sticky_limit
from tests.kernel.rig import COMBO, Rig, combo, ids, roster, step

FOUR = ["p/m@a", "q/m@b", "r/m@c", "s/m@d"]
ERROR = OutcomeClass.UPSTREAM_ERROR


def first(over: Rig, model: str = COMBO, api_key_id: str = "") -> str:
    """The provider of the first target of a decision that takes effect."""
    return ids(over.decide(model, api_key_id=api_key_id))[0][0]


def served(over: Rig, attempt: int = 1) -> None:
    over.report(attempt=attempt)


# Round-robin


def turning(limit: int | None, steps: list[str] = FOUR, **more: object) -> Rig:
    return Rig(roster(FOUR, combo("round-robin", steps, sticky_round_robin_limit=limit), **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("own", "combos", "all_", "limit"),
    [(None, None, None, 3), (None, None, 7, 7), (None, 5, 7, 5), (2, 5, 7, 2), (1, None, None, 1)],
)
def test_the_size_of_a_batch_by_layers(own: int | None, combos: int | None, all_: int | None, limit: int) -> None:
    settings = Settings(combo_sticky_round_robin_limit=combos, sticky_round_robin_limit=all_)
    assert sticky_limit(ComboConfig(sticky_round_robin_limit=own), settings) == limit


def test_with_a_limit_of_one_every_decision_turns_it_and_no_outcome_does() -> None:
    over = turning(1)
    seen = []
    for n in range(8):
        seen.append(first(over))
        over.report(ERROR if n % 2 else OutcomeClass.SUCCESS)
    assert "".join(seen) == "pqrspqrs"


def test_the_order_is_the_rotation_and_the_unavailable_are_skipped() -> None:
    over = turning(1)
    over.decide()
    over.state.provider("r").breaker = Breaker(open=True, open_until=over.now + 1_000)
    assert ids(over.ask()) == ["q/m@b", "s/m@d", "p/m@a"]


def test_a_skip_does_not_move_the_counter() -> None:
    over = turning(1)
    over.state.provider("p").breaker = Breaker(open=True, open_until=over.now + 1_000)
    assert "".join(first(over) for _ in range(5)) == "qqrsq", "it stood at p, then q, r, s, and p again"
    over.pass_time(1_000)


def test_a_refusal_does_not_move_the_counter() -> None:
    over = turning(1)
    first(over)
    for provider in "pqrs":
        over.state.provider(provider).breaker = Breaker(open=True, open_until=over.now + 1_000)
    over.refused()
    over.pass_time(1_000)
    assert ids(over.ask())[0] == "q/m@b"


def test_a_batch_is_so_many_successes_on_one_target() -> None:
    over = turning(3)
    seen = []
    for _ in range(12):
        seen.append(first(over))
        served(over)
    assert "".join(seen) == "pppqqqrrrsss"


def test_decisions_without_outcomes_stay_where_they_are() -> None:
    over = turning(3)
    assert {first(over) for _ in range(10)} == {"p"}


def test_failures_neither_count_nor_reset() -> None:
    over = turning(2)
    first(over)
    served(over)
    for _ in range(3):
        assert first(over) == "p"
        over.report(ERROR, final=True)
    assert first(over) == "p"
    served(over)
    assert first(over) == "q"


def test_a_success_on_a_fallback_starts_a_batch_there() -> None:
    over = turning(2)
    assert first(over) == "p"
    over.report(ERROR)
    served(over, attempt=2)
    assert ids(over.ask()) == ["q/m@b", "r/m@c", "s/m@d", "p/m@a"]
    assert first(over) == "q"
    served(over)
    assert first(over) == "r", "the counter stands behind the one that served"


def test_a_success_elsewhere_ends_a_batch() -> None:
    over = turning(3)
    first(over)
    served(over)
    assert first(over) == "p"
    over.report(ERROR)
    served(over, attempt=2)
    for _ in range(2):
        assert first(over) == "q"
        served(over)
    assert first(over) == "r"


def test_a_target_that_became_unavailable_loses_its_batch() -> None:
    over = turning(3)
    first(over)
    served(over)
    over.state.provider("p").breaker = Breaker(open=True, open_until=over.now + 1_000)
    assert first(over) == "q"
    over.pass_time(1_000)
    for _ in range(3):
        assert first(over) == "p", "the counter has not moved, and the batch begins anew"
        served(over)
    assert first(over) == "q"


def test_a_step_listed_twice_has_two_turns() -> None:
    twice: list[Step] = [step("p/m@a", id="one"), step("p/m@a", id="two"), step("q/m@b")]
    over = Rig(roster(FOUR, combo("round-robin", twice, sticky_round_robin_limit=1)))
    assert "".join(first(over) for _ in range(6)) == "ppqppq"


def test_the_counter_runs_over_the_steps_as_declared_whoever_asks() -> None:
    keys = {"k": KeyPolicy("k", allowed_connections=frozenset({"c", "d"}))}
    over = turning(1, keys=keys)
    assert first(over) == "p"
    assert first(over, api_key_id="k") == "r", "it stands at q; the next that this key may use is r"
    assert first(over) == "r"
    assert first(over, api_key_id="k") == "s"
    assert first(over) == "p"


def test_a_batch_of_one_key_is_a_batch_of_all() -> None:
    keys = {"k": KeyPolicy("k", allowed_connections=frozenset({"c", "d"}))}
    over = turning(2, keys=keys)
    for _ in range(2):
        assert first(over, api_key_id="k") == "r"
        served(over)
    assert ids(over.ask())[0] == "s/m@d"


def test_a_key_that_may_use_the_name_of_the_combo_alone_fills_batches_too() -> None:
    keys = {"k": KeyPolicy("k", allowed_models=("combo/combo",))}
    over = turning(1, keys=keys)
    over.state.change_roster(roster(FOUR, combo("round-robin", FOUR, sticky_round_robin_limit=2), keys=keys))
    for _ in range(2):
        assert first(over, model="combo/combo", api_key_id="k") == "p"
        served(over)
    assert first(over) == "q"


@pytest.mark.parametrize(
    ("steps", "following"),
    [
        pytest.param(["r/m@c", "p/m@a", "q/m@b", "s/m@d"], "q", id="moved: the position is kept as a step"),
        pytest.param(["p/m@a", "r/m@c", "s/m@d"], "r", id="gone: the next declared one"),
        pytest.param(["p/m@a"], "p", id="gone, with all behind it"),
    ],
)
def test_the_position_survives_a_change_of_the_combo(steps: list[str], following: str) -> None:
    over = turning(1)
    first(over)
    over.state.change_roster(roster(FOUR, combo("round-robin", steps, sticky_round_robin_limit=1)))
    assert first(over) == following


def test_an_outcome_of_an_older_version_moves_only_what_still_exists() -> None:
    over = turning(2)
    for _ in range(2):
        over.decide()
    over.state.change_roster(roster(FOUR, combo("round-robin", ["q/m@b", "r/m@c"], sticky_round_robin_limit=2)))
    for decision in over.decisions:
        over.report(decision=decision)
    assert over.state.rotations == {}
    assert first(over) == "q"


def test_a_dynamic_step_keeps_its_serving_connection_until_the_batch_is_full() -> None:
    accounts = ["p/m@a", "p/m@b", "q/m@c"]
    over = Rig(roster(accounts, combo("round-robin", ["p/m", "q/m@c"], sticky_round_robin_limit=3)))
    over.decide()
    over.report(ERROR)
    served(over, attempt=2)
    for _ in range(2):
        assert ids(over.decide()) == ["p/m@b", "p/m@a", "q/m@c"]
        served(over)
    assert ids(over.ask())[0] == "q/m@c"


def test_expanded_each_connection_has_a_turn_of_its_own() -> None:
    accounts = ["p/m@a", "p/m@b", "q/m@c"]
    policy = combo("round-robin", ["p/m", "q/m@c"], sticky_round_robin_limit=1, connection_aware_expansion=True)
    over = Rig(roster(accounts, policy))
    assert [ids(over.decide())[0] for _ in range(4)] == [*accounts, "p/m@a"]


# Weighted


def weighing(*weights: float, sticky: int = 1) -> Rig:
    steps = [step(s, weight=w) for s, w in zip(FOUR, weights, strict=False)]
    return Rig(roster(FOUR, combo("weighted", steps, sticky_weighted_limit=sticky)))


def draws(over: Rig, count: int = 2_000) -> dict[str, float]:
    """How often each provider is drawn, over seeds."""
    counted = Counter(ids(over.ask(seed=seed))[0][0] for seed in range(count))
    return {provider: n / count for provider, n in counted.items()}


def test_a_draw_is_in_proportion_to_the_weights() -> None:
    assert draws(weighing(3, 1, 4)) == pytest.approx({"p": 0.375, "q": 0.125, "r": 0.5}, abs=0.05)


def test_zero_is_never_drawn_beside_more() -> None:
    assert draws(weighing(0, 0.001, 0)) == {"q": 1.0}


def test_of_zeros_alone_each_is_drawn_as_often() -> None:
    assert draws(weighing(0, 0, 0, 0)) == pytest.approx(dict.fromkeys("pqrs", 0.25), abs=0.05)


def test_weights_beyond_every_float_keep_their_proportion() -> None:
    over = weighing(1e308, 1e308, 1e308)
    assert draws(over) == pytest.approx(dict.fromkeys("pqr", 1 / 3), abs=0.05)
    assert over.ask().draft.propensity == pytest.approx(1 / 3)


def test_only_the_available_are_drawn_even_if_they_weigh_nothing() -> None:
    over = weighing(5, 0, 0)
    over.state.provider("p").breaker = Breaker(open=True, open_until=over.now + 1)
    assert draws(over) == pytest.approx({"q": 0.5, "r": 0.5}, abs=0.05)


def test_the_rest_follow_by_weight() -> None:
    over = weighing(2, 9, 2, 5)
    for seed in range(30):
        order = [candidate[0] for candidate in ids(over.ask(seed=seed))]
        assert order[1:] == [p for p in "qspr" if p != order[0]]


@pytest.mark.parametrize("weights", [(3, 1, 4, 2), (0, 0, 7, 0)])
def test_the_propensity_is_the_share(weights: tuple[float, ...]) -> None:
    over = weighing(*weights)
    decision = over.ask(seed=5)
    drawn = "pqrs".index(ids(decision)[0][0])
    assert decision.draft.propensity == pytest.approx(weights[drawn] / sum(weights))


def first_of(over: Rig, seed: int) -> str:
    return ids(over.decide(seed=seed))[0][0]


def test_a_sticky_draw_holds_for_so_many_successes_of_its_step() -> None:
    over = weighing(1, 1, 1, 1, sticky=3)
    drawn = first_of(over, 0)
    over.report(decision=over.decisions[-1])
    for seed in range(1, 3):
        decision = over.decide(seed=seed)
        assert ids(decision)[0][0] == drawn
        assert decision.draft.propensity == 1.0
        served(over)
    assert len({ids(over.ask(seed=seed))[0] for seed in range(50)}) == 4


def test_a_fallbacks_success_neither_counts_nor_pins() -> None:
    over = weighing(1, 1, 1, 1, sticky=2)
    drawn = first_of(over, 0)
    over.report(OutcomeClass.CONTENT_POLICY)
    served(over, attempt=2)
    assert {ids(over.ask(seed=seed))[0][0] for seed in range(20)} == {drawn}


@pytest.mark.parametrize(
    ("outcome_class", "ends"),
    [(ERROR, True), (OutcomeClass.RATE_LIMITED, True), (OutcomeClass.INVALID_REQUEST, False)],
)
def test_a_blamed_failure_ends_a_pin(outcome_class: OutcomeClass, ends: bool) -> None:
    over = weighing(1, 1, 1, 1, sticky=5)
    first_of(over, 0)
    over.report(outcome_class, final=True)
    over.pass_time(10_000)
    assert (len({ids(over.ask(seed=seed))[0] for seed in range(50)}) > 1) == ends


def test_a_pinned_step_that_became_unavailable_loses_its_pin() -> None:
    over = weighing(1, 1, 1, 1, sticky=5)
    drawn = first_of(over, 0)
    over.state.provider(drawn).breaker = Breaker(open=True, open_until=over.now + 1_000)
    other = first_of(over, 1)
    assert other != drawn
    over.pass_time(1_000)
    assert {ids(over.ask(seed=seed))[0][0] for seed in range(20)} == {other}


def test_a_pin_ends_where_stickiness_is_switched_off() -> None:
    over = weighing(1, 1, 1, 1, sticky=5)
    first_of(over, 0)
    over.state.change_roster(weighing(1, 1, 1, 1).state.roster)
    assert len({ids(over.ask(seed=seed))[0] for seed in range(50)}) == 4


# Groups that share the load


def equals(count: int, router: str = "rules") -> Rig:
    return Rig(roster(FOUR, combo("auto", FOUR[:count], router_strategy=router, exploration_rate=0.0)))


def test_equals_under_rules_take_turns_in_pool_order() -> None:
    over = equals(4)
    assert "".join(first(over) for _ in range(6)) == "pqrspq"


def test_within_a_ten_thousandth_is_equal_and_beyond_it_is_not() -> None:
    def with_fitness(*values: float) -> Rig:
        facts = {c: ModelFacts(fitness={"default": v}) for c, v in zip(FOUR, values, strict=False)}
        policy = combo("auto", FOUR[: len(values)], exploration_rate=0.0, weights={"taskFit": 1.0})
        return Rig(roster(FOUR, policy, facts=facts))

    over = with_fitness(0.9 - 0.00009, 0.9, 0.9 - 0.00011)
    assert "".join(first(over) for _ in range(4)) == "pqpq"


def test_the_counter_moves_at_every_decision_that_finds_a_target() -> None:
    over = equals(3)
    first(over)
    over.state.provider("q").breaker = Breaker(open=True, open_until=over.now + 1_000)
    assert first(over) == "r", "of p and r, the second"
    over.pass_time(1_000)
    over.state.provider("q").breaker = Breaker()
    assert first(over) == "r", "of p, q and r, the third"


def test_a_refusal_moves_no_counter() -> None:
    over = equals(2)
    first(over)
    for provider in "pq":
        over.state.provider(provider).breaker = Breaker(open=True, open_until=over.now + 1_000)
    over.refused()
    for provider in "pq":
        over.state.provider(provider).breaker = Breaker()
    assert first(over) == "q"


# Pinned by a key on a channel


@pytest.mark.parametrize("strategy", ["round-robin", "weighted"])
def test_a_strategy_that_a_key_pins_fills_its_batches_too(strategy: str) -> None:
    override = Override(strategy=strategy, multipliers={FOUR[2]: 0.0, FOUR[3]: 0.0})
    over = Rig(roster(FOUR, overrides={("k", "fast"): override}))
    seen = []
    for seed in range(8):
        seen.append(ids(over.decide("auto/fast", seed=seed, api_key_id="k"))[0][0])
        served(over)
    if strategy == "round-robin":
        assert "".join(seen) == "pppqqqrr"
    else:
        assert set(seen) == {"p", "q"}


def test_each_key_has_a_rotation_of_its_own_and_the_channel_another() -> None:
    pinned = {(key, "fast"): Override(strategy="round-robin") for key in ("k", "l")}
    over = Rig(roster(FOUR, overrides=pinned, settings=Settings(sticky_round_robin_limit=1)))
    seen = "".join(ids(over.decide("auto/fast", api_key_id=key))[0][0] for key in "kklkl")
    assert seen == "pqprq"
