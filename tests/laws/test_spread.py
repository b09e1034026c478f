"""Load: what is decided in one tick sees what was decided before it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decision_service.kernel.model import ModelFacts, OutcomeClass
from tests.kernel.rig import Rig, combo, ids, roster

EIGHT = [f"p{n}/m@c" for n in range(8)]


@pytest.mark.parametrize("model", ["combo", "dynamic"])
def test_sixty_four_decisions_in_one_tick_spread_evenly(model: str) -> None:
    accounts = [f"p/m@{n}" for n in range(8)]
    over = Rig(roster([*EIGHT, *accounts], combo("least-used", EIGHT), combo("priority", ["p/m"], name="dynamic")))
    firsts = Counter(ids(over.decide(model, seed))[0] for seed in range(64))
    assert set(firsts.values()) == {8}
    assert len(firsts) == 8


@given(busy=st.lists(st.integers(0, 20), min_size=8, max_size=8), more=st.integers(1, 100))
def test_least_used_evens_out_what_was_uneven(busy: list[int], more: int) -> None:
    over = Rig(roster(EIGHT, combo("least-used", EIGHT)))
    for candidate, count in zip(EIGHT, busy, strict=True):
        over.state.account(candidate.partition("/")[0], "c").in_flight = count
    for seed in range(more):
        over.decide(seed=seed)
    after = [over.in_flight(candidate.partition("/")[0], "c") for candidate in EIGHT]
    assert sum(after) == sum(busy) + more
    raised = [a for a, b in zip(after, busy, strict=True) if a > b]
    assert max(raised) - min(after) <= 1, "nobody was raised while another had less"


@given(limit=st.integers(1, 5), rounds=st.integers(1, 12))
def test_equals_under_rules_share_to_the_request(limit: int, rounds: int) -> None:
    over = Rig(roster(EIGHT, combo("auto", EIGHT[:limit], exploration_rate=0.0, weights={"taskFit": 1.0})))
    firsts = Counter(ids(over.decide(seed=seed))[0] for seed in range(limit * rounds))
    assert firsts == dict.fromkeys(EIGHT[:limit], rounds)


# Prices


@given(
    costs=st.lists(st.floats(0.0, 100.0), min_size=2, max_size=6),
    raised=st.integers(0, 5),
    by=st.floats(0.0, 100.0),
    strategy=st.sampled_from(["cost-optimized", "auto"]),
    tokens=st.integers(0, 10_000),
)
def test_a_higher_price_never_raises_a_candidates_place(
    costs: list[float], raised: int, by: float, strategy: str, tokens: int
) -> None:
    raised %= len(costs)
    places = []
    for price in (costs[raised], costs[raised] + by):
        facts = {c: ModelFacts(input_price=p, output_price=p) for c, p in zip(EIGHT, costs, strict=False)}
        facts[EIGHT[raised]] = ModelFacts(input_price=price, output_price=price)
        policy = combo(strategy, EIGHT[: len(costs)], router_strategy="cost", exploration_rate=0.0)
        places.append(ids(Rig(roster(EIGHT, policy, facts=facts)).ask(input_tokens=tokens)).index(EIGHT[raised]))
    assert places[1] >= places[0]


# Round-robin, written a second time


class NaiveRoundRobin:
    """Batches of so many successes, the plainest way: a position, and a run of successes on one step."""

    def __init__(self, steps: int, limit: int) -> None:
        self.steps, self.limit, self.position, self.run = steps, limit, 0, (-1, 0)

    def first(self, available: set[int]) -> int:
        serving, _ = self.run
        if self.limit > 1 and serving >= 0 and serving not in available:
            self.run = (-1, 0)
            serving = -1
        start = serving if self.limit > 1 and serving >= 0 else self.position
        chosen = next(i % self.steps for i in range(start, start + self.steps) if i % self.steps in available)
        if self.limit == 1:
            self.position = (self.position + 1) % self.steps
        return chosen

    def succeeded(self, step: int) -> None:
        if self.limit == 1:
            return
        serving, successes = self.run
        successes = successes + 1 if serving == step else 1
        self.run = (step, successes)
        if successes >= self.limit:
            self.run, self.position = (-1, 0), (step + 1) % self.steps


@given(
    limit=st.integers(1, 4),
    steps=st.integers(1, 6),
    history=st.lists(st.tuples(st.integers(0, 3), st.sets(st.integers(0, 5), max_size=3)), max_size=40),
)
def test_round_robin_is_the_plain_one(limit: int, steps: int, history: list[tuple[int, set[int]]]) -> None:
    """Each request fails on so many targets before one serves; some targets cannot see what it needs."""
    naive = NaiveRoundRobin(steps, limit)
    policy = combo("round-robin", EIGHT[:steps], sticky_round_robin_limit=limit)
    over = Rig(roster(EIGHT, policy))
    for failures, blind in history:
        available = set(range(steps)) - blind
        if not available:
            continue
        facts = {EIGHT[i]: ModelFacts(has=frozenset({"vision"})) for i in available}
        over.state.change_roster(roster(EIGHT, policy, facts=facts))
        decision = over.decide(needs_vision=True)
        order = [EIGHT.index(candidate) for candidate in ids(decision)]
        assert order[0] == naive.first(available)
        assert order == sorted(available, key=lambda i, first=order[0]: (i - first) % steps)  # type: ignore[misc]
        for attempt in range(1, len(order) + 1):
            if attempt > failures:
                over.report(OutcomeClass.SUCCESS, decision, attempt=attempt)
                naive.succeeded(order[attempt - 1])
                break
            over.report(OutcomeClass.CONTENT_POLICY, decision, attempt=attempt)
