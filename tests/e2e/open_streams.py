"""Streams that stay open, in the dialect of each kind of client, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from tests.e2e.stack import REQUEST_LIMIT_S, Stack
from tests.executor.upstream import ROLE, Connection, Received, chunked, delta, event, head

MESSAGES = [{"role": "user", "content": "Say hello"}]


class Tap:
    """An upstream whose stream goes on when the test says so."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def __call__(self, _received: Received, connection: Connection) -> None:
        await connection.send(head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"}))
        await connection.send(chunked(ROLE + event(delta("Hel"))))
        await self.opened.wait()
        await connection.send(chunked(event(delta("lo")) + event(delta(finish="stop")) + b"data: [DONE]\n\n"))
        await connection.send(b"0\r\n\r\n")


@dataclass(frozen=True)
class Dialect:
    """A surface: what is sent there beside the model, and how a stream begins its last event when all is well."""

    path: str
    body: Mapping[str, Any]
    end: bytes


DIALECTS = (
    Dialect("/v1/chat/completions", {"messages": MESSAGES}, b"data: [DONE]"),
    Dialect("/v1/responses", {"input": MESSAGES}, b"event: response.completed"),
    Dialect("/v1/messages", {"messages": MESSAGES, "max_tokens": 100}, b"event: message_stop"),
)


@dataclass(frozen=True, eq=False)
class OpenStream:
    """A stream whose first bytes are here; ``reading`` ends with it and gives all that was said."""

    dialect: Dialect
    decision_id: str
    reading: asyncio.Task[bytes]

    @property
    def last(self) -> bytes:
        """The last event of an ended stream."""
        return self.reading.result().strip().split(b"\n\n")[-1]

    @property
    def error(self) -> Any:
        """What the dialect's clients raise; the last event must be one."""
        *named, data = self.last.split(b"\n")
        assert named == ([] if self.dialect is DIALECTS[0] else [b"event: error"]), self.last
        return orjson.loads(data.removeprefix(b"data: "))["error"]


@asynccontextmanager
async def open_stream(stack: Stack, dialect: Dialect, model: str) -> AsyncIterator[OpenStream]:
    body = {"model": model, "stream": True, **dialect.body}
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=REQUEST_LIMIT_S)) as http,
        http.post(stack.url + dialect.path, json=body) as response,
    ):
        assert response.status == 200, await response.read()
        first = await response.content.readany()
        reading = asyncio.create_task(_rest(first, response.content))
        try:
            yield OpenStream(dialect, response.headers["x-omniroute-decision-id"], reading)
        finally:
            reading.cancel()
            await asyncio.wait([reading])


async def _rest(first: bytes, content: aiohttp.StreamReader) -> bytes:
    return first + await content.read()
