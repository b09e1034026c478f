"""The services behind the edge, as calls with a bounded time whose failures are ServiceErrors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

import grpc.aio
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2

from edge_gateway.metrics import DECIDE_SECONDS
from edge_gateway.settings import Settings
from omniroute.decision.v1 import decision_pb2, decision_pb2_grpc
from omniroute.executor.v1 import executor_pb2, executor_pb2_grpc
from omniroute.registry.v1 import registry_pb2, registry_pb2_grpc
from service_kit import calls, tls
from service_kit.errors import from_rpc_error
from service_kit.grpc_client import Balancing, open_channel

# A first call pays for the connection as well, and for what the service loads on its own first call.
COLD_SLACK_S = 2.0
HEALTH_TIMEOUT_S = 0.5
EXECUTOR = executor_pb2.DESCRIPTOR.services_by_name["ExecutorService"].full_name

Execution = grpc.aio.UnaryStreamCall[executor_pb2.ExecuteRequest, executor_pb2.ExecuteResponse]
Administering = grpc.aio.UnaryUnaryMultiCallable[Message, Message]
T = TypeVar("T")


class Services:
    """Channels and stubs. Made inside the loop that uses them; ``close`` ends the channels."""

    def __init__(self, settings: Settings) -> None:
        files = tls.from_paths(settings.tls_cert, settings.tls_key, settings.tls_ca)
        self._decision_channel = open_channel(settings.decision_address, files, balancing=Balancing.IN_ORDER)
        self._executor_channel = open_channel(settings.executor_address, files, again=(EXECUTOR,))
        self._decision = decision_pb2_grpc.DecisionServiceStub(self._decision_channel)
        self._executor = executor_pb2_grpc.ExecutorServiceStub(self._executor_channel)
        self._keys = registry_pb2_grpc.ApiKeyServiceStub(self._decision_channel)
        self._catalog = registry_pb2_grpc.CatalogServiceStub(self._decision_channel)
        self._control_s = settings.edge_control_timeout_ms / 1000
        self._token = settings.edge_token
        self._admin_token = settings.admin_token
        self._cold = True

    def connect(self) -> None:
        """Begin to connect, so that the first request need not wait for it."""
        for channel in (self._decision_channel, self._executor_channel):
            channel.get_state(try_to_connect=True)

    async def close(self) -> None:
        await self._decision_channel.close()
        await self._executor_channel.close()

    async def decide(self, request: decision_pb2.DecideRequest, limit_s: float) -> decision_pb2.DecideResponse:
        timeout = limit_s + (COLD_SLACK_S if self._cold else 0.0)
        started = time.perf_counter()
        decision = await _answer(self._decision.Decide(request, timeout=timeout, metadata=calls.metadata()))
        DECIDE_SECONDS.observe(time.perf_counter() - started)
        self._cold = False
        return decision

    async def report(self, request: decision_pb2.ReportRequest) -> decision_pb2.ReportResponse:
        return await _answer(self._decision.Report(request, timeout=self._control_s, metadata=calls.metadata()))

    async def candidates(self, model: str, api_key_id: str) -> decision_pb2.ListCandidatesResponse:
        request = decision_pb2.ListCandidatesRequest(model=model, api_key_id=api_key_id)
        return await _answer(self._decision.ListCandidates(request, timeout=self._control_s, metadata=calls.metadata()))

    async def authenticate(self, secret: str) -> registry_pb2.AuthenticateResponse:
        request = registry_pb2.AuthenticateRequest(secret=secret)
        return await _answer(self._keys.Authenticate(request, timeout=self._control_s, metadata=self._identity()))

    async def advertised_models(self, api_key_id: str) -> registry_pb2.ListAdvertisedModelsResponse:
        request = registry_pb2.ListAdvertisedModelsRequest(api_key_id=api_key_id)
        return await _answer(
            self._catalog.ListAdvertisedModels(request, timeout=self._control_s, metadata=self._identity())
        )

    async def administer(self, path: str, request: Message, answer: type[Message]) -> Message:
        """Call any unary method of the decision service, as who may administer it."""
        call: Administering = self._decision_channel.unary_unary(
            path, type(request).SerializeToString, answer.FromString
        )
        identity = calls.metadata(token=self._admin_token or self._token)
        return await _answer(call(request, timeout=self._control_s, metadata=identity))

    def execute(self, request: executor_pb2.ExecuteRequest, timeout_s: float) -> Execution:
        """A running execution; its errors appear when it is read."""
        return self._executor.Execute(request, timeout=timeout_s, metadata=calls.metadata())

    async def health(self) -> dict[str, str]:
        """``ok`` or why not, by service. Bounded by HEALTH_TIMEOUT_S for each."""
        decision, executor = await asyncio.gather(_health(self._decision_channel), _health(self._executor_channel))
        return {"decision": decision, "executor": executor}

    def _identity(self) -> tuple[tuple[str, str], ...]:
        return calls.metadata(token=self._token)


async def _answer(call: Awaitable[T]) -> T:
    try:
        return await call
    except grpc.RpcError as error:
        raise from_rpc_error(error) from None


async def _health(channel: grpc.aio.Channel) -> str:
    check = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        health_pb2.HealthCheckRequest.SerializeToString,
        health_pb2.HealthCheckResponse.FromString,
    )
    try:
        response = await check(health_pb2.HealthCheckRequest(), timeout=HEALTH_TIMEOUT_S)
    except grpc.RpcError as error:
        return "unreachable" if error.code() is grpc.StatusCode.UNAVAILABLE else error.code().name.lower()
    if response.status == health_pb2.HealthCheckResponse.SERVING:
        return "ok"
    return health_pb2.HealthCheckResponse.ServingStatus.Name(response.status).lower()
