"""The executor's events -> the client's answer and the outcomes to report."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import suppress

import grpc
import structlog

from edge_gateway import headers, problems
from edge_gateway.attempts import Attempts
from edge_gateway.exchange import Exchange
from edge_gateway.problems import Problem, Refused
from edge_gateway.report import OutcomeQueue
from omniroute.executor.v1 import executor_pb2

# The final outcome follows the end of a stream at once; longer than this nobody waits for it.
TAIL_S = 1.0

log = structlog.get_logger()


class Relay:
    """One execution on its way to the client.

    A stream is passed on part by part. A plain answer is held while it is one part, so that it goes out with its length
    and its final cost, and so that a failure before its end is still an error answer. ``served`` says that a stream's
    end marker went out, ``finished`` that the whole answer did.
    """

    def __init__(
        self,
        exchange: Exchange,
        attempts: Attempts,
        outcomes: OutcomeQueue,
        end_markers: tuple[bytes, ...],
        stream_error: Callable[[Problem, int], bytes],
    ) -> None:
        self._exchange = exchange
        self._attempts = attempts
        self._outcomes = outcomes
        self._end_markers = end_markers
        self._stream_error = stream_error
        self._head: executor_pb2.Head | None = None
        self._held: bytes | None = None
        self._streams = False
        self._events = 0
        self.served = False
        self.finished = False

    async def run(self, events: AsyncIterable[executor_pb2.ExecuteResponse]) -> None:
        """Relay until the executor is done or the stream's end marker went out. Raises Refused and grpc.RpcError."""
        async for event in single(events):
            match event.WhichOneof("event"):
                case "chunk":
                    await self._chunk(event.chunk.data)
                    if self.served:
                        return
                case "head":
                    await self._begin(event.head)
                case "done":
                    self._done(event.done)
                    return
                case _:
                    self._learn(event)
        raise Refused(problems.broken_answer())

    async def finish(self) -> None:
        """Send the end of the answer; a plain one that is held goes out whole."""
        if self._head is None:
            raise Refused(problems.broken_answer())
        if self._exchange.started:
            await self._exchange.write(b"", more=False)
        else:
            body = self._held or b""
            await self._start([(b"content-length", b"%d" % len(body))])
            await self._exchange.write(body, more=False)
        self.finished = True

    async def fail(self, problem: Problem) -> None:
        """End a stream with an error event. Raises Refused when the answer is no stream that has begun."""
        self._exchange.outcome = problem.code
        if not (self._streams and self._exchange.started):
            raise Refused(problem)
        await self._exchange.write(self._stream_error(problem, self._events), more=False)

    async def learn_the_rest(self, events: AsyncIterable[executor_pb2.ExecuteResponse]) -> None:
        """Take in what follows the end of the answer, up to the end of the call."""
        with suppress(TimeoutError, grpc.RpcError):
            async with asyncio.timeout(TAIL_S):
                async for event in single(events):
                    if event.HasField("done"):
                        self._done(event.done)
                    else:
                        self._learn(event)

    async def _begin(self, head: executor_pb2.Head) -> None:
        self._head = head
        self._exchange.provider = head.provider
        self._exchange.attempts = head.attempts
        self._streams = headers.is_event_stream(head.headers)
        if head.error_code:
            self._exchange.outcome = head.error_code
        if self._streams:
            await self._start([])

    async def _chunk(self, data: bytes) -> None:
        if self._head is None:
            raise Refused(problems.broken_answer())
        if not self._exchange.started:
            if self._held is None:
                self._held = data
                return
            await self._start([])
            data = self._held + data
        await self._exchange.write(data)
        if self._streams:
            self._events += data.count(b"\n\n")
            self.served = self._ends(data)

    def _ends(self, data: bytes) -> bool:
        """No text inside an event can look like the marker: line ends are escaped there."""
        return data.startswith(self._end_markers) or any(b"\n" + marker in data for marker in self._end_markers)

    async def _start(self, framing: headers.Pairs) -> None:
        assert self._head is not None
        self._exchange.headers += headers.of_head(self._head)
        await self._exchange.start(self._head.status, headers.passed_on(self._head.headers) + framing)

    def _learn(self, event: executor_pb2.ExecuteResponse) -> None:
        if event.HasField("outcome"):
            self._outcomes.put(self._attempts.take(event.outcome))
            self._exchange.attempts = max(self._exchange.attempts, self._attempts.count)
        elif event.HasField("hand_off"):
            self._outcomes.put(self._attempts.take_summary(event.hand_off.summary))

    def _done(self, done: executor_pb2.Done) -> None:
        self._exchange.attempts = max(self._exchange.attempts, done.attempts)
        if self._head is not None and not self._exchange.started:
            self._head.attempts = max(self._head.attempts, done.attempts)
            self._head.cost_usd = done.cost_usd


async def single(responses: AsyncIterable[executor_pb2.ExecuteResponse]) -> AsyncIterator[executor_pb2.ExecuteResponse]:
    """Each event by itself, also those that came as a batch."""
    async for response in responses:
        if response.HasField("batch"):
            for event in response.batch.events:
                yield event
        else:
            yield response
