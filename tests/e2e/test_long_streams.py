"""Streams that are long, and clients that are slow: memory stays, and nothing is lost, cut off or blamed."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from tests.e2e.footprint import resident
from tests.e2e.stack import Provided, Stack
from tests.executor.upstream import DONE, ROLE, Connection, Received, chunked, delta, event, head

pytestmark = pytest.mark.asyncio(loop_scope="module")
MIB = 2**20
PIECE = event(delta("x" * 60_000))
SETTLED = 8 * MIB  # of a stream: buffers have their size by then
GROWTH_BYTES = 48 * MIB
# What may be on its way when nobody reads: buffers of sockets and of gRPC's windows, in each of three hops.
HELD_BYTES = 48 * MIB
QUIET_S = 0.5


class Flood:
    """An upstream that sends so many bytes as fast as they are taken; ``sent`` counts them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.sent = 0

    async def __call__(self, _received: Received, connection: Connection) -> None:
        kind = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
        await connection.send(head(200, kind) + chunked(ROLE))
        while self.sent < self._size:
            await connection.send(chunked(PIECE))
            self.sent += len(PIECE)
        await connection.send(chunked(event(delta(finish="stop")) + DONE) + b"0\r\n\r\n")


async def flooded(stack: Stack, size: int) -> tuple[Flood, Provided]:
    flood = Flood(size)
    return flood, await stack.provider("flood", flood)


async def opened(stack: Stack, provided: Provided) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A stream that was asked for over a bare socket, of which the client has read nothing."""
    body = orjson.dumps({"model": provided.model, "messages": [{"role": "user", "content": "hi"}], "stream": True})
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.edge_port)
    lines = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\nconnection: close"
    writer.write(f"{lines}\r\n\r\n".encode() + body)
    return reader, writer


def held(stack: Stack) -> dict[str, int]:
    """Memory of the services that a stream goes through."""
    return {service.module: resident(service.pid) for service in (stack.executor, stack.edge)}


@pytest.mark.parametrize(
    "size_mib", [96, pytest.param(1024, marks=[pytest.mark.full, pytest.mark.timeout(300)])], ids=["short", "long"]
)
async def test_a_long_stream_takes_no_more_memory_than_a_short_one(stack: Stack, size_mib: int) -> None:
    _, provided = await flooded(stack, size_mib * MIB)
    reader, writer = await opened(stack, provided)
    received, end, before, most = 0, b"", dict[str, int](), dict[str, int]()
    while data := await reader.read(MIB):
        received, end = received + len(data), (end + data)[-200:]
        if received > SETTLED:
            now = held(stack)
            before = before or now
            most = {module: max(most.get(module, 0), size) for module, size in now.items()}
    writer.close()
    assert received > size_mib * MIB
    assert DONE in end
    assert {module for module, size in most.items() if size - before[module] > GROWTH_BYTES} == set()


async def test_a_client_that_does_not_read_holds_its_provider_back(stack: Stack) -> None:
    """For as long as it likes within the write limit: then everything comes, and the provider is not to blame."""
    flood, provided = await flooded(stack, 2 * HELD_BYTES)
    reader, writer = await opened(stack, provided)
    said = await reader.readuntil(b"\r\n\r\n")
    sent = -1
    async with asyncio.timeout(20):
        while sent != flood.sent:
            sent = flood.sent
            await asyncio.sleep(QUIET_S)
    assert 0 < sent < HELD_BYTES
    received, end = 0, b""
    while data := await reader.read(MIB):
        received, end = received + len(data), (end + data)[-200:]
    writer.close()
    assert received > 2 * HELD_BYTES
    assert DONE in end
    [line] = [line for line in said.decode().splitlines() if line.startswith("x-omniroute-decision-id")]
    assert await stack.settled(line.split()[1]) == ["SUCCESS"]
    assert (await stack.client.states("breaker"))[provided.name].count == 0
