"""The metrics server: metrics, probes, and clients that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from prometheus_client import Counter

from service_kit import metrics, probe
from service_kit.lifecycle import Fatal


@asynccontextmanager
async def server(ready: bool = True) -> AsyncIterator[metrics.MetricsServer]:
    started = await metrics.start_metrics_server("127.0.0.1", 0, lambda: ready)
    try:
        yield started
    finally:
        await started.stop()


async def get(port: int, path: str, method: str = "GET") -> httpx.Response:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        return await client.request(method, path)


async def test_metrics_are_served() -> None:
    counter = Counter("omniroute_test_served", "For this test.", registry=metrics.REGISTRY)
    counter.inc(3)
    try:
        async with server() as one:
            answer = await get(one.port, "/metrics")
    finally:
        metrics.REGISTRY.unregister(counter)
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "omniroute_test_served_total 3.0" in answer.text
    assert "process_cpu_seconds_total" in answer.text


async def test_tasks_are_counted_while_they_last() -> None:
    told = metrics.REGISTRY.get_sample_value
    metrics.render()
    before = told("omniroute_tasks") or 0.0
    sleeping = [asyncio.create_task(asyncio.sleep(10)) for _ in range(3)]
    metrics.render()
    assert told("omniroute_tasks") == before + 3
    for task in sleeping:
        task.cancel()
    await asyncio.wait(sleeping)
    metrics.render()
    assert told("omniroute_tasks") == before


@pytest.mark.parametrize(
    ("path", "ready", "status"),
    [
        ("/healthz", False, 200),
        ("/readyz", True, 200),
        ("/readyz", False, 503),
        ("/readyz?x=1", True, 200),
        ("/", True, 404),
    ],
)
async def test_probes(path: str, ready: bool, status: int) -> None:
    async with server(ready) as one:
        assert (await get(one.port, path)).status_code == status
        assert await probe.says_yes("127.0.0.1", one.port, path) == (status == 200)


async def test_only_get_is_allowed() -> None:
    async with server() as one:
        assert (await get(one.port, "/metrics", "POST")).status_code == 405


async def test_nonsense_is_hung_up_on_and_the_server_lives() -> None:
    async with server() as one:
        reader, writer = await asyncio.open_connection("127.0.0.1", one.port)
        writer.write(b"x" * (4 * metrics.MAX_HEAD_BYTES))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await asyncio.wait_for(reader.readexactly(1), 5)
        writer.close()
        assert (await get(one.port, "/healthz")).status_code == 200


async def test_a_taken_port_is_refused() -> None:
    async with server() as one:
        assert not probe.is_free("127.0.0.1", one.port)
        with pytest.raises(Fatal, match=f"cannot listen on 127.0.0.1 port {one.port}"):
            await metrics.start_metrics_server("127.0.0.1", one.port)
    assert probe.is_free("127.0.0.1", one.port)


async def test_nobody_there_is_no() -> None:
    async with server() as one:
        pass
    assert not await probe.says_yes("127.0.0.1", one.port, "/readyz")
