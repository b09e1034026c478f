"""Strategies that share the load over time: rotations, decks, shares, and what is in flight."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from itertools import accumulate, pairwise, permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from decision_service.kernel.model import Outcome, OutcomeClass
from decision_service.kernel.observe import Reception, observe
from omniroute.registry.v1 import registry_pb2
from tests.decision_service.loopback import serving
from tests.kernel.rig import Rig, combo, ids, reference, roster, step
from tests.statistics.fit import assert_fits, uniform

LETTERS = "pqrstuvw"
MANY = [f"{letter}/m@{letter}" for letter in LETTERS]
FAULTS = (OutcomeClass.CONTENT_POLICY, OutcomeClass.CLIENT_CANCELLED, OutcomeClass.LOCAL_CANCELLED)


def rig(strategy: str, count: int, steps: Sequence[Any] | None = None, **config: Any) -> Rig:
    return Rig(roster(MANY[:count], combo(strategy, steps or MANY[:count], **config)))


def first(over: Rig, seed: int = 0) -> str:
    """The letter of who comes first in a decision that takes effect."""
    return ids(over.decide(seed=seed))[0][0]


# Round-robin


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_round_robin_is_exact_with_failures_between(limit: int, count: int) -> None:
    """Whatever is nobody's fault: batch after batch has exactly so many successes, in declared order."""
    over, dice = rig("round-robin", count, sticky_round_robin_limit=limit), Random(1)
    served = []
    for _ in range(60 * limit):
        chosen = first(over)
        if limit > 1 and dice.random() < 0.4:
            over.report(dice.choice(FAULTS), final=True)
            continue
        over.report()
        served.append(chosen)
    if limit == 1:
        assert "".join(served) == (LETTERS[:count] * 60)[:60]
        return
    expected = [letter for letter in LETTERS[:count] for _ in range(limit)]
    assert served == [expected[n % len(expected)] for n in range(len(served))]


class Batches:
    """Round-robin over available targets by the words of its description, step by step."""

    def __init__(self, names: str, limit: int) -> None:
        self.names, self.limit, self.place = names, limit, 0
        self.serving, self.successes = "", 0

    def order(self, available: str) -> str:
        if self.serving and self.serving not in available:
            self.serving, self.successes = "", 0
        start = self.names.index(self.serving) if self.serving else self.place
        turned = self.names[start:] + self.names[:start]
        return "".join(name for name in turned if name in available)

    def success(self, name: str) -> None:
        self.successes = self.successes + 1 if name == self.serving else 1
        self.serving = name
        if self.successes >= self.limit:
            self.place = (self.names.index(name) + 1) % len(self.names)
            self.serving, self.successes = "", 0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("limit", [2, 3])
def test_round_robin_does_what_its_description_says(limit: int, seed: int) -> None:
    """Fallbacks that serve, targets that come and go: as a second, naive rotation has it."""
    names = LETTERS[:4]
    over, dice, naive = rig("round-robin", 4, sticky_round_robin_limit=limit), Random(seed), Batches(names, limit)
    for _ in range(400):
        available = "".join(name for name in names if dice.random() < 0.8) or names
        closed = {name: {"enabled": False} for name in names if name not in available}
        over.state.change_roster(
            roster(MANY[:4], combo("round-robin", MANY[:4], sticky_round_robin_limit=limit), connections=closed)
        )
        order = naive.order(available)
        assert "".join(name[0] for name in ids(over.decide())) == order
        served = dice.randrange(len(order) + 1)
        for attempt, name in enumerate(order[: served + 1], 1):
            good = attempt == served + 1
            over.report(OutcomeClass.SUCCESS if good else OutcomeClass.INVALID_REQUEST, attempt=attempt)
            if good:
                naive.success(name)


@pytest.mark.parametrize(("strategy", "config"), [("round-robin", {"sticky_round_robin_limit": 2}), ("weighted", {})])
def test_a_combo_in_a_panel_takes_its_turns_as_by_itself(strategy: str, config: dict[str, Any]) -> None:
    """What its members come to moves the same rotation, whoever asked."""
    config = config or {"sticky_weighted_limit": 2}
    inner = combo(strategy, _weighted((0, 1, 1))[1:], name="inner", **config)
    over = Rig(roster(MANY[:3], inner, combo("fusion", [MANY[0], reference("inner")])))
    seen = []
    for seed in range(8):
        panel = over.decide(seed=seed)
        assert panel.plan is not None
        place = next(place for place, call in enumerate(panel.plan.calls) if call.id == "2/1")
        seen.append(panel.chain[place].id[0])
        told = Outcome(str(len(over.decisions) - 1), 1, "2/1", OutcomeClass.SUCCESS, at=over.now, final=True)
        assert observe(over.state, told, over.now) is Reception.ACCEPTED
        alone = over.decide("inner", seed=seed)
        seen.append(ids(alone)[0][0])
        over.report()
    assert all(seen[at] == seen[at + 1] for at in range(0, 16, 2)), "two successes on each, one of either kind"
    if strategy == "round-robin":
        assert "".join(seen) == "qqrr" * 4


def test_a_combo_in_a_panel_sends_to_the_tail_who_is_at_its_limit() -> None:
    inner = combo("priority", MANY[1:3], name="inner", max_concurrent=1)
    over = Rig(roster(MANY[:3], inner, combo("fusion", [MANY[0], reference("inner")])))
    firsts = []
    for _ in range(2):
        plan = over.decide().plan
        assert plan is not None
        firsts.append(next(call.member.id for call in plan.calls if call.id == "2/1"))
    assert firsts == MANY[1:3]
    assert ids(over.ask("inner")) == MANY[1:3], "both are at their limit: the order is the declared one again"


# Decks


def deals(over: Rig, count: int) -> list[str]:
    """The step ids of so many first targets."""
    return [over.decide(seed=seed).chain[0].step.id for seed in range(count)]


@pytest.mark.parametrize("repeats", [0, 1])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_deck_deals_every_step_once_a_cycle_and_none_twice_running(count: int, repeats: int) -> None:
    steps = [step(name, id=str(n)) for n, name in enumerate([*MANY[:count], *MANY[:repeats]])]
    dealt = deals(rig("strict-random", count, steps, strict_random_deck=True), 60 * len(steps))
    cycles = [dealt[at : at + len(steps)] for at in range(0, len(dealt), len(steps))]
    assert all(sorted(cycle) == sorted(s.id for s in steps) for cycle in cycles)
    assert all(one != other for one, other in pairwise(dealt))


def test_the_cards_of_a_cycle_come_in_every_order() -> None:
    """Of three cards the first of a cycle is one of the two that did not end the last: each order as often."""
    steps = [step(name, id=name[0]) for name in MANY[:3]]
    dealt = "".join(deals(rig("strict-random", 3, steps, strict_random_deck=True), 9_000))
    cycles = Counter(dealt[at : at + 3] for at in range(0, len(dealt), 3))
    assert_fits(cycles, uniform(["".join(order) for order in permutations("pqr")]))


def test_a_card_waits_for_a_step_that_is_away() -> None:
    def with_(*closed: str) -> Any:
        policy = combo("strict-random", MANY[:3], strict_random_deck=True)
        return roster(MANY[:3], policy, connections={name: {"enabled": False} for name in closed})

    over = Rig(with_())
    here = first(over, seed=1)
    away = next(letter for letter in "pqr" if letter != here)
    over.state.change_roster(with_(away))
    third = first(over)
    assert third not in (here, away)
    over.state.change_roster(with_())
    assert first(over) == away, "its card is the one that is left"


# Shares


def windows(served: Sequence[str], weights: dict[str, float]) -> dict[str, float]:
    """For each target the furthest that its count in any window is from its share of that window's length."""
    total = sum(weights.values())
    furthest = {}
    for name, weight in weights.items():
        ahead = list(accumulate(((each == name) - weight / total for each in served), initial=0.0))
        furthest[name] = max(ahead) - min(ahead)  # a window is the difference of two beginnings
    return furthest


SHARES = [
    *((1, 1), (3, 1), (7, 3), (99, 1), (1, 1, 1), (5, 3, 2), (4, 2, 1), (6, 3, 1), (50, 30, 20), (70, 20, 10)),
    *((1, 1, 1, 1), (1,) * 7, (0.1, 0.2), (1 / 3, 1 / 7)),
]


@pytest.mark.parametrize("weights", SHARES, ids=str)
def test_quota_share_is_within_one_request_of_its_weights_over_any_window(weights: tuple[float, ...]) -> None:
    shares = dict(zip(LETTERS, weights, strict=False))
    over = rig("priority", len(weights), _weighted(weights), quota_share=True)
    served = []
    for _ in range(2_000):
        served.append(first(over))
        over.report()
    assert max(windows(served, shares).values()) <= 1.0 + 1e-6


@pytest.mark.parametrize("weights", [(4, 3, 2, 1), (8, 5, 3, 2, 1), (50, 30, 15, 5), (10, 1, 1)], ids=str)
def test_quota_share_is_never_a_whole_request_behind_its_weights(weights: tuple[float, ...]) -> None:
    """Counted from the beginning; a window that begins anywhere may then be off by less than two."""
    total = sum(weights)
    over = rig("priority", len(weights), _weighted(weights), quota_share=True)
    served: Counter[str] = Counter()
    for count in range(1, 2_001):
        served[first(over)] += 1
        over.report()
        assert all(abs(served[LETTERS[n]] - count * w / total) < 1.0 for n, w in enumerate(weights))


def test_the_shares_of_a_long_run_do_not_drift() -> None:
    """Thirds are no binary fractions; thousands of them still make exact turns."""
    over = rig("priority", 3, _weighted((1, 1, 1)), quota_share=True)
    turns = []
    for _ in range(9_000):
        turns.append(first(over))
        over.report()
    assert "".join(turns) == "pqr" * 3_000


def _weighted(weights: Sequence[float]) -> list[Any]:
    return [step(name, weight=float(weight)) for name, weight in zip(MANY, weights, strict=False)]


def test_a_share_of_nothing_gets_nothing() -> None:
    over = rig("priority", 3, _weighted((2, 0, 1)), quota_share=True)
    seen: Counter[str] = Counter()
    for _ in range(30):
        seen[first(over)] += 1
        over.report()
    assert seen == {"p": 20, "r": 10}


# What is in flight


async def test_64_decisions_at_once_spread_over_8_equal_targets(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        steps = [await client.add_target(letter) for letter in LETTERS]
        await client.add_combo("spread", steps, "least-used")
        decisions = await asyncio.gather(*(client.decide("spread") for _ in range(64)))
        assert Counter(decision.plan.targets[0].provider for decision in decisions) == dict.fromkeys(LETTERS, 8)
        request = registry_pb2.ListStatesRequest(kind="lease", page_size=1000)
        leases = (await client.machines.ListStates(request, timeout=10.0)).states
        assert Counter(lease.reason[0] for lease in leases) == dict.fromkeys(LETTERS, 8)


@pytest.mark.parametrize("seed", range(3))
def test_least_used_never_lets_one_get_ahead(seed: int) -> None:
    """Whatever ends when: who comes first has the fewest in flight of all."""
    over, dice = rig("least-used", 5), Random(seed)
    live: deque[tuple[Any, str]] = deque()
    for _ in range(500):
        flying = Counter(name for _, name in live)
        decision = over.decide()
        chosen = ids(decision)[0][0]
        assert flying[chosen] == min(flying[letter] for letter in LETTERS[:5])
        live.append((decision, chosen))
        while live and dice.random() < 0.5:
            live.rotate(dice.randrange(len(live)))
            ended, _ = live.popleft()
            over.report(decision=ended)
        over.pass_time(dice.randrange(2_000))


# Groups that share the load

GROUPS = [("auto", {"exploration_rate": 0.0}), ("reset-aware", {}), ("reset-window", {})]


@pytest.mark.parametrize(("strategy", "config"), GROUPS)
def test_equals_take_exact_turns(strategy: str, config: dict[str, Any]) -> None:
    over = rig(strategy, 5, **config)
    turns = []
    for _ in range(50):
        turns.append(first(over))
        over.report(OutcomeClass.LOCAL_CANCELLED, final=True)
    assert "".join(turns) == LETTERS[:5] * 10
