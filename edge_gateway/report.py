"""Outcomes on their way to the decision service, off the client's path."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice

import structlog

from edge_gateway import metrics
from omniroute.decision.v1 import decision_pb2
from service_kit.errors import Reason, ServiceError

BATCH = 1000
LINGER_S = 0.01
FIRST_RETRY_S, LONGEST_RETRY_S = 0.05, 2.0

# A refusal for one of these ends when the service is well again; any other would come back the same.
PASSING = frozenset({Reason.UNAVAILABLE, Reason.INTERNAL, Reason.CONFLICT, Reason.RATE_LIMIT_EXCEEDED})

Report = Callable[[decision_pb2.ReportRequest], Awaitable[decision_pb2.ReportResponse]]

log = structlog.get_logger()


class OutcomeQueue:
    """A bounded queue with one deliverer. When it is full the oldest outcome is dropped and counted."""

    def __init__(self, report: Report, limit: int) -> None:
        self._report = report
        self._limit = limit
        self._waiting: deque[decision_pb2.Outcome] = deque()
        self._filled = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._deliver(), name="report outcomes")

    def put(self, outcomes: Iterable[decision_pb2.Outcome]) -> None:
        """Take in outcomes without waiting."""
        self._waiting.extend(outcomes)
        while len(self._waiting) > self._limit:
            self._waiting.popleft()
            metrics.REPORT_DROPPED.labels("queue_full").inc()
        self._mark()

    async def stop(self, grace_s: float) -> None:
        """Deliver what waits for at most ``grace_s``, then end; what is left is lost, and said so."""
        try:
            async with asyncio.timeout(grace_s):
                await self._empty.wait()
        except TimeoutError:
            log.error("outcomes lost at shutdown", count=len(self._waiting))
            metrics.REPORT_DROPPED.labels("shutdown").inc(len(self._waiting))
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _mark(self) -> None:
        metrics.REPORT_QUEUED.set(len(self._waiting))
        if self._waiting:
            self._filled.set()
            self._empty.clear()
        else:
            self._filled.clear()
            self._empty.set()

    async def _deliver(self) -> None:
        retry_s = FIRST_RETRY_S
        while True:
            await self._filled.wait()
            await asyncio.sleep(LINGER_S)
            batch = list(islice(self._waiting, BATCH))
            if await self._send(batch):
                retry_s = FIRST_RETRY_S
                self._forget(batch)
            else:
                metrics.REPORT_RETRIES.inc()
                await asyncio.sleep(retry_s * (0.5 + random.random() / 2))
                retry_s = min(2 * retry_s, LONGEST_RETRY_S)

    async def _send(self, batch: list[decision_pb2.Outcome]) -> bool:
        """Whether the batch is done with, delivered or refused for good."""
        try:
            response = await self._report(decision_pb2.ReportRequest(outcomes=batch))
        except ServiceError as error:
            if error.reason in PASSING:
                return False
            log.error("outcomes refused", count=len(batch), reason=error.reason, message=error.message)
            metrics.REPORT_DROPPED.labels("refused").inc(len(batch))
            return True
        _count(batch, response)
        return True

    def _forget(self, batch: list[decision_pb2.Outcome]) -> None:
        """Take the batch's outcomes away, as far as a full queue has not dropped them already."""
        for outcome in batch:
            if self._waiting and self._waiting[0] is outcome:
                self._waiting.popleft()
        self._mark()


def _count(batch: list[decision_pb2.Outcome], response: decision_pb2.ReportResponse) -> None:
    metrics.REPORTED.labels("accepted").inc(response.accepted)
    metrics.REPORTED.labels("duplicate").inc(response.duplicates)
    metrics.REPORTED.labels("rejected").inc(len(response.rejected))
    for rejected in response.rejected:
        decision_id = batch[rejected.index].decision_id if rejected.index < len(batch) else ""
        log.warning("outcome rejected", decision_id=decision_id, field=rejected.field, why=rejected.message)
