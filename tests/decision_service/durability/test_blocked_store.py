"""A store that does not answer: deciding goes on, reports wait or are refused, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median

import grpc
import pytest

from omniroute.decision.v1 import decision_pb2 as pb
from tests.decision_service.client import Client, Refusal, outcome, refused
from tests.decision_service.durability.conftest import House

REPORT_BOUND_S = 5.0
SLACK_S = 3.0


@contextmanager
def locked(database: Path) -> Iterator[None]:
    """Nobody else can write while this lasts."""
    with closing(sqlite3.connect(database, isolation_level=None, timeout=5)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


async def decide_for(client: Client, model: str, seconds: float) -> list[float]:
    """Latencies, in seconds, of decisions one after the other."""
    latencies = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        await client.decide(model)
        latencies.append(time.monotonic() - began)
    return latencies


async def ended(report: asyncio.Task[pb.ReportResponse]) -> pb.ReportResponse | Refusal:
    """How a report that was sent ended."""
    try:
        return await report
    except grpc.aio.AioRpcError as error:
        return Refusal(error)


async def durable_at_last(house: House, client: Client, sent: pb.Outcome) -> None:
    """Sent again until it is taken, it is on disk once."""
    async with asyncio.timeout(15):
        while True:
            try:
                answer = await client.report(sent)
                break
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.2)
    assert answer.accepted + answer.duplicates == 1
    assert house.outcomes()[sent.decision_id, sent.attempt] == 1


async def test_deciding_never_waits_for_the_disk(house: House) -> None:
    client = await house.start()
    model = await client.add_target("ant")
    await client.attempt(model, "SUCCESS")
    decision = await client.decide(model)
    sent = outcome(decision, "SUCCESS")
    with locked(house.database):
        report = asyncio.create_task(client.report(sent))
        latencies = await decide_for(client, model, 3.0)
        assert not report.done(), "it was answered although it cannot be on disk"
    answer = await ended(report)
    if isinstance(answer, Refusal):
        assert answer.reason == "UNAVAILABLE"
    else:
        assert answer.accepted == 1
        assert house.outcomes()[sent.decision_id, 1] == 1
    await durable_at_last(house, client, sent)
    assert len(latencies) > 100
    assert median(latencies) < 0.05
    assert max(latencies) < 1.0


async def test_a_report_whose_caller_gives_up_is_a_duplicate_later(house: House) -> None:
    client = await house.start()
    model = await client.add_target("ant")
    sent = outcome(await client.decide(model), "SUCCESS")
    with locked(house.database):
        call = client.decisions.Report(pb.ReportRequest(outcomes=[sent]), timeout=0.5)
        assert (await refused(call)).code is grpc.StatusCode.DEADLINE_EXCEEDED
    async with asyncio.timeout(15):
        assert (await client.report(sent)).duplicates == 1
    assert house.outcomes() == {(sent.decision_id, 1): 1}


@pytest.mark.full
async def test_a_report_is_refused_within_its_bound_and_taken_later(house: House) -> None:
    client = await house.start()
    model = await client.add_target("ant")
    decision = await client.decide(model)
    sent = [outcome(decision, "TIMEOUT", final=False), outcome(decision, "TIMEOUT", attempt=2)]
    with locked(house.database):
        began = time.monotonic()
        told = await refused(client.report(*sent))
        assert time.monotonic() - began < REPORT_BOUND_S + SLACK_S
        assert (told.code, told.reason) == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
        assert told.retry_after_ms
        stored = await refused(client.add_provider("bee"))
        assert (stored.code, stored.reason) == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
        assert (await client.states("breaker"))["ant"].state == "OPEN"
    for each in sent:
        await durable_at_last(house, client, each)
    await client.add_provider("bee")
    await house.service.kill()
    client = await house.start()
    assert (await client.states("breaker"))["ant"].state == "OPEN"
