"""Report over loopback: what is taken, what is a duplicate, what is rejected, and what odd telemetry does."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from omniroute.decision.v1 import decision_pb2 as pb
from service_kit import clock
from tests.decision_service.client import Client, Refusal, outcome, refused, stranger

HOUR_S = 3_600


def stored(data_dir: Path) -> list[tuple[str, int]]:
    """(decision, attempt) of every outcome on disk."""
    with closing(sqlite3.connect(data_dir / "omniroute.db")) as connection:
        return connection.execute("SELECT decision_id, attempt FROM outcomes ORDER BY 1, 2").fetchall()


def ago(seconds: float) -> Timestamp:
    stamp = Timestamp()
    stamp.FromMilliseconds(int((clock.wall() - seconds) * 1000))
    return stamp


async def test_an_answered_report_is_on_disk(service: Client, tmp_path: Path) -> None:
    model = await service.add_target("ant")
    decision = await service.decide(model)
    await service.report(outcome(decision, "UPSTREAM_ERROR", final=False), outcome(decision, "SUCCESS", attempt=2))
    assert stored(tmp_path) == [(decision.decision_id, 1), (decision.decision_id, 2)]


async def test_a_thousand_outcomes_are_taken_and_one_more_is_not(service: Client, tmp_path: Path) -> None:
    model = await service.add_target("ant")
    decision = await service.decide(model)
    outcomes = [outcome(decision, "SUCCESS", attempt=number + 1) for number in range(1_001)]
    told = await refused(service.report(*outcomes))
    assert (told.reason, told.field) == ("INVALID_FIELD", "outcomes")
    assert "1001" in told.message
    assert "at most 1000" in told.message
    assert not stored(tmp_path)
    assert (await service.report(*outcomes[:1000])).accepted == 1000
    assert len(stored(tmp_path)) == 1000


async def test_an_empty_report_is_answered(service: Client) -> None:
    assert await service.report() == pb.ReportResponse()


REJECTED: dict[str, dict[str, Any]] = {
    "decision_id": {"decision_id": ""},
    "attempt": {"attempt": 10_001},
    "target_id": {"target_id": "nobody's"},
    "next_target_id": {"next_target_id": "2", "final": False},
    "outcome_class": {"outcome_class": 99},
    "finish_reason": {"finish_reason": "x" * 129},
    "provider": {"provider": "x" * 129},
    "connection_id": {"connection_id": "a\0b"},
    "model": {"model": "a\x1fb"},
    "hand_off_summary": {"hand_off_summary": "x" * (32 * 1024 + 1)},
}


@pytest.mark.parametrize("field", REJECTED)
async def test_a_wrong_outcome_is_rejected_by_itself(service: Client, field: str) -> None:
    model = await service.add_target("ant")
    first, second = await service.decide(model), await service.decide(model)
    wrong = outcome(first, "SUCCESS")
    for name, value in REJECTED[field].items():
        setattr(wrong, name, value)
    answer = await service.report(outcome(second, "SUCCESS"), wrong)
    assert answer.accepted == 1
    [rejected] = answer.rejected
    assert (rejected.index, rejected.field) == (1, field)
    assert field in rejected.message
    assert first.decision_id in await service.states("lease")


ODD: dict[str, dict[str, Any]] = {
    "cost is no number": {"cost_usd": float("nan")},
    "cost is endless": {"cost_usd": float("inf")},
    "cost is negative": {"cost_usd": -3.0},
    "everything is huge": dict.fromkeys(("latency_ms", "ttft_ms", "input_tokens", "output_tokens"), 2**32 - 1),
    "quota is no number": {"quota": [pb.QuotaWindow(name="weekly", remaining_fraction=float("nan"))]},
    "quota is negative": {"quota": [pb.QuotaWindow(name="weekly", remaining_fraction=-0.5)]},
    "quota of no known window": {"quota": [pb.QuotaWindow(name="x" * 1000, remaining_fraction=0.5)]},
    "it comes from the future": {"at": Timestamp(seconds=4_000_000_000)},
    "it comes from long ago": {"at": Timestamp(seconds=1)},
    "it comes from before time": {"at": Timestamp(seconds=-5)},
    "its time cannot be": {"at": Timestamp(seconds=2**62)},
    "its time is half": {"at": Timestamp(seconds=1, nanos=-5)},
    "a reset cannot be": {
        "quota": [pb.QuotaWindow(name="weekly", remaining_fraction=0.5, reset_at=Timestamp(seconds=2**62))]
    },
}


@pytest.mark.parametrize("what", ODD)
async def test_odd_telemetry_is_clamped_or_dropped(service: Client, tmp_path: Path, what: str) -> None:
    """It moves no state machine and does not keep the outcomes beside it from being taken."""
    model = await service.add_target("ant")
    first, second = await service.decide(model), await service.decide(model)
    answer = await service.report(outcome(first, "SUCCESS", **ODD[what]), outcome(second, "SUCCESS"))
    assert (answer.accepted, len(answer.rejected)) == (2, 0)
    assert not await service.states(abnormal_only=True)
    with closing(sqlite3.connect(tmp_path / "omniroute.db")) as connection:
        rows = connection.execute("SELECT at, cost_usd FROM outcomes").fetchall()
    for at, cost in rows:
        assert abs(at / 1000 - clock.wall()) < 60
        assert 0 <= cost < 1e6


async def test_a_remaining_fraction_below_nothing_is_a_limit_reached(service: Client) -> None:
    model = await service.add_target("ant")
    window = pb.QuotaWindow(name="weekly", remaining_fraction=-0.5, reset_at=ago(-HOUR_S))
    await service.attempt(model, "SUCCESS", quota=[window])
    told = await refused(service.decide(model))
    assert "quota" in told.message
    assert told.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert told.retry_after_ms is not None
    assert (HOUR_S - 60) * 1000 < told.retry_after_ms <= HOUR_S * 1000


async def test_a_hint_beyond_reason_rests_a_connection_for_an_hour(service: Client) -> None:
    model = await service.add_target("ant")
    await service.attempt(model, "RATE_LIMITED", retry_after_ms=2**32 - 1)
    told = await refused(service.decide(model))
    assert told.retry_after_ms is not None
    assert (HOUR_S - 60) * 1000 < told.retry_after_ms <= HOUR_S * 1000


# Outcomes of decisions that the service never made


async def test_an_unknown_decision_counts_once_and_moves_no_machine(service: Client, tmp_path: Path) -> None:
    await service.add_target("ant")
    outcomes = [stranger(f"dec-{n}", "ant", outcome_class=pb.OUTCOME_CLASS_UPSTREAM_ERROR) for n in range(5)]
    answer = await service.report(*outcomes, outcomes[0])
    assert (answer.accepted, answer.duplicates) == (5, 1)
    again = await service.report(*outcomes)
    assert (again.accepted, again.duplicates) == (0, 5)
    assert len(stored(tmp_path)) == 5
    assert not await service.states(abnormal_only=True)
    [view] = (await service.decisions.ListCandidates(pb.ListCandidatesRequest(model="auto"))).candidates
    assert view.breaker == "CLOSED"
    assert view.reachable


async def test_an_unknown_decision_that_is_reported_twice_at_once_counts_once(service: Client, tmp_path: Path) -> None:
    """Of reports that cross, one takes the outcome; the others are duplicates or are to be sent again."""
    await service.add_target("ant")
    calls = [service.report(stranger(f"dec-{n}", "ant")) for n in range(10) for _ in range(4)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    taken = duplicates = 0
    for number, first in enumerate(answers):
        if isinstance(first, grpc.aio.AioRpcError):
            told = Refusal(first)
            assert (told.reason, told.code) == ("UNAVAILABLE", grpc.StatusCode.UNAVAILABLE)
            assert told.retry_after_ms
            last = await service.report(stranger(f"dec-{number // 4}", "ant"))
        else:
            assert isinstance(first, pb.ReportResponse)
            last = first
        taken += last.accepted
        duplicates += last.duplicates
    assert (taken, duplicates) == (10, 30)
    assert len(stored(tmp_path)) == 10


async def test_an_unknown_decision_of_the_day_before_is_rejected(service: Client, tmp_path: Path) -> None:
    await service.add_target("ant")
    answer = await service.report(
        stranger("dec-old", "ant", at=ago(25 * HOUR_S)), stranger("dec-recent", "ant", at=ago(23 * HOUR_S))
    )
    assert answer.accepted == 1
    [rejected] = answer.rejected
    assert (rejected.index, rejected.field) == (0, "at")
    assert stored(tmp_path) == [("dec-recent", 1)]


async def test_an_unknown_decision_may_name_what_nobody_knows(service: Client, tmp_path: Path) -> None:
    await service.add_target("ant")
    answer = await service.report(stranger("dec-1", "nobody"))
    assert answer.accepted == 1
    assert stored(tmp_path) == [("dec-1", 1)]
    assert (await service.decide("ant/ant-model")).decision_id


async def test_attempts_may_come_late_doubled_and_out_of_order(service: Client, tmp_path: Path) -> None:
    names = [await service.add_target(name) for name in ("ant", "bee", "cat")]
    await service.add_combo("three", names)
    decision = await service.decide("three")
    third = outcome(decision, "SUCCESS", place=2, attempt=3)
    second = outcome(decision, "TIMEOUT", place=1, attempt=2, final=False)
    first = outcome(decision, "UPSTREAM_ERROR", place=0, attempt=1, final=False)
    answers = [await service.report(each) for each in (third, first, second, first, third)]
    assert [(answer.accepted, answer.duplicates) for answer in answers] == [(1, 0)] * 3 + [(0, 1)] * 2
    assert len(stored(tmp_path)) == 3
    assert not await service.states("lease")
    breakers = await service.states("breaker")
    assert [breakers[name].count for name in ("ant", "bee", "cat")] == [1, 1, 0]


async def test_a_cost_that_is_left_to_the_service_is_in_the_record(service: Client) -> None:
    model = await service.add_target("ant", input_price=2.0, output_price=4.0)
    left = await service.attempt(model, "SUCCESS", input_tokens=1_000, output_tokens=500)
    told = await service.attempt(model, "SUCCESS", input_tokens=1_000, output_tokens=500, cost_usd=0.5)
    for decision, cost in ((left, 0.004), (told, 0.5)):
        (kept,) = (await service.record(decision.decision_id)).outcomes
        assert kept.cost_usd == pytest.approx(cost)
