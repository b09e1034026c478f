"""The services behind the edge, played over real gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import grpc.aio

from omniroute.decision.v1 import decision_pb2, decision_pb2_grpc
from omniroute.decision.v1.decision_pb2 import Outcome
from omniroute.executor.v1 import executor_pb2, executor_pb2_grpc
from omniroute.registry.v1 import registry_pb2, registry_pb2_grpc
from service_kit.errors import Reason, ServiceError
from service_kit.grpc_server import GrpcServer, start_server

Event = executor_pb2.ExecuteResponse
Script = Callable[[executor_pb2.ExecuteRequest], AsyncIterator[Event]]

EDGE_TOKEN = "edge-identity"
DECISION_NAMES = ("omniroute.decision.v1.DecisionService", "omniroute.registry.v1.ApiKeyService")
EXECUTOR_NAMES = ("omniroute.executor.v1.ExecutorService",)


def target(number: int) -> decision_pb2.Target:
    return decision_pb2.Target(
        target_id=f"t{number}", provider=f"p{number}", model=f"m{number}", connection_id=f"c{number}"
    )


def plan(*numbers: int) -> decision_pb2.Plan:
    return decision_pb2.Plan(shape=decision_pb2.Plan.SHAPE_SINGLE, targets=[target(number) for number in numbers])


def decision(**changes: Any) -> decision_pb2.DecideResponse:
    values: dict[str, Any] = {"decision_id": "d-1", "plan": plan(1, 2), "strategy": "auto", "combo": "auto"}
    return decision_pb2.DecideResponse(**(values | changes))


@dataclass
class FakeDecision:
    """DecisionService, ApiKeyService and CatalogService on one port."""

    keys: dict[str, registry_pb2.ApiKey] = field(default_factory=dict)
    models: list[registry_pb2.AdvertisedModel] = field(default_factory=list)
    pool: list[decision_pb2.CandidateView] = field(default_factory=list)
    answer: decision_pb2.DecideResponse = field(default_factory=decision)
    refusal: ServiceError | None = None
    delay_s: float = 0.0
    asked: list[decision_pb2.DecideRequest] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    reports: list[int] = field(default_factory=list)
    authentications: list[str] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_for_outcomes(self, count: int, limit_s: float = 5.0) -> list[Outcome]:
        async with asyncio.timeout(limit_s):
            while len(self.outcomes) < count:
                self.arrived.clear()
                await self.arrived.wait()
        return self.outcomes

    async def start(self, port: int = 0) -> GrpcServer:
        def register(server: grpc.aio.Server) -> None:
            decision_pb2_grpc.add_DecisionServiceServicer_to_server(_Decisions(self), server)  # type: ignore[abstract]
            registry_pb2_grpc.add_ApiKeyServiceServicer_to_server(_Keys(self), server)  # type: ignore[abstract]
            registry_pb2_grpc.add_CatalogServiceServicer_to_server(_Catalog(self), server)  # type: ignore[abstract]

        return await start_server(f"127.0.0.1:{port}", register, DECISION_NAMES)


class _Decisions(decision_pb2_grpc.DecisionServiceServicer):
    def __init__(self, fake: FakeDecision) -> None:
        self._fake = fake

    async def Decide(self, request: decision_pb2.DecideRequest, context: Any) -> decision_pb2.DecideResponse:
        self._fake.asked.append(request)
        await asyncio.sleep(self._fake.delay_s)
        if self._fake.refusal is not None:
            raise self._fake.refusal
        return self._fake.answer

    def Report(self, request: decision_pb2.ReportRequest, context: Any) -> decision_pb2.ReportResponse:
        self._fake.outcomes.extend(request.outcomes)
        self._fake.reports.append(len(request.outcomes))
        self._fake.arrived.set()
        return decision_pb2.ReportResponse(accepted=len(request.outcomes))

    def ListCandidates(
        self, request: decision_pb2.ListCandidatesRequest, context: Any
    ) -> decision_pb2.ListCandidatesResponse:
        if request.model == "auto/nonsense":
            raise ServiceError(Reason.MODEL_NOT_FOUND, "no such channel")
        return decision_pb2.ListCandidatesResponse(combo=request.model, candidates=self._fake.pool)


class _Keys(registry_pb2_grpc.ApiKeyServiceServicer):
    def __init__(self, fake: FakeDecision) -> None:
        self._fake = fake

    def Authenticate(
        self, request: registry_pb2.AuthenticateRequest, context: Any
    ) -> registry_pb2.AuthenticateResponse:
        if ("x-omniroute-token", EDGE_TOKEN) not in context.invocation_metadata():
            raise ServiceError(Reason.FORBIDDEN, "not the edge")
        self._fake.authentications.append(request.secret)
        if request.secret in self._fake.keys:
            return registry_pb2.AuthenticateResponse(required=True, key=self._fake.keys[request.secret])
        if self._fake.keys and request.secret:
            raise ServiceError(Reason.UNAUTHENTICATED, "unknown key")
        return registry_pb2.AuthenticateResponse(required=bool(self._fake.keys))


class _Catalog(registry_pb2_grpc.CatalogServiceServicer):
    def __init__(self, fake: FakeDecision) -> None:
        self._fake = fake

    def ListAdvertisedModels(
        self, request: registry_pb2.ListAdvertisedModelsRequest, context: Any
    ) -> registry_pb2.ListAdvertisedModelsResponse:
        return registry_pb2.ListAdvertisedModelsResponse(models=self._fake.models)


@dataclass
class FakeExecutor:
    """ExecutorService that plays ``script``."""

    script: Script
    asked: list[executor_pb2.ExecuteRequest] = field(default_factory=list)
    cancelled_at: list[float] = field(default_factory=list)
    running: int = 0

    async def start(self, port: int = 0) -> GrpcServer:
        def register(server: grpc.aio.Server) -> None:
            executor_pb2_grpc.add_ExecutorServiceServicer_to_server(_Executor(self), server)

        return await start_server(f"127.0.0.1:{port}", register, EXECUTOR_NAMES)

    async def wait_for_cancel(self, limit_s: float = 2.0) -> float:
        """Loop time of the first cancellation."""
        async with asyncio.timeout(limit_s):
            while not self.cancelled_at:
                await asyncio.sleep(0.002)
        return self.cancelled_at[0]


class _Executor(executor_pb2_grpc.ExecutorServiceServicer):
    def __init__(self, fake: FakeExecutor) -> None:
        self._fake = fake

    async def Execute(self, request: executor_pb2.ExecuteRequest, context: Any) -> AsyncIterator[Event]:
        self._fake.asked.append(request)
        self._fake.running += 1
        try:
            async for event in self._fake.script(request):
                yield event
        except (asyncio.CancelledError, GeneratorExit):  # the latter when it waited for a client that does not read
            self._fake.cancelled_at.append(asyncio.get_running_loop().time())
            raise
        finally:
            self._fake.running -= 1


def head(status: int = 200, content_type: str = "application/json", **extra: str) -> Event:
    pairs = {"content-type": content_type} | {name.replace("_", "-"): value for name, value in extra.items()}
    return Event(
        head=executor_pb2.Head(
            status=status,
            headers=[executor_pb2.Header(name=name, value=value) for name, value in pairs.items()],
            provider="p1",
            model="m1",
            connection_id="c1",
            attempts=1,
            cost_usd=0.00025,
        )
    )


def stream_head() -> Event:
    return head(content_type="text/event-stream; charset=utf-8")


def chunk(data: bytes) -> Event:
    return Event(chunk=executor_pb2.Chunk(data=data))


def outcome(
    number: int = 1,
    outcome_class: decision_pb2.OutcomeClass.ValueType = decision_pb2.OUTCOME_CLASS_SUCCESS,
    *,
    final: bool = True,
    next_target_id: str = "",
) -> Event:
    return Event(
        outcome=Outcome(
            decision_id="d-1",
            attempt=number,
            target_id=f"t{number}",
            outcome_class=outcome_class,
            final=final,
            next_target_id=next_target_id,
        )
    )


def done(cost_usd: float = 0.0005, attempts: int = 1) -> Event:
    return Event(done=executor_pb2.Done(cost_usd=cost_usd, attempts=attempts))


def playing(*events: Event) -> Script:
    async def script(request: executor_pb2.ExecuteRequest) -> AsyncIterator[Event]:
        for event in events:
            yield event

    return script


def then_hang(*events: Event) -> Script:
    async def script(request: executor_pb2.ExecuteRequest) -> AsyncIterator[Event]:
        for event in events:
            yield event
        await asyncio.sleep(30)

    return script


def text_chunks(words: Iterable[str]) -> list[Event]:
    return [chunk(b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % word.encode()) for word in words]


COMPLETION = (
    b'{"id":"x","object":"chat.completion","created":1,"model":"m1","choices":'
    b'[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Hello"}}],'
    b'"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}'
)
DONE_LINE = chunk(b"data: [DONE]\n\n")


def plain_answer() -> Script:
    return playing(head(), chunk(COMPLETION), outcome(), done())


def stream_answer(words: Iterable[str] = ("Hel", "lo")) -> Script:
    return playing(stream_head(), *text_chunks(words), DONE_LINE, outcome(), done())
