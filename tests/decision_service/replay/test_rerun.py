"""Recorded requests decided again, on outcomes made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from decision_service.journal.rows import OutcomeRow
from decision_service.kernel.model import Refused
from decision_service.kernel.roster import Roster
from decision_service.replay import Experience, Summary, of_one_call, rerun, summed
from decision_service.replay.recorded import Recorded
from decision_service.scenario import read_scenario

NOW, SECOND = 1_767_225_600_000, 1_000
A, B = "a/m@a1", "b/m@b1"


def roster(*steps: str, strategy: str = "priority", **config: Any) -> Roster:
    """Two accounts and the policy ``mine`` over them."""
    prices = {"a": (10.0, 20.0), "b": (1.0, 2.0)}
    candidates = [
        {"provider": name, "model": "m", "connection": f"{name}1", "input_price": cost[0], "output_price": cost[1]}
        for name, cost in prices.items()
    ]
    combo = {"name": "mine", "strategy": strategy, "steps": [f"{step}/m" for step in steps], "config": config}
    return read_scenario({"candidates": candidates, "combos": [combo]}).roster


def row(number: int, attempt: int, candidate: str, kind: str, at: int, **fields: Any) -> OutcomeRow:
    provider, _, rest = candidate.partition("/")
    model, _, connection = rest.partition("@")
    told: Mapping[str, Any] = {"latency_ms": 100, "input_tokens": 1_000, "output_tokens": 100, "cost_usd": 0.5} | fields
    return OutcomeRow(
        decision_id=f"dec_{number}",
        attempt=attempt,
        at=at + told["latency_ms"],
        provider=provider,
        model=model,
        connection_id=connection,
        combo="mine",
        outcome_class=kind,
        **told,
    )


def decision(number: int, *calls: tuple[str, str], second: float = 0.0, **fields: Any) -> Recorded:
    """Its calls one after another, each of 100 ms."""
    began = NOW + round((second or number) * SECOND)
    rows = [
        row(number, attempt, candidate, kind, began + (attempt - 1) * 100, **fields)
        for attempt, (candidate, kind) in enumerate(calls, 1)
    ]
    return Recorded(f"dec_{number}", began, rows)


def again(decisions: Sequence[Recorded], under: Roster, model: str = "", seed: int = 0) -> Summary:
    return rerun(decisions, under, {}, experience=Experience(decisions), model=model, seed=seed)


def test_the_same_policy_comes_to_the_same() -> None:
    record = [decision(number, (A, "SUCCESS"), cost_usd=number / 8) for number in range(1, 9)]
    assert again(record, roster("a", "b")) == summed(record)
    total = summed(record).total
    assert (total.decisions, total.answered, total.attempts, total.latency_ms) == (8, 8, 8, 800)
    assert total.cost_usd == sum(range(1, 9)) / 8


def test_of_a_target_that_was_never_called_nothing_is_told() -> None:
    record = [decision(1, (A, "SUCCESS")), decision(2, (A, "SUCCESS"))]
    found = again(record, roster("b", "a"))
    assert {name: (tally.decisions, tally.known) for name, tally in found.targets.items()} == {B: (2, 0)}
    assert found.total.cost_usd == 0
    assert found.same_first == 0


def test_another_call_costs_what_its_tokens_cost_there() -> None:
    record = [decision(1, (A, "SUCCESS")), decision(2, (B, "SUCCESS"), input_tokens=7, cost_usd=99.0)]
    found = again(record, roster("b", "a")).targets[B]
    own, other = 99.0, (1_000 * 1.0 + 100 * 2.0) / 1_000_000
    assert found.cost_usd == pytest.approx(own + other)


def test_a_call_ends_as_the_nearest_one_in_time() -> None:
    calm, outage = ("SUCCESS", "TIMEOUT")
    known = [decision(10 + n, (B, outage if n < 5 else calm), second=100 + n) for n in range(10)]
    record = [decision(1, (A, "SUCCESS"), second=101.4), decision(2, (A, "SUCCESS"), second=300)]
    found = rerun(record, roster("b"), {}, experience=Experience([*known, *record]))
    assert (found.total.answered, found.total.known) == (1, 2)


def test_a_failure_goes_on_to_the_next_and_is_learnt_from() -> None:
    record = [
        decision(1, (A, "RATE_LIMITED"), (B, "SUCCESS")),
        *(decision(number, (B, "SUCCESS"), second=1.2 + number / 100) for number in range(2, 6)),
    ]
    found = again(record, roster("a", "b"))
    assert found.same_first == 5  # while `a` rests, `b` is first
    assert found.targets[A].attempts == 2
    assert found.targets[A].answered == 1
    assert found == summed(record)


def test_what_the_request_is_to_blame_for_ends_there() -> None:
    record = [decision(1, (A, "INVALID_REQUEST")), decision(2, (B, "SUCCESS"))]
    found = again(record[:1], roster("a", "b"))
    assert (found.total.attempts, found.total.answered, found.total.known) == (1, 0, 1)


def test_what_decisions_move_is_moved() -> None:
    record = [decision(number, (A, "SUCCESS")) for number in range(1, 11)]
    record += [decision(number, (B, "SUCCESS")) for number in range(11, 21)]
    turns = again(record, roster("a", "b", strategy="round-robin", stickyRoundRobinLimit=1))
    assert {name: tally.decisions for name, tally in turns.targets.items()} == {A: 10, B: 10}


def test_the_same_seed_is_the_same_replay() -> None:
    record = [decision(number, (A, "SUCCESS")) for number in range(1, 60)]
    drawn = [again(record, roster("a", "b", strategy="random"), seed=seed) for seed in (1, 1, *range(2, 10))]
    assert drawn[0] == drawn[1]
    assert len({found.same_first for found in drawn}) > 1


def test_refusals_are_counted_by_reason() -> None:
    record = [decision(number, (A, "AUTH_FAILED"), second=1 + number / 1_000) for number in range(1, 4)]
    found = again(record, roster("a"))
    assert found.total.decisions + sum(found.refused.values()) == 3
    assert again(record, roster("a"), model="nowhere").refused == {"MODEL_NOT_FOUND": 3}


def test_plans_of_several_calls_are_told_apart() -> None:
    assert of_one_call("mine", roster("a", "b"), {})
    assert not of_one_call("mine", roster("a", "b", strategy="fusion"), {})
    with pytest.raises(Refused):
        of_one_call("nowhere", roster("a"), {})
    record = [decision(1, (A, "SUCCESS"))]
    assert again(record, roster("a", "b", strategy="fusion")).refused == {"plans of several calls": 1}
