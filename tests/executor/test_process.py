"""The executor as a process: starts, serves, tells its metrics, ends on SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from omniroute.executor.v1 import executor_pb2_grpc
from tests.executor.conftest import House, request, target
from tests.executor.upstream import GOOD_STREAM, stream

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


async def start(**settings: object) -> asyncio.subprocess.Process:
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}:{ROOT / 'protos/gen'}"}
    environ |= {f"OMNIROUTE_{name.upper()}": str(value) for name, value in settings.items()}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "executor", cwd=ROOT, env=environ, stderr=asyncio.subprocess.PIPE
    )


@pytest.fixture
async def process(house: House) -> AsyncIterator[tuple[asyncio.subprocess.Process, int, int]]:
    """A process beside the house: its credentials are the house's registry's."""
    port, metrics_port = free_port(), free_port()
    running = await start(
        executor_bind=f"127.0.0.1:{port}",
        executor_metrics_port=metrics_port,
        executor_grace_s=2,
        decision_address=house.registry_address,
    )
    yield running, port, metrics_port
    if running.returncode is None:
        running.kill()
    await running.communicate()


async def test_a_process_serves_and_ends_in_order(
    house: House, process: tuple[asyncio.subprocess.Process, int, int]
) -> None:
    running, port, metrics_port = process
    upstream = await house.upstream(stream(*GOOD_STREAM, pause_s=0.1))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        await asyncio.wait_for(channel.channel_ready(), 20)
        health: Any = health_pb2_grpc.HealthStub(channel)
        service = health_pb2.HealthCheckRequest(service="omniroute.executor.v1.ExecutorService")
        assert (await health.Check(service)).status == health_pb2.HealthCheckResponse.SERVING
        stub = executor_pb2_grpc.ExecutorServiceStub(channel)
        kinds = []
        async for received in stub.Execute(request([target(upstream)], body={"stream": True}), timeout=10):
            kinds.append(received.WhichOneof("event"))
            if len(kinds) == 1:
                running.send_signal(signal.SIGTERM)
            if len(kinds) == 2:
                async with httpx.AsyncClient() as client:
                    metrics = (await client.get(f"http://127.0.0.1:{metrics_port}/metrics")).text
                assert "omniroute_executor_in_flight 1.0" in metrics
        assert kinds[-1] == "done"
    _, errors = await asyncio.wait_for(running.communicate(), 10)
    assert (running.returncode, b"Traceback" in errors) == (0, False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("upstream_transport", "carrier-pigeon"),
        ("executor_metrics_port", "70000"),
        ("upstream_stall_s", "soon"),
        ("upstream_ca", "/no/such/file"),
    ],
)
async def test_bad_settings_are_named(name: str, value: str) -> None:
    running = await start(**{name: value})
    _, errors = await asyncio.wait_for(running.communicate(), 20)
    assert running.returncode == 2
    assert f"OMNIROUTE_{name.upper()}".encode() in errors
    assert b"allowed" in errors
    assert b"Traceback" not in errors
