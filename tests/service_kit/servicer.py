"""A servicer that does on request what a service may do, on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio

from omniroute.decision.v1 import decision_pb2, decision_pb2_grpc
from service_kit import calls
from service_kit.errors import Reason, ServiceError, invalid
from service_kit.grpc_client import open_channel
from service_kit.grpc_server import GrpcServer, start_server
from service_kit.tls import TlsFiles

SERVICE = "omniroute.decision.v1.DecisionService"
SECRET = "the database password"

ERRORS = {
    "invalid": invalid("model", "an empty text", "1 to 256 characters"),
    "limited": ServiceError(Reason.NO_AVAILABLE_TARGET, "all resting", retry_after_ms=1500, rate_limited=True),
    "unexpected": RuntimeError(SECRET),
}


class Obliging(decision_pb2_grpc.DecisionServiceServicer):
    """``model`` says what to do; a plain method, an async one and two kinds of stream."""

    def __init__(self) -> None:
        self.waiting = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def Decide(self, request: decision_pb2.DecideRequest, context: Any) -> decision_pb2.DecideResponse:
        await _act(request.model, context)
        if request.model == "wait":
            await self._wait()
        call = calls.CURRENT.get()
        return decision_pb2.DecideResponse(decision_id=call.request_id, reason=call.traceparent)

    def Explain(self, request: decision_pb2.ExplainRequest, context: Any) -> decision_pb2.ExplainResponse:
        if request.request.model in ERRORS:
            raise ERRORS[request.request.model]
        return decision_pb2.ExplainResponse(decision=decision_pb2.DecideResponse(combo="plain"))

    async def WatchDecisions(
        self, request: decision_pb2.WatchDecisionsRequest, context: Any
    ) -> AsyncIterator[decision_pb2.WatchDecisionsResponse]:
        yield decision_pb2.WatchDecisionsResponse()
        await _act(request.combo, context)
        if request.combo == "wait":
            await self._wait()
        yield decision_pb2.WatchDecisionsResponse()

    async def DecideStream(
        self, request_iterator: AsyncIterator[decision_pb2.DecideStreamRequest], context: Any
    ) -> AsyncIterator[decision_pb2.DecideStreamResponse]:
        async for request in request_iterator:
            await _act(request.request.model, context)
            yield decision_pb2.DecideStreamResponse(request_id=request.request.request_id)

    async def _wait(self) -> None:
        self.waiting.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


async def _act(model: str, context: Any) -> None:
    if model in ERRORS:
        raise ERRORS[model]
    if model == "abort":
        await context.abort(grpc.StatusCode.OUT_OF_RANGE, "too far")


def obliging() -> Obliging:
    return Obliging()  # type: ignore[abstract]  # the methods that no test calls are left out


@asynccontextmanager
async def serving(
    servicer: decision_pb2_grpc.DecisionServiceServicer | None = None, tls: TlsFiles | None = None, **options: Any
) -> AsyncIterator[GrpcServer]:
    def register(server: grpc.aio.Server) -> None:
        decision_pb2_grpc.add_DecisionServiceServicer_to_server(servicer or obliging(), server)

    server = await start_server("127.0.0.1:0", register, [SERVICE], tls=tls, **options)
    try:
        yield server
    finally:
        await server.stop(0)


@asynccontextmanager
async def calling(port: int, tls: TlsFiles | None = None) -> AsyncIterator[decision_pb2_grpc.DecisionServiceAsyncStub]:
    async with open_channel(f"127.0.0.1:{port}", tls) as channel:
        yield decision_pb2_grpc.DecisionServiceStub(channel)
