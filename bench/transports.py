"""Compares the executor's transports against one fast local upstream: ``python bench/transports.py``.

The upstream runs in a process of its own, pinned to one core; the client is pinned to another. Plain calls carry a
small chat answer; streams carry 100 events, each written by itself.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import multiprocessing.connection
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import cast

import uvloop

from executor.transport.direct import DirectTransport
from executor.transport.over_httpx import HttpxTransport, plain_httpx
from executor.transport.port import Transport, TransportLimits, UpstreamRequest

ROUNDS = 5
EVENTS = 100
EVENT = b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
ANSWER = json.dumps({"id": "c", "choices": [{"index": 0, "message": {"role": "assistant", "content": "w " * 100}}]})
REQUEST_BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "word " * 50}]}).encode()

CANDIDATES: dict[str, Callable[[TransportLimits], Transport]] = {
    "httpx (own pool)": plain_httpx,
    "httpx over aiohttp": HttpxTransport,
    "aiohttp": DirectTransport,
}


@dataclass(frozen=True)
class Load:
    name: str
    path: str
    concurrency: int
    calls: int


LOADS = (
    Load("plain, 1 at a time", "/plain", 1, 300),
    Load("plain, 64 at once", "/plain", 64, 2000),
    Load("streams of 100, 32 at once", "/stream", 32, 320),
)


class Upstream(asyncio.Protocol):
    """Just enough HTTP to answer keep-alive POSTs."""

    def __init__(self) -> None:
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found or len(rest) < len(REQUEST_BODY):
            return
        self.buffer = rest[len(REQUEST_BODY) :]
        if b"/stream" in head.split(b"\r\n", 1)[0]:
            self.transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            )
            self.event(EVENTS)
        else:
            body = ANSWER.encode()
            self.transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
            )

    def event(self, left: int) -> None:
        if self.transport.is_closing():
            return
        if not left:
            self.transport.write(b"0\r\n\r\n")
            return
        self.transport.write(b"%x\r\n%s\r\n" % (len(EVENT), EVENT))
        asyncio.get_running_loop().call_soon(self.event, left - 1)


def serve(ready: multiprocessing.connection.Connection, cores: set[int]) -> None:
    os.sched_setaffinity(0, cores)

    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(main())


async def call(transport: Transport, url: str) -> None:
    response = await transport.send(UpstreamRequest(url, {"content-type": "application/json"}, REQUEST_BODY))
    while await response.read():
        pass
    response.finish()


async def run_load(transport: Transport, base: str, load: Load) -> tuple[float, float, list[float]]:
    """Calls per second, the client's CPU seconds per call, and each call's milliseconds."""
    latencies: list[float] = []
    left = load.calls

    async def worker() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            started = time.perf_counter()
            await call(transport, base + load.path)
            latencies.append(1000 * (time.perf_counter() - started))

    started, cpu_started = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker() for _ in range(load.concurrency)))
    cpu = (time.process_time() - cpu_started) / load.calls
    return load.calls / (time.perf_counter() - started), cpu, latencies


async def measure(base: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for load in LOADS:
        rates: dict[str, list[float]] = {name: [] for name in CANDIDATES}
        cpus: dict[str, list[float]] = {name: [] for name in CANDIDATES}
        latencies: dict[str, list[float]] = {name: [] for name in CANDIDATES}
        for _ in range(ROUNDS):  # in turns, so that noise of the machine falls on all alike
            for name, make in CANDIDATES.items():
                transport = make(TransportLimits())
                await run_load(transport, base, Load("warm", load.path, load.concurrency, load.concurrency))
                rate, cpu, taken = await run_load(transport, base, load)
                await transport.close()
                rates[name].append(rate)
                cpus[name].append(cpu)
                latencies[name] += taken
        for name in CANDIDATES:
            ordered = sorted(latencies[name])
            rows.append(
                {
                    "load": load.name,
                    "transport": name,
                    "calls_per_s": round(statistics.median(rates[name])),
                    "cpu_us": round(1e6 * statistics.median(cpus[name])),
                    "p50_ms": round(ordered[len(ordered) // 2], 2),
                    "p99_ms": round(ordered[len(ordered) * 99 // 100], 2),
                    "calls": len(ordered),
                }
            )
    return rows


def main() -> None:
    cores = sorted(os.sched_getaffinity(0))
    receiver, sender = multiprocessing.Pipe(duplex=False)
    upstream = multiprocessing.Process(target=serve, args=(sender, {cores[-1]}), daemon=True)
    upstream.start()
    os.sched_setaffinity(0, {cores[0]})
    rows = uvloop.run(measure(f"http://127.0.0.1:{receiver.recv()}"))
    upstream.terminate()
    upstream.join(5)
    print(f"{platform.machine()}, {len(cores)} cores, Python {platform.python_version()},", end=" ")
    print(", ".join(f"{name} {version(name)}" for name in ("httpx", "httpx-aiohttp", "aiohttp", "uvloop")))
    for row in rows:
        print(f"{row['load']:28} {row['transport']:20} {row['calls_per_s']:>7}/s", end=" ")
        print(f"CPU {row['cpu_us']:>6} us  p50 {row['p50_ms']:>8} ms  p99 {row['p99_ms']:>8} ms  n={row['calls']}")
    print(json.dumps({"transports": rows}))


if __name__ == "__main__":
    main()
