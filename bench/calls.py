"""The calls that are made: decisions as the edge asks for them, and reports of their outcomes."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable

from bench import http2
from bench.load import FAILED, Ended, Work
from omniroute.decision.v1 import decision_pb2

CONNECTIONS = 4
DECIDE = "/omniroute.decision.v1.DecisionService/Decide"
REPORT = "/omniroute.decision.v1.DecisionService/Report"
ID = "%032x"

Message = Callable[[], bytes]


def decide_messages() -> Message:
    """Requests as the edge sends them: each with an id of its own, all of one size."""
    marker = "~" * len(ID % 0)
    request = decision_pb2.DecideRequest(
        request_id=marker,
        model="auto",
        session_id="5f0c1d" * 10,
        features=decision_pb2.RequestFeatures(
            operation=decision_pb2.OPERATION_CHAT,
            input_tokens=420,
            max_output_tokens=512,
            last_user_chars=120,
            context_tokens_to_last_user=400,
            last_user_text="Write a short note about the tides, with one example, for a reader of twelve years. " * 2,
            prompt_prefix_hash="9a3b" * 16,
        ),
    )
    before, _, after = request.SerializeToString().partition(marker.encode())
    numbers = itertools.count()
    return lambda: before + (ID % next(numbers)).encode() + after


def outcome_of(decision: decision_pb2.DecideResponse) -> bytes:
    """The report of a success."""
    outcome = decision_pb2.Outcome(
        decision_id=decision.decision_id,
        attempt=1,
        target_id="1",
        outcome_class=decision_pb2.OUTCOME_CLASS_SUCCESS,
        http_status=200,
        latency_ms=350 + len(decision.decision_id),
        input_tokens=420,
        output_tokens=180,
        finish_reason="stop",
        final=True,
    )
    return decision_pb2.ReportRequest(outcomes=[outcome]).SerializeToString()


class Client:
    """Some connections to one server."""

    def __init__(self, connections: list[http2.Connection]) -> None:
        self._connections = connections

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def calls(self, path: str, message: Message, well: bytes = b"") -> Work:
        """One kind of call, again and again; an answer that does not hold ``well`` is a failure."""
        headers, connections = http2.call_headers(path), self._connections

        def work(slot: int, ended: Ended) -> None:
            started = time.perf_counter()
            connections[slot % len(connections)].call(
                headers,
                message(),
                lambda answer: ended(time.perf_counter() - started if answer and well in answer else FAILED),
            )

        return work

    def pairs(self, message: Message, reports: list[float]) -> Work:
        """A decision, then its report; the decision's time is the call's, the report's goes to ``reports``."""
        decide, report, connections = http2.call_headers(DECIDE), http2.call_headers(REPORT), self._connections

        def work(slot: int, ended: Ended) -> None:
            connection, started = connections[slot % len(connections)], time.perf_counter()

            def decided(answer: bytes) -> None:
                if not answer:
                    ended(FAILED)
                    return
                now = time.perf_counter()
                taken = now - started

                def reported(receipt: bytes) -> None:
                    reports.append(time.perf_counter() - now)
                    ended(taken if receipt else FAILED)

                connection.call(report, outcome_of(decision_pb2.DecideResponse.FromString(answer)), reported)

            connection.call(decide, message(), decided)

        return work

    async def one(self, path: str, message: bytes) -> bytes:
        """The answer of one call. Raises RuntimeError when it is refused."""
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._connections[0].call(http2.call_headers(path), message, answered.set_result)
        async with asyncio.timeout(10):
            answer = await answered
        if not answer:
            raise RuntimeError(f"{path} was refused {self._connections[0].failed}")
        return answer


async def connect(port: int) -> Client:
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(http2.Connection, "127.0.0.1", port) for _ in range(CONNECTIONS)]
    return Client([connection for _, connection in made])
