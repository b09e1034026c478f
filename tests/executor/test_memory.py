"""Memory does not grow with the length of a stream."""

from __future__ import annotations

import resource
from pathlib import Path

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
