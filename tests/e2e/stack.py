"""The three services as processes, and providers of the test behind them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import openai
import orjson
from prometheus_client.parser import text_string_to_metric_families

from omniroute.decision.v1 import decision_pb2
from tests.decision_service.client import Client
from tests.decision_service.process import ROOT, Service, decision_service, free_ports
from tests.executor.upstream import GOOD_STREAM, Received, Script, Upstream, answer, completion, stream
from tests.executor.upstream import Connection as UpstreamConnection

EDGE_TOKEN, EXECUTOR_TOKEN = "edge-identity-of-the-test", "executor-identity-of-the-test"
SETTLE_LIMIT_S = 15.0
REQUEST_LIMIT_S = 30.0
# Of a slow machine's first calls the defaults would make refusals.
PATIENCE = {"OMNIROUTE_EDGE_DECIDE_TIMEOUT_MS": "5000", "OMNIROUTE_EDGE_CONTROL_TIMEOUT_MS": "10000"}


async def good(received: Received, connection: UpstreamConnection) -> None:
    """Says Hello in whichever form it is asked for; the model's own name is in the answer."""
    if received.body.get("stream"):
        await stream(*GOOD_STREAM)(received, connection)
    else:
        await answer(200, completion("Hello"))(received, connection)


@dataclass(frozen=True)
class Provided:
    """A provider of the test, registered with one connection and one model."""

    name: str
    upstream: Upstream

    @property
    def connection(self) -> str:
        return f"{self.name}-1"

    @property
    def model(self) -> str:
        """What a client or a step calls it."""
        return f"{self.name}/{self.name}-model"

    def plays(self, *scripts: Script) -> None:
        """From the next request on."""
        self.upstream.scripts = [*self.upstream.scripts[:1] * len(self.upstream.requests), *scripts]


@dataclass(frozen=True)
class Answer:
    """A whole HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error, which has OpenAI's shape and lets no insides out."""
        shown = self.json
        assert shown["error"].keys() >= {"message", "type", "param", "code"}
        assert isinstance(shown["error"]["message"], str)
        assert shown["error"]["message"]
        for inside in (b"Traceback", b'File \\"', bytes(ROOT), b".py", b"grpc", b"127.0.0.1"):
            assert inside not in self.body, self.body
        error: dict[str, Any] = shown["error"]
        return error

    @property
    def payloads(self) -> list[Any]:
        """The events of a stream, [DONE] as a text."""
        data = [event.removeprefix(b"data: ") for event in self.body.split(b"\n\n") if event]
        return ["[DONE]" if each == b"[DONE]" else orjson.loads(each) for each in data]

    @property
    def text(self) -> str:
        """What the model said, in either form."""
        if not self.headers["content-type"].startswith("text/event-stream"):
            return str(self.json["choices"][0]["message"]["content"])
        chunks = [each for each in self.payloads if isinstance(each, dict)]
        return "".join(c["delta"].get("content") or "" for each in chunks for c in each.get("choices", ()))

    @property
    def provider(self) -> str:
        return self.headers["x-omniroute-provider"]

    @property
    def attempts(self) -> int:
        return int(self.headers["x-omniroute-attempts"])

    @property
    def decision_id(self) -> str:
        return self.headers["x-omniroute-decision-id"]


@dataclass
class Stack:
    """The services, with ports of their own, and what a test does with them."""

    decision: Service
    executors: tuple[Service, ...]
    edges: tuple[Service, ...]
    decision_address: str
    http: httpx.AsyncClient
    clients: list[Client] = field(default_factory=list)
    upstreams: list[Upstream] = field(default_factory=list)
    numbers: Any = field(default_factory=lambda: itertools.count(1))

    @property
    def executor(self) -> Service:
        return self.executors[0]

    @property
    def edge(self) -> Service:
        """The one that requests of this stack go to."""
        return self.edges[0]

    @property
    def edge_port(self) -> int:
        return self.edge.ready_port

    @property
    def services(self) -> tuple[Service, ...]:
        return self.decision, *self.executors, *self.edges

    @property
    def database(self) -> Path:
        return Path(self.decision.environ["OMNIROUTE_DATA_DIR"]) / "omniroute.db"

    def through(self, edge: int) -> Stack:
        """The same stack, whose requests go to another edge."""
        return replace(self, edges=self.edges[edge:] + self.edges[:edge])

    @property
    def client(self) -> Client:
        """Of the decision service's present life."""
        return self.clients[-1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.edge_port}"

    def openai(self, api_key: str = "any") -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key=api_key, max_retries=0, timeout=REQUEST_LIMIT_S)

    async def start(self) -> None:
        await asyncio.gather(*(service.start() for service in self.services))
        await self.connect()

    async def connect(self) -> None:
        """A client of the decision service as it now runs."""
        await self.disconnect()
        self.clients.append(Client(self.decision_address))
        async with asyncio.timeout(SETTLE_LIMIT_S):
            await self.client.channel.channel_ready()

    async def disconnect(self) -> None:
        while self.clients:
            await self.clients.pop().close()

    async def close(self) -> None:
        await self.disconnect()
        for upstream in self.upstreams:
            await upstream.stop()
        for service in self.services:
            await service.kill()

    # Providers and policies

    async def provider(self, word: str, *scripts: Script, **registered: Any) -> Provided:
        """A local provider whose name begins with ``word``, playing the scripts (by default all is well)."""
        name = f"{word}{next(self.numbers)}"
        upstream = await Upstream(*(scripts or (good,))).start()
        self.upstreams.append(upstream)
        await self.client.add_target(name, base_url=upstream.url, **registered)
        return Provided(name, upstream)

    async def combo(self, *targets: Provided, strategy: str = "priority", **config: Any) -> str:
        """The name of a combo over these, in this order."""
        name = f"combo{next(self.numbers)}"
        await self.client.add_combo(name, [each.model for each in targets], strategy, config)
        return name

    # Requests

    async def chat(self, model: str, content: str = "Say hello", **fields: Any) -> Answer:
        """One completion to its end; ``headers`` among the fields are the request's."""
        headers = fields.pop("headers", None)
        body = {"model": model, "messages": [{"role": "user", "content": content}], **fields}
        return await self.post(orjson.dumps(body), headers)

    async def post(
        self, body: bytes, headers: Mapping[str, str] | None = None, path: str = "/v1/chat/completions"
    ) -> Answer:
        sent = {"content-type": "application/json", **(headers or {})}
        return _answer(await self.http.post(f"{self.url}{path}", content=body, headers=sent))

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return _answer(await self.http.get(self.url + path, headers=headers))

    async def figure(self, service: Service, name: str, **labels: str) -> float:
        """The sum of a service's samples of that name with these labels."""
        text = (await self.http.get(f"http://127.0.0.1:{service.ready_port}/metrics")).text
        samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        return sum(each.value for each in samples if each.name == name and labels.items() <= each.labels.items())

    async def settled(self, decision_id: str) -> list[str]:
        """The outcome classes of a decision, in order of attempts, once its last one is on record."""
        record = await self.record(decision_id)
        ordered = sorted(record.outcomes, key=lambda outcome: outcome.attempt)
        return [decision_pb2.OutcomeClass.Name(o.outcome_class).removeprefix("OUTCOME_CLASS_") for o in ordered]

    async def record(self, decision_id: str) -> decision_pb2.DecisionRecord:
        """A decision once its final outcome is on record."""
        async with asyncio.timeout(SETTLE_LIMIT_S):
            while True:
                record = await self.client.record(decision_id)
                if any(outcome.final for outcome in record.outcomes):
                    return record
                await asyncio.sleep(0.02)


def _answer(response: httpx.Response) -> Answer:
    return Answer(response.status_code, dict(response.headers), response.content)


async def until(check: Callable[[], Any], limit_s: float = SETTLE_LIMIT_S) -> Any:
    """The first true answer of an async check."""
    async with asyncio.timeout(limit_s):
        while True:
            found = await check()
            if found:
                return found
            await asyncio.sleep(0.05)


@asynccontextmanager
async def running(folder: Path, *, executors: int = 1, edges: int = 1, **variables: str) -> AsyncIterator[Stack]:
    """A started stack; ``variables`` are whole environment variables of all services."""
    decision_port, decision_metrics, *ports = free_ports(2 + 2 * executors + edges)
    executor_ports, edge_ports = ports[: 2 * executors], ports[2 * executors :]
    shared = {
        "OMNIROUTE_DECISION_ADDRESS": f"127.0.0.1:{decision_port}",
        "OMNIROUTE_EXECUTOR_ADDRESS": ",".join(f"127.0.0.1:{port}" for port in executor_ports[::2]),
        "OMNIROUTE_EDGE_TOKEN": EDGE_TOKEN,
        "OMNIROUTE_EXECUTOR_TOKEN": EXECUTOR_TOKEN,
        **PATIENCE,
        **variables,
    }

    def log(name: str, number: int = 0) -> Path:
        return folder / f"{name}{number or ''}.log"

    async with AsyncExitStack() as parts:
        stack = Stack(
            decision=decision_service(folder / "data", log("decision"), decision_port, decision_metrics, **shared),
            executors=tuple(
                _executor(shared, port, metrics, log("executor", number))
                for number, (port, metrics) in enumerate(zip(executor_ports[::2], executor_ports[1::2], strict=True))
            ),
            edges=tuple(
                Service("edge_gateway", {**shared, "OMNIROUTE_EDGE_PORT": str(port)}, port, log("edge", number))
                for number, port in enumerate(edge_ports)
            ),
            decision_address=f"127.0.0.1:{decision_port}",
            http=await parts.enter_async_context(httpx.AsyncClient(timeout=REQUEST_LIMIT_S)),
        )
        parts.push_async_callback(stack.close)
        await stack.start()
        yield stack


def _executor(shared: Mapping[str, str], port: int, metrics: int, log: Path) -> Service:
    own = {"OMNIROUTE_EXECUTOR_BIND": f"127.0.0.1:{port}", "OMNIROUTE_EXECUTOR_METRICS_PORT": str(metrics)}
    return Service("executor", {**shared, **own}, metrics, log)
