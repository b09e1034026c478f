"""What an executor relays, and what the whole path does, beside a bare relay: Starlette with the same HTTP client.

The executor has one core, in turns with the bare relay and with a hop: the same relay behind gRPC instead of HTTP. The
client and the provider have the other. The three services of the whole path share all cores with the client and the
provider, and so does the bare relay beside them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from bench import calls, http1, services
from bench.figures import Samples, ratio
from bench.load import Pace, Work, measure
from bench.path import PROMPT
from bench.processes import Process, free_ports, listening, running
from omniroute.decision.v1 import decision_pb2
from omniroute.executor.v1 import executor_pb2

POOL = 10
CHUNKS = 100
EXECUTE = "/omniroute.executor.v1.ExecutorService/Execute"
ANSWERED = b'"finish_reason":"stop"'


@dataclass(frozen=True, slots=True)
class Load:
    name: str
    stream: bool
    at_once: int


LOADS = (Load("plain", stream=False, at_once=64), Load("stream", stream=True, at_once=32))


@dataclass(frozen=True, slots=True)
class Way:
    """A way to the provider: the work of a load, and the processes that do it."""

    work: Callable[[Load], Work]
    processes: Mapping[str, Process]


async def relay(pace: Pace, cores: list[int], where: Path) -> dict[str, Any]:
    """Figures by way and load. This process is to stand on the first core."""
    return {
        "executor": await _executor(pace, {cores[-1]}, {cores[0]}, where),
        "whole": await _whole(pace, set(cores), where),
    }


async def _executor(pace: Pace, server: set[int], other: set[int], where: Path) -> dict[str, Any]:
    hop_port, *ports = free_ports(8)
    with ExitStack() as parts:
        bare, chain = await _started(parts, ports, server, other, where)
        arguments = (str(hop_port), str(ports[0]))
        hop = parts.enter_context(running("bench.bare_hop", arguments, {}, server, where))
        await listening(hop, hop_port)
        ways = {
            "bare": bare,
            "bare_hop": Way(await _over_hop(hop_port, parts), {"hop": hop}),
            "relayed": Way(await _executions(ports[2], ports[4], parts), {"executor": chain["executor"]}),
        }
        return {load.name: await _side_by_side(pace, ways, load) for load in LOADS}


async def _whole(pace: Pace, cores: set[int], where: Path) -> dict[str, Any]:
    ports = free_ports(7)
    with ExitStack() as parts:
        bare, chain = await _started(parts, ports, cores, cores, where)
        ways = {"bare": bare, "relayed": Way(await _over_http(ports[6], "auto", parts), chain)}
        return {load.name: await _side_by_side(pace, ways, load) for load in LOADS}


async def _started(
    parts: ExitStack, ports: Sequence[int], server: set[int], other: set[int], where: Path
) -> tuple[Way, dict[str, Process]]:
    """The bare relay and the three services before one provider. Ports: provider, bare relay, five of the services."""
    upstream_port, bare_port, *of_services = ports
    upstream = parts.enter_context(running("bench.upstream", (str(upstream_port), str(CHUNKS)), {}, other, where))
    arguments = (str(bare_port), str(upstream_port))
    bare = parts.enter_context(running("bench.bare_relay", arguments, {}, server, where))
    base_url = f"http://127.0.0.1:{upstream_port}/v1"
    chain = parts.enter_context(services.whole_chain(POOL, of_services, server, where, base_url))
    for process, port in ((upstream, upstream_port), (bare, bare_port)):
        await listening(process, port)
    _, decision_metrics, _, executor_metrics, edge = of_services
    for process, port in zip(chain.values(), (decision_metrics, executor_metrics, edge), strict=True):
        await listening(process, port, "/readyz")
    return Way(await _over_http(bare_port, "model-0", parts), {"bare": bare}), chain


async def _side_by_side(pace: Pace, ways: Mapping[str, Way], load: Load) -> dict[str, Any]:
    """In turns, so that noise of the machine falls on all alike."""
    samples: dict[str, Samples] = defaultdict(Samples)
    for way in ways.values():
        await measure(way.work(load), load.at_once, pace.warm_s, Samples(), {})
    for _ in range(pace.rounds):
        for name, way in ways.items():
            await measure(way.work(load), load.at_once, pace.round_s, samples[name], way.processes)
    found: dict[str, Any] = {name: one.figures() for name, one in samples.items()}
    ratios = {f"{name}_to_bare_rate": ratio(found[name], found["bare"], "per_s") for name in ways if name != "bare"}
    return found | ratios


async def _over_http(port: int, model: str, parts: ExitStack) -> Callable[[Load], Work]:
    loop = asyncio.get_running_loop()
    most = max(load.at_once for load in LOADS)
    connections = [(await loop.create_connection(http1.Connection, "127.0.0.1", port))[1] for _ in range(most)]
    for connection in connections:
        parts.callback(connection.close)

    def work(load: Load) -> Work:
        request = http1.post(port, _body(model, load))
        firsts: list[float] | None = [] if load.stream else None
        return lambda slot, ended: connections[slot].ask(request, ended, firsts)

    return work


async def _over_hop(port: int, parts: ExitStack) -> Callable[[Load], Work]:
    client = await calls.connect(port)
    parts.callback(client.close)

    def work(load: Load) -> Work:
        body = _body("model-0", load)
        return client.calls("/bench.Hop/Relay", lambda: body, ANSWERED)

    return work


async def _executions(decision_port: int, executor_port: int, parts: ExitStack) -> Callable[[Load], Work]:
    """Executes one plan of the decision service again and again, as the edge asks for it."""
    deciding, executing = await calls.connect(decision_port), await calls.connect(executor_port)
    parts.callback(deciding.close)
    parts.callback(executing.close)
    answer = await deciding.one(calls.DECIDE, calls.decide_messages()())
    decision = decision_pb2.DecideResponse.FromString(answer)

    def work(load: Load) -> Work:
        request = executor_pb2.ExecuteRequest(
            decision_id=decision.decision_id,
            plan=decision.plan,
            operation=decision_pb2.OPERATION_CHAT,
            client_dialect=executor_pb2.CLIENT_DIALECT_OPENAI_CHAT,
            body=_body("auto", load),
            deadline_ms=60_000,
            batches=True,
        ).SerializeToString()
        return executing.calls(EXECUTE, lambda: request, ANSWERED)

    return work


def _body(model: str, load: Load) -> bytes:
    return orjson.dumps({"model": model, "messages": [{"role": "user", "content": PROMPT}], "stream": load.stream})
