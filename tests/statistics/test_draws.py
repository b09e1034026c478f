"""Strategies that draw, against the probabilities that they are to have; and the propensities that they claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations, permutations
from typing import Any

import pytest

from decision_service.kernel.health import Breaker
from decision_service.kernel.model import DAY, ModelFacts, OutcomeClass, QuotaWindow, Step
from decision_service.kernel.statistics import TargetStatistics
from decision_service.kernel.strategies.measured import merit
from tests.kernel.rig import COMBO, Rig, combo, ids, parts, roster, step
from tests.statistics.fit import assert_fits, normal_distance, uniform

FOUR = ["p/m@a", "q/m@b", "r/m@c", "s/m@d"]
LETTERS = "pqrs"
DRAWS = 4_000


def rig(strategy: str, steps: list[str] | list[Step] | None = None, **config: Any) -> Rig:
    return Rig(roster(FOUR, combo(strategy, FOUR if steps is None else steps, **config)))


def weighing(*weights: float) -> list[Step]:
    return [step(name, weight=weight) for name, weight in zip(FOUR, weights, strict=False)]


def firsts(over: Rig, draws: int = DRAWS, **request: Any) -> Counter[str]:
    """Who comes first, by the letter of the provider, over as many seeds; nothing takes effect."""
    return Counter(ids(over.ask(seed=seed, **request))[0][0] for seed in range(draws))


def orders(over: Rig, draws: int = DRAWS) -> Counter[str]:
    return Counter("".join(name[0] for name in ids(over.ask(seed=seed))) for seed in range(draws))


def quota(over: Rig, candidate: str, left: float, in_flight: int = 0) -> None:
    provider, _, connection = parts(candidate)
    assert connection is not None
    account = over.state.account(provider, connection)
    account.quota = {"weekly": QuotaWindow("weekly", left, over.now + DAY)}
    account.in_flight = in_flight


def test_the_measure_itself() -> None:
    """Of one degree of freedom 3.84 is exceeded once in twenty, of nine 27.9 once in a thousand."""
    assert normal_distance(3.84, 1) == pytest.approx(1.645, abs=0.05)
    assert normal_distance(27.88, 9) == pytest.approx(3.09, abs=0.02)
    with pytest.raises(AssertionError, match="deviations"):
        assert_fits({"a": 600, "b": 400}, {"a": 0.5, "b": 0.5})
    with pytest.raises(AssertionError, match="impossible"):
        assert_fits({"a": 999, "b": 1}, {"a": 1.0, "b": 0.0})


# Weighted


@pytest.mark.parametrize("weights", [(70, 30), (1, 1), (5, 3, 2), (0.2, 0.3, 0.1, 0.4), (1, 500)])
def test_weighted_draws_in_proportion(weights: tuple[float, ...]) -> None:
    over = rig("weighted", weighing(*weights))
    assert_fits(firsts(over), {name: w / sum(weights) for name, w in zip(LETTERS, weights, strict=False)})


def test_weight_zero_is_never_drawn_and_all_zero_is_uniform() -> None:
    assert firsts(rig("weighted", weighing(0, 3, 0, 1))).keys() == {"q", "s"}
    assert_fits(firsts(rig("weighted", weighing(0, 0, 0, 0))), uniform(list(LETTERS)))


def test_an_expanded_step_divides_its_weight() -> None:
    accounts = ["p/m@a", "p/m@b", "q/m@c"]
    steps = [step("p/m", weight=4.0), step("q/m@c", weight=1.0)]
    over = Rig(roster(accounts, combo("weighted", steps, connection_aware_expansion=True)))
    counts = Counter(ids(over.ask(seed=seed))[0] for seed in range(DRAWS))
    assert_fits(counts, {"p/m@a": 0.4, "p/m@b": 0.4, "q/m@c": 0.2})


# Random


def test_random_makes_every_order_as_often() -> None:
    assert_fits(orders(rig("random")), uniform(["".join(order) for order in permutations(LETTERS)]))


def test_strict_random_draws_a_step_that_is_listed_twice_twice_as_often() -> None:
    steps = [step(name, id=str(n)) for n, name in enumerate([*FOUR, FOUR[0]])]
    assert_fits(firsts(rig("strict-random", steps)), {"p": 0.4, "q": 0.2, "r": 0.2, "s": 0.2})


def test_strict_random_shuffles_what_is_left() -> None:
    assert_fits(orders(rig("strict-random")), uniform(["".join(order) for order in permutations(LETTERS)]))


# Power of two choices


def test_p2c_has_the_probabilities_of_its_pairs() -> None:
    """Whoever is better wins each pair that it is in; equals go to the one declared first."""
    over = rig("p2c")
    for name, rate in zip(FOUR, (0.5, 0.9, 0.5, 0.1), strict=True):
        provider, model, connection = parts(name)
        assert connection is not None
        over.state.target(provider, connection, model).statistics = TargetStatistics({"error_rate": 1 - rate})
    members = {member.id[0]: member for member in over.ask().chain}
    wins = Counter(max(pair, key=lambda name: merit(members[name], over.now)) for pair in combinations(LETTERS, 2))
    assert wins == {"q": 3, "p": 2, "r": 1}
    assert_fits(firsts(over), {name: wins[name] / 6 for name in LETTERS})


# Quota


def test_quota_weighted_draws_by_what_is_left_for_each_request_in_flight() -> None:
    over = rig("quota-weighted")
    for name, left, in_flight in zip(FOUR, (0.8, 0.8, 0.4, 0.005), (0, 3, 1, 0), strict=True):
        quota(over, name, left, in_flight)
    weights = {"p": 0.8, "q": 0.2, "r": 0.2}
    counts = orders(over)
    assert all(order.endswith("s") for order in counts), "what is below the floor is last"
    drawn: dict[str, float] = {}
    for order in permutations("pqr"):
        rest = weights["p"] + weights["q"] + weights["r"]
        chance = 1.0
        for name in order:
            chance *= weights[name] / rest
            rest -= weights[name]
        drawn["".join(order) + "s"] = chance
    assert_fits(counts, drawn)


def test_quota_weighted_keeps_its_proportions_under_great_load() -> None:
    over = rig("quota-weighted")
    for name, left in zip(FOUR, (0.02, 0.02, 0.04, 0.08), strict=True):
        quota(over, name, left, in_flight=400)
    assert_fits(firsts(over), {"p": 0.125, "q": 0.125, "r": 0.25, "s": 0.5})


def test_quota_weighted_reserves_at_once() -> None:
    """Many decisions in one instant: each sees the slots that the others took."""
    over = rig("quota-weighted", FOUR[:2])
    for seed in range(400):
        over.decide(seed=seed)
    assert abs(over.in_flight("p", "a") - 200) < 15, "without the slots a deviation would be 10; with them it is small"


# Exploration


@pytest.mark.parametrize("rate", [0.05, 0.5, 1.0])
def test_exploration_has_its_rate_and_is_uniform(rate: float) -> None:
    over = rig("auto", exploration_rate=rate, router_strategy="score")
    decisions = [over.ask(seed=seed) for seed in range(DRAWS)]
    explored = Counter(ids(d)[0][0] for d in decisions if d.draft.exploration)
    assert_fits(Counter(d.draft.exploration for d in decisions), {True: rate, False: 1 - rate})
    assert_fits(explored, uniform(list(LETTERS)))
    assert {ids(d)[0][0] for d in decisions if not d.draft.exploration} <= {"p"}


@pytest.mark.parametrize(
    ("model", "rate"), [("auto", 0.05), ("auto/coding", 0.05), ("auto/smart", 0.10), ("auto/chaos", 0.0), ("m", 0.0)]
)
def test_channels_explore_at_their_own_rate(model: str, rate: float) -> None:
    over = Rig(roster(FOUR))
    counts = Counter(over.ask(model, seed=seed).draft.exploration for seed in range(DRAWS))
    assert_fits(counts, {True: rate, False: 1 - rate})


def test_nothing_is_explored_in_an_incident() -> None:
    over = rig("auto", exploration_rate=1.0)
    for provider in "pqr":
        over.state.provider(provider).breaker = Breaker(open=True, open_until=over.now + 1)
    over.state.change_roster(roster([*FOUR, "s/n@d"], combo("auto", [*FOUR, "s/n@d"], exploration_rate=1.0)))
    assert not any(over.ask(seed=seed).draft.exploration for seed in range(50))


# What they claim


def _deck_under_way(over: Rig) -> None:
    for seed in range(2):
        over.decide(seed=seed)


def _quotas(over: Rig) -> None:
    for name, left, in_flight in zip(FOUR, (0.9, 0.3, 0.6, 0.001), (0, 0, 2, 0), strict=True):
        quota(over, name, left, in_flight)


def _served(over: Rig) -> None:
    """A conversation that r has served."""
    decision = over.decide(session_id="s", session_explicit=True)
    place = next(place for place, name in enumerate(ids(decision)) if name.startswith("r"))
    over.report(OutcomeClass.SUCCESS, place=place)


def _one_is_out(over: Rig) -> None:
    over.state.provider("q").breaker = Breaker(open=True, open_until=over.now + 1)


def _measured(over: Rig) -> None:
    for name, rate in zip(FOUR, (0.3, 0.1, 0.0, 0.3), strict=True):
        provider, model, connection = parts(name)
        assert connection is not None
        over.state.target(provider, connection, model).statistics = TargetStatistics({"error_rate": rate})


def _nothing(over: Rig) -> None:
    pass


SEVEN_TO_ONE = weighing(7, 2, 0, 1)
TWICE = [step(name, id=str(n)) for n, name in enumerate([*FOUR, FOUR[0]])]
EXPLORING = {"exploration_rate": 0.3}
# Strategy, steps, config, and what has happened.
DRAWING: dict[str, tuple[str, list[Step] | None, dict[str, Any], Callable[[Rig], None]]] = {
    "weighted": ("weighted", SEVEN_TO_ONE, {}, _nothing),
    "weighted, one out": ("weighted", SEVEN_TO_ONE, {}, _one_is_out),
    "weighted, sticky": ("weighted", SEVEN_TO_ONE, {"sticky_weighted_limit": 9}, _nothing),
    "random": ("random", None, {}, _nothing),
    "random, repeats": ("random", TWICE, {}, _nothing),
    "strict-random": ("strict-random", None, {}, _nothing),
    "strict-random, repeats": ("strict-random", TWICE, {}, _nothing),
    "strict-random, deck": ("strict-random", TWICE, {"strict_random_deck": True}, _deck_under_way),
    "p2c": ("p2c", None, {}, _measured),
    "p2c, one out": ("p2c", None, {}, _one_is_out),
    "quota-weighted": ("quota-weighted", None, {}, _quotas),
    "auto": ("auto", None, EXPLORING, _measured),
    "auto, one out": ("auto", None, EXPLORING, _one_is_out),
    "auto, by cost": ("auto", None, {**EXPLORING, "router_strategy": "cost"}, _nothing),
}


@pytest.mark.parametrize("session", ["", "s"])
@pytest.mark.parametrize("name", DRAWING)
def test_a_propensity_is_how_often_the_pick_is_made(name: str, session: str) -> None:
    strategy, steps, config, happened = DRAWING[name]
    over = rig(strategy, steps, **config)
    happened(over)
    if session:
        _served(over)
    counts: Counter[str] = Counter()
    claimed: dict[str, float] = {}
    for seed in range(DRAWS):
        decision = over.ask(seed=seed, session_id=session, session_explicit=bool(session))
        pick = ids(decision)[0]
        counts[pick] += 1
        assert claimed.setdefault(pick, decision.draft.propensity) == pytest.approx(decision.draft.propensity)
    assert_fits(counts, claimed)


SURE = [
    *("priority", "round-robin", "context-relay", "fill-first", "least-used", "cost-optimized", "reset-aware"),
    *("reset-window", "headroom", "lkgp", "context-optimized", "cache-optimized"),
]


@pytest.mark.parametrize("strategy", SURE)
def test_what_does_not_draw_is_sure(strategy: str) -> None:
    over = rig(strategy)
    decisions = [over.ask(seed=seed) for seed in range(30)]
    assert len({tuple(ids(decision)) for decision in decisions}) == 1
    assert {decision.draft.propensity for decision in decisions} == {1.0}


def test_facts_alone_do_not_make_a_draw() -> None:
    """Rules over unequal scores: without exploration there is one answer, whatever the seed."""
    values = dict(zip(FOUR, (0.1, 0.9, 0.5, 0.3), strict=True))
    facts = {name: ModelFacts(fitness={"default": value}) for name, value in values.items()}
    over = Rig(roster(FOUR, combo("auto", FOUR, exploration_rate=0.0), facts=facts))
    assert firsts(over, 200, model=COMBO).keys() == {"q"}
