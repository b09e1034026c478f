"""What the whole path adds: edge, decision and executor in front of a fake provider, beside that provider by itself.

All processes share all cores, as on a small machine.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson

from bench import http1, services
from bench.figures import Figures, Samples
from bench.load import Ended, Pace, Work, measure
from bench.processes import Process, free_ports, listening, running

POOL = 10
CONCURRENCIES = (1, 32)
EVENTS = 20
PROMPT = "Write a short note about the tides, with one example. " * 6


async def path(pace: Pace, cores: set[int], where: Path) -> dict[str, Any]:
    """Figures by kind of answer, load and way."""
    upstream_port, *ports = free_ports(6)
    with ExitStack() as parts:
        upstream = parts.enter_context(running("bench.upstream", (str(upstream_port), str(EVENTS)), {}, cores, where))
        await listening(upstream, upstream_port)
        base_url = f"http://127.0.0.1:{upstream_port}/v1"
        chain = parts.enter_context(services.whole_chain(POOL, ports, cores, where, base_url))
        for process, port in zip(chain.values(), (ports[1], ports[3], ports[4]), strict=True):
            await listening(process, port, "/readyz")
        ways = {"direct": await _connect(upstream_port), "whole": await _connect(ports[4])}
        for connection in (*ways["direct"], *ways["whole"]):
            parts.callback(connection.close)
        bench = _Bench(pace, ways, {"direct": upstream_port, "whole": ports[4]}, chain)
        return {kind: await bench.figures(stream=kind == "stream") for kind in ("plain", "stream")}


async def _connect(port: int) -> list[http1.Connection]:
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(http1.Connection, "127.0.0.1", port) for _ in range(max(CONCURRENCIES))]
    return [connection for _, connection in made]


class _Bench:
    """Connections by way, the port of each, and the processes of the whole path."""

    def __init__(
        self, pace: Pace, ways: dict[str, list[http1.Connection]], ports: dict[str, int], chain: dict[str, Process]
    ) -> None:
        self._pace = pace
        self._ways, self._ports, self._chain = ways, ports, chain

    async def figures(self, *, stream: bool) -> dict[str, Any]:
        for way in self._ways:
            await measure(self._work(way, [] if stream else None), max(CONCURRENCIES), self._pace.warm_s, Samples(), {})
        return {f"at_once_{many}": await self._side_by_side(many, stream=stream) for many in CONCURRENCIES}

    def _work(self, way: str, firsts: list[float] | None) -> Work:
        connections = self._ways[way]
        model = "auto" if way == "whole" else "model-0"
        messages = [{"role": "user", "content": PROMPT}]
        body = orjson.dumps({"model": model, "messages": messages, "stream": firsts is not None})
        request = http1.post(self._ports[way], body)

        def work(slot: int, ended: Ended) -> None:
            connections[slot].ask(request, ended, firsts)

        return work

    async def _side_by_side(self, concurrency: int, *, stream: bool) -> dict[str, Any]:
        samples: dict[str, Samples] = defaultdict(Samples)
        for _ in range(self._pace.rounds):
            for way in self._ways:
                firsts: list[float] | None = [] if stream else None
                watched = self._chain if way == "whole" else {}
                await measure(self._work(way, firsts), concurrency, self._pace.round_s, samples[way], watched)
                if firsts is not None:
                    samples[f"{way}_first_content"].add_round(firsts, self._pace.round_s)
        found: dict[str, Any] = {name: one.figures() for name, one in samples.items()}
        found["added"] = _added(found["direct"], found["whole"])
        if stream:
            found["added_to_first_content"] = _added(found["direct_first_content"], found["whole_first_content"])
        return found


def _added(direct: Figures, whole: Figures) -> Figures:
    return {name: round(float(whole[name] or 0) - float(direct[name] or 0)) for name in ("p50_us", "p95_us")}
