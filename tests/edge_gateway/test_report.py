"""Outcomes reach the decision service, whatever happens to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from edge_gateway import report
from edge_gateway.report import OutcomeQueue
from omniroute.decision.v1.decision_pb2 import Outcome, RejectedOutcome, ReportRequest, ReportResponse
from service_kit.errors import Reason, ServiceError, invalid
from service_kit.metrics import REGISTRY
from tests.edge_gateway import fakes
from tests.edge_gateway.conftest import Open, chat
from tests.edge_gateway.fakes import FakeDecision


class Sink:
    """Takes reports; fails with ``failure`` while there is one."""

    def __init__(self, failure: ServiceError | None = None) -> None:
        self.failure = failure
        self.batches: list[list[int]] = []
        self.calls = 0

    async def report(self, request: ReportRequest) -> ReportResponse:
        self.calls += 1
        if self.failure is not None:
            raise self.failure
        self.batches.append([outcome.attempt for outcome in request.outcomes])
        return ReportResponse(accepted=len(request.outcomes))


def outcomes(count: int) -> list[Outcome]:
    return [Outcome(decision_id="d", attempt=number) for number in range(count)]


def dropped(why: str) -> float:
    return REGISTRY.get_sample_value("omniroute_edge_report_dropped_total", {"why": why}) or 0.0


async def test_outcomes_travel_in_batches() -> None:
    sink = Sink()
    queue = OutcomeQueue(sink.report, 10_000)
    queue.start()
    for outcome in outcomes(2500):
        queue.put([outcome])
    await queue.stop(5)
    assert [len(batch) for batch in sink.batches] == [1000, 1000, 500]
    assert [number for batch in sink.batches for number in batch] == list(range(2500))


async def test_outage_is_waited_out() -> None:
    sink = Sink(ServiceError(Reason.UNAVAILABLE, "away"))
    queue = OutcomeQueue(sink.report, 100)
    queue.start()
    queue.put(outcomes(3))
    await asyncio.sleep(0.3)
    assert 2 <= sink.calls <= 8, "tried again, and ever more slowly"
    sink.failure = None
    await queue.stop(3)
    assert sink.batches == [[0, 1, 2]]


async def test_full_queue_drops_the_oldest() -> None:
    before = dropped("queue_full")
    sink = Sink()
    queue = OutcomeQueue(sink.report, 5)
    queue.put(outcomes(8))
    queue.start()
    await queue.stop(5)
    assert sink.batches == [[3, 4, 5, 6, 7]]
    assert dropped("queue_full") - before == 3


async def test_refused_batch_does_not_block_the_queue() -> None:
    before = dropped("refused")
    sink = Sink(invalid("outcomes", "1001", "at most 1000"))
    queue = OutcomeQueue(sink.report, 100)
    queue.start()
    queue.put(outcomes(2))
    async with asyncio.timeout(2):
        while dropped("refused") - before < 2:
            await asyncio.sleep(0.01)
    sink.failure = None
    queue.put(outcomes(1))
    await queue.stop(5)
    assert sink.batches == [[0]]


async def test_stop_is_bounded_and_counts_what_is_lost() -> None:
    before = dropped("shutdown")
    queue = OutcomeQueue(Sink(ServiceError(Reason.UNAVAILABLE, "away")).report, 100)
    queue.start()
    queue.put(outcomes(4))
    async with asyncio.timeout(1):
        await queue.stop(0.1)
    assert dropped("shutdown") - before == 4


async def test_rejected_outcomes_are_not_sent_again() -> None:
    calls = 0

    async def picky(request: ReportRequest) -> ReportResponse:
        nonlocal calls
        calls += 1
        return ReportResponse(accepted=1, rejected=[RejectedOutcome(index=1, field="outcome_class")])

    queue = OutcomeQueue(picky, 100)
    queue.start()
    queue.put(outcomes(2))
    await queue.stop(5)
    assert calls == 1


async def test_restart_of_the_decision_service(open_house: Open) -> None:
    """Outcomes of requests that were under way during an outage arrive after it."""
    gate = asyncio.Event()

    async def slow(request: object) -> AsyncIterator[fakes.Event]:
        yield fakes.head()
        await gate.wait()
        for event in (fakes.chunk(fakes.COMPLETION), fakes.outcome(), fakes.done()):
            yield event

    decision = FakeDecision()
    server = await decision.start()
    house = await open_house(slow, decision_address=f"127.0.0.1:{server.port}")
    pending = asyncio.create_task(house.post(chat()))
    async with asyncio.timeout(5):
        while not house.executor.running:
            await asyncio.sleep(0.01)
    await server.stop(0)
    gate.set()
    assert (await pending).status_code == 200, "the client does not wait for the report"
    await asyncio.sleep(0.3)
    assert not decision.outcomes
    again = await decision.start(server.port)
    [delivered] = await decision.wait_for_outcomes(1, limit_s=8)
    assert delivered.final
    await again.stop(0)


def test_batch_is_what_the_contract_allows() -> None:
    assert report.BATCH == 1000
