"""Memory does not grow with the length of a stream."""

from __future__ import annotations

import asyncio
import resource
import time
from pathlib import Path

import grpc
import pytest

from tests.executor.conftest import House, target
from tests.executor.upstream import DONE, Connection, Received, delta, event, head

MIB = 2**20
PAGE = resource.getpagesize()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


@pytest.mark.parametrize(
    "size_mib", [64, pytest.param(1024, marks=[pytest.mark.full, pytest.mark.timeout(180)])], ids=["short", "long"]
)
async def test_a_long_stream_is_relayed_in_constant_memory(house: House, size_mib: int) -> None:
    piece = event(delta("x" * 60_000))

    async def flood(_received: Received, connection: Connection) -> None:
        await connection.send(head(200, {"content-type": "text/event-stream"}))
        for _ in range(size_mib * MIB // len(piece)):
            await connection.send(piece)
        await connection.send(event(delta(finish="stop")) + DONE)
        connection.writer.close()

    upstream = await house.upstream(flood)
    call = house.call([target(upstream)], body={"stream": True}, timeout=170)
    received, before, most = 0, 0, 0
    async for response in call:
        received += len(response.chunk.data)
        if received > 8 * MIB:
            before = before or resident_bytes()
            most = max(most, resident_bytes())
    assert received > size_mib * MIB * 0.99
    assert most - before < 48 * MIB


async def test_a_caller_who_reads_nothing_is_given_up_after_the_deadline(house: House) -> None:
    piece, sent = event(delta("x" * 60_000)), 0

    async def endless(_received: Received, connection: Connection) -> None:
        nonlocal sent
        await connection.send(head(200, {"content-type": "text/event-stream"}))
        while not connection.gone.is_set():
            await connection.send(piece)
            sent += 1

    upstream = await house.upstream(endless)
    started = time.monotonic()
    call = house.call([target(upstream)], body={"stream": True}, deadline_ms=300, timeout=20)
    async with asyncio.timeout(8):
        while not upstream.connections:
            await asyncio.sleep(0.01)
        await upstream.connections[0].gone.wait()
    held = sent
    with pytest.raises(grpc.aio.AioRpcError) as error:
        async for _ in call:
            pass
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "takes no more events" in str(error.value.details())
    assert time.monotonic() - started < 8
    assert held * len(piece) < 64 * MIB, "the upstream was held back meanwhile"
