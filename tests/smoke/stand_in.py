"""What stands in for providers of the internet: an obliging upstream, and a way that leads to it by the real names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from tests.e2e.stack import good
from tests.executor.upstream import Connection, Received, Script, answer, completion, error_body


async def obliging(received: Received, connection: Connection) -> None:
    """Says Hello in whichever form it is asked for, and calls the tool that it is told to call."""
    if not received.body.get("tools"):
        return await good(received, connection)
    function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    call = {"id": "call_1", "type": "function", "function": function}
    return await answer(200, completion("", "tool_calls", tool_calls=[call]))(received, connection)


def with_key(key: str) -> Script:
    """Obliges who sends this key, and repeats any other one in its refusal, as no provider should."""

    async def play(received: Received, connection: Connection) -> None:
        sent = received.headers.get("authorization", received.headers.get("x-api-key", ""))
        if sent == f"Bearer {key}":
            return await obliging(received, connection)
        return await answer(401, error_body(f"This is not it: {sent}"))(received, connection)

    return play


@asynccontextmanager
async def proxy(ports: Mapping[str, int]) -> AsyncIterator[str]:
    """An HTTP proxy that leads CONNECT to the ports of loopback that hosts stand for; nobody else is reached."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            method, place, _ = (await reader.readuntil(b"\r\n\r\n")).decode().split(" ", 2)
            port = ports.get(place.partition(":")[0])
            if method != "CONNECT" or port is None:
                writer.write(b"HTTP/1.1 502 Nobody\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            else:
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
                await asyncio.gather(_copied(reader, far_writer), _copied(far_reader, writer))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()
