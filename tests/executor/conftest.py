"""A real executor on loopback, with a real credential service and upstreams that the test scripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc.aio
import orjson
import pytest

from executor import assembly
from executor.settings import Settings
from omniroute.decision.v1 import decision_pb2
from omniroute.executor.v1 import executor_pb2, executor_pb2_grpc
from omniroute.registry.v1 import registry_pb2, registry_pb2_grpc
from service_kit.errors import Reason, ServiceError, to_status
from tests.executor.upstream import Script, Upstream

SECRET = "sk-test-0123456789abcdef"
TOKEN = "executor-identity-token"


class CredentialService(registry_pb2_grpc.CredentialServiceServicer):
    """Answers what the test put under a connection's id; any other connection has the key SECRET."""

    def __init__(self) -> None:
        self.answers: dict[str, registry_pb2.ResolveResponse | ServiceError] = {}
        self.after_refresh: dict[str, registry_pb2.ResolveResponse] = {}
        self.asked: list[tuple[str, bool]] = []
        self.tokens: list[str] = []
        self.delay_s = 0.0
        self.away = False

    async def Resolve(self, request: Any, context: Any) -> registry_pb2.ResolveResponse:
        self.asked.append((request.connection_id, request.refresh))
        self.tokens.append(dict(context.invocation_metadata()).get("x-omniroute-token", ""))
        await asyncio.sleep(self.delay_s)
        if self.away:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
        if request.refresh and request.connection_id in self.after_refresh:
            self.answers[request.connection_id] = self.after_refresh[request.connection_id]
        answer = self.answers.get(request.connection_id, key(SECRET))
        if isinstance(answer, ServiceError):
            await context.abort_with_status(to_status(answer))
        assert isinstance(answer, registry_pb2.ResolveResponse)
        return answer


def key(secret: str) -> registry_pb2.ResolveResponse:
    return registry_pb2.ResolveResponse(api_key=secret, max_age_ms=60_000)


NOT_FOUND = ServiceError(Reason.NOT_FOUND, "no such connection")


@dataclass
class Answer:
    """Everything that one Execute sent, in order."""

    events: list[executor_pb2.ExecuteResponse] = field(default_factory=list)

    @property
    def head(self) -> executor_pb2.Head:
        return next(event.head for event in self.events if event.HasField("head"))

    @property
    def headers(self) -> dict[str, str]:
        return {header.name: header.value for header in self.head.headers}

    @property
    def chunks(self) -> list[bytes]:
        return [event.chunk.data for event in self.events if event.HasField("chunk")]

    @property
    def data(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def json(self) -> Any:
        return orjson.loads(self.data)

    @property
    def payloads(self) -> list[Any]:
        """What the client's stream said, [DONE] left out."""
        events = [event.removeprefix(b"data: ") for event in self.data.split(b"\n\n") if event]
        return [orjson.loads(event) for event in events if event != b"[DONE]"]

    @property
    def text(self) -> str:
        choices = [choice for payload in self.payloads for choice in payload.get("choices", ())]
        return "".join(choice["delta"].get("content") or "" for choice in choices)

    @property
    def outcomes(self) -> list[decision_pb2.Outcome]:
        return [event.outcome for event in self.events if event.HasField("outcome")]

    @property
    def classes(self) -> list[str]:
        names = [decision_pb2.OutcomeClass.Name(outcome.outcome_class) for outcome in self.outcomes]
        return [name.removeprefix("OUTCOME_CLASS_") for name in names]

    @property
    def done(self) -> executor_pb2.Done:
        assert self.events[-1].HasField("done"), "done comes last"
        return self.events[-1].done

    @property
    def kinds(self) -> list[str]:
        return [str(event.WhichOneof("event")) for event in self.events]


@dataclass
class House:
    """A running executor and what stands around it."""

    registry_address: str
    stub: executor_pb2_grpc.ExecutorServiceAsyncStub
    credentials: CredentialService
    environ: dict[str, str]
    stop: asyncio.Event
    serving: asyncio.Task[None]
    upstreams: list[Upstream] = field(default_factory=list)

    async def upstream(self, *scripts: Script) -> Upstream:
        upstream = await Upstream(*scripts).start()
        self.upstreams.append(upstream)
        return upstream

    def call(self, targets: list[decision_pb2.Target], **options: Any) -> Any:
        """The running RPC; ``options`` as for ``request``."""
        timeout = options.pop("timeout", 20)
        metadata = options.pop("metadata", None)
        return self.stub.Execute(request(targets, **options), timeout=timeout, metadata=metadata)

    async def execute(self, targets: list[decision_pb2.Target], **options: Any) -> Answer:
        answer = Answer()
        async for event in self.call(targets, **options):
            answer.events.append(event)
        return answer

    async def plain(self, *scripts: Script, **options: Any) -> Answer:
        """One target a script, in order; not streamed."""
        return await self.execute(await self.targets(*scripts), **options)

    async def stream(self, *scripts: Script, **options: Any) -> Answer:
        body = {"stream": True, **options.pop("body", {})}
        return await self.execute(await self.targets(*scripts), body=body, **options)

    async def targets(self, *scripts: Script) -> list[decision_pb2.Target]:
        return [target(await self.upstream(script), f"t{place}") for place, script in enumerate(scripts)]


def target(upstream: Upstream | str, name: str = "t0", **fields: Any) -> decision_pb2.Target:
    url = upstream if isinstance(upstream, str) else upstream.url
    return decision_pb2.Target(
        **{
            "target_id": name,
            "provider": f"p-{name}",
            "model": f"model-{name}",
            "connection_id": f"c-{name}",
            "dialect": "openai",
            "base_url": url,
            "timeout_ms": 5_000,
            "estimated_cost_usd": 0.25,
            **fields,
        }
    )


def request(
    targets: list[decision_pb2.Target],
    *,
    body: dict[str, Any] | bytes | None = None,
    retry: decision_pb2.RetryRules | None = None,
    shape: Any = decision_pb2.Plan.SHAPE_SINGLE,
    **fields: Any,
) -> executor_pb2.ExecuteRequest:
    if not isinstance(body, bytes):
        body = orjson.dumps({"model": "auto", "messages": [{"role": "user", "content": "say hello"}], **(body or {})})
    plan = decision_pb2.Plan(shape=shape, targets=targets, retry=retry)
    return executor_pb2.ExecuteRequest(**{"decision_id": "d1", "plan": plan, "body": body, **fields})


Build = Callable[..., Awaitable[House]]


@pytest.fixture
async def build() -> AsyncIterator[Build]:
    """Makes houses; keyword arguments are settings."""
    houses: list[House] = []
    closers: list[Callable[[], Awaitable[Any]]] = []

    async def make(**settings: Any) -> House:
        registry = grpc.aio.server()
        credentials = CredentialService()
        registry_pb2_grpc.add_CredentialServiceServicer_to_server(credentials, registry)
        registry_port = registry.add_insecure_port("127.0.0.1:0")
        await registry.start()
        stop, environ = asyncio.Event(), dict[str, str]()
        started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        chosen = {
            "executor_bind": "127.0.0.1:0",
            "executor_metrics_port": 0,
            "executor_token": TOKEN,
            "decision_address": f"127.0.0.1:{registry_port}",
            "credential_timeout_s": 2.0,
            **settings,
        }
        serving = asyncio.create_task(assembly.serve(Settings(**chosen), environ, stop, started))
        port = await asyncio.wait_for(started, 10)
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        stub = executor_pb2_grpc.ExecutorServiceStub(channel)
        house = House(chosen["decision_address"], stub, credentials, environ, stop, serving)
        houses.append(house)
        closers.extend((channel.close, lambda: registry.stop(0)))
        return house

    yield make
    for house in houses:
        for upstream in house.upstreams:
            await upstream.stop()
        house.stop.set()
        await asyncio.wait_for(house.serving, 15)
    for close in closers:
        await close()


@pytest.fixture
async def house(build: Build) -> House:
    return await build(executor_grace_s=0.2)
