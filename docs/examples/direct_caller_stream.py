"""Many questions at once over one stream of decisions.

    python docs/examples/direct_caller_stream.py "What is a tide?" "What is a reef?"

DecideStream carries all requests; their answers are matched by request id, and a refusal is an answer like another.
Each question then goes down its own chain of targets, as in ``direct_caller.py``.
"""

from __future__ import annotations

import asyncio
import sys
import time
import uuid

import grpc
import httpx
from direct_caller import ADDRESS, failure, is_last, judge, request_for, targets_of

from omniroute.decision.v1 import decision_pb2 as pb
from omniroute.decision.v1 import decision_pb2_grpc

DECIDE_S, REPORT_S = 1.0, 5.0
BROKEN = "the stream of decisions has ended"


class Decisions:
    """One stream of decisions, shared by all that ask. Use as an async context manager."""

    def __init__(self, stub: decision_pb2_grpc.DecisionServiceAsyncStub) -> None:
        self._stream = stub.DecideStream()
        self._writing = asyncio.Lock()
        self._waiting: dict[str, asyncio.Future[pb.DecideStreamResponse]] = {}

    async def __aenter__(self) -> Decisions:
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stream.done_writing()
        await asyncio.wait([self._reading], timeout=DECIDE_S)
        self._stream.cancel()

    async def decide(self, request: pb.DecideRequest) -> pb.DecideResponse:
        """The decision on a request. Raises RuntimeError for a refusal or a broken stream, TimeoutError."""
        request.request_id = uuid.uuid4().hex
        answered = self._waiting[request.request_id] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(DECIDE_S):
                await self._write(pb.DecideStreamRequest(request=request))
                answer: pb.DecideStreamResponse = await answered
        finally:
            del self._waiting[request.request_id]
        if answer.HasField("error"):
            raise RuntimeError(f"refused: {answer.error.reason}, {answer.error.message}")
        return answer.response

    async def _write(self, request: pb.DecideStreamRequest) -> None:
        try:
            async with self._writing:
                await self._stream.write(request)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            raise RuntimeError(BROKEN) from None

    async def _read(self) -> None:
        """Hands every answer to who waits for it; when the stream ends, all who still wait hear of it."""
        try:
            async for answer in self._stream:
                if (waiting := self._waiting.get(answer.request_id)) is not None and not waiting.done():
                    waiting.set_result(answer)
        except grpc.aio.AioRpcError as error:
            print(f"stream: {error.code().name}", file=sys.stderr)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(RuntimeError(BROKEN))


async def ask(
    decisions: Decisions, stub: decision_pb2_grpc.DecisionServiceAsyncStub, client: httpx.AsyncClient, question: str
) -> str:
    """The answer of the first target that gives one. Raises RuntimeError when it is refused or all fail."""
    features = pb.RequestFeatures(input_tokens=len(question) // 4, last_user_text=question[:16_000])
    decision = await decisions.decide(pb.DecideRequest(model="auto", features=features))
    targets = targets_of(decision)
    for attempt, target in enumerate(targets, start=1):
        # Should this question be given up in the middle of a call, then the call was nobody's fault.
        outcome, answer = pb.Outcome(outcome_class=pb.OUTCOME_CLASS_LOCAL_CANCELLED, final=True), ""
        try:
            outcome, answer = await call(client, target, question)
            outcome.final = is_last(outcome, attempt, targets)  # else the lease moves on to the next target
        finally:
            await report(stub, decision.decision_id, attempt, target, outcome)
        if answer:
            return answer
        print(failure(target, outcome), file=sys.stderr)
        if outcome.final:
            break
    raise RuntimeError(f"none of {len(targets)} targets answered")


async def call(client: httpx.AsyncClient, target: pb.Target, question: str) -> tuple[pb.Outcome, str]:
    """What one call came to, and the answer, empty when there is none."""
    started = time.monotonic()
    try:
        outcome, answer = judge(await client.send(request_for(client, target, question)))
    except httpx.TimeoutException:
        outcome, answer = pb.Outcome(outcome_class=pb.OUTCOME_CLASS_TIMEOUT), ""
    except httpx.TransportError:
        outcome, answer = pb.Outcome(outcome_class=pb.OUTCOME_CLASS_NETWORK), ""
    outcome.latency_ms = round(1000 * (time.monotonic() - started))
    return outcome, answer


async def report(
    stub: decision_pb2_grpc.DecisionServiceAsyncStub,
    decision_id: str,
    attempt: int,
    target: pb.Target,
    outcome: pb.Outcome,
) -> None:
    """Tells what came of an attempt. Nothing is lost for the client when it cannot be told: leases run out."""
    outcome.decision_id, outcome.attempt, outcome.target_id = decision_id, attempt, target.target_id
    try:
        await stub.Report(pb.ReportRequest(outcomes=[outcome]), timeout=REPORT_S)
    except grpc.RpcError as error:
        print(f"not reported: {error.code().name}", file=sys.stderr)


async def main() -> int:
    """One line for each question, in their order."""
    questions = sys.argv[1:] or ["What is a tide?", "What is a reef?"]
    async with grpc.aio.insecure_channel(ADDRESS) as channel, httpx.AsyncClient() as client:
        stub = decision_pb2_grpc.DecisionServiceStub(channel)
        async with Decisions(stub) as decisions:
            asking = (ask(decisions, stub, client, question) for question in questions)
            answers = await asyncio.gather(*asking, return_exceptions=True)
    for question, answer in zip(questions, answers, strict=True):
        print(f"{question} {answer}")
    return 1 if any(isinstance(answer, BaseException) for answer in answers) else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
