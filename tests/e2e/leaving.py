"""Clients that leave at any moment, and providers that never come to an end."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import orjson

from tests.executor.upstream import ROLE, Connection, Received, chunked, delta, event, head

PATIENCE_S = 0.5  # of a client that waits for something that may not come
PAUSE_S = 0.03
WORDS = b"lorem"
MOMENTS = ("half a request", "at once", "in a while", "the head", "words", "more words")
WEIGHTS = (1, 1, 3, 2, 2, 2)

SCHEMA = {"type": "object", "properties": {}}
HELLO: list[dict[str, str]] = [{"role": "user", "content": "hi"}]
# Path, body and tools of a request by surface.
SURFACES: Mapping[str, tuple[str, dict[str, Any], list[dict[str, Any]]]] = MappingProxyType(
    {
        "chat": (
            "/v1/chat/completions",
            {"messages": HELLO},
            [{"type": "function", "function": {"name": "look_up", "parameters": SCHEMA}}],
        ),
        "responses": (
            "/v1/responses",
            {"input": "hi"},
            [{"type": "function", "name": "look_up", "parameters": SCHEMA, "strict": False}],
        ),
        "messages": (
            "/v1/messages",
            {"messages": HELLO, "max_tokens": 99},
            [{"name": "look_up", "input_schema": SCHEMA}],
        ),
    }
)


@dataclass
class Endless:
    """A provider that talks on and on, each of its calls at its own pace.

    ``left`` counts by what it had done last when the caller left it.
    """

    dice: random.Random
    left: Counter[str] = field(default_factory=Counter)

    async def __call__(self, received: Received, connection: Connection) -> None:
        done = "nothing"
        with suppress(RuntimeError, ConnectionError):  # two ways of a socket to say that it was closed just now
            for next_one, data in self._acts(received):
                if await self._left(connection):
                    break
                done = next_one
                await connection.send(data)
        await connection.gone.wait()
        self.left[done] += 1

    def _acts(self, received: Received) -> Iterator[tuple[str, bytes]]:
        if not received.body.get("stream"):
            told = {"content-type": "application/json", "content-length": "999"}
            yield "half an answer", head(200, told) + b'{"choices": ['
            return
        kind = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
        yield "the head", head(200, kind)
        yield "no content", chunked(b": wait\n\n" + ROLE)
        while True:
            yield "words", chunked(event(delta(WORDS.decode())))

    async def _left(self, connection: Connection) -> bool:
        """Whether the caller left within a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.dice.uniform(0, PAUSE_S)):
                await connection.gone.wait()
        return connection.gone.is_set()


@dataclass
class Leaver:
    """Makes requests and leaves each of them before its end; ``heard`` counts by how much it had heard."""

    port: int
    dice: random.Random
    heard: Counter[str] = field(default_factory=Counter)

    async def call(self, model: str, surface: str, *, tools: bool) -> None:
        """One request that is left at a moment of chance, in either of two ways."""
        data = self._request(model, surface, tools=tools)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        moment = self.dice.choices(MOMENTS, WEIGHTS)[0]
        if moment == "half a request":
            writer.write(data[: self.dice.randrange(1, len(data))])
        else:
            writer.write(data)
        said = await self._hears(reader, moment)
        self.heard["words" if WORDS in said else "the head" if said else "nothing"] += 1
        if self.dice.random() < 0.5:
            writer.transport.abort()
        else:
            writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def _hears(self, reader: asyncio.StreamReader, moment: str) -> bytes:
        said = b""
        patience_s = {"half a request": 0.01, "at once": 0.0, "in a while": self.dice.uniform(0, PATIENCE_S)}
        wanted = {"the head": b"\r\n\r\n", "words": WORDS, "more words": WORDS}.get(moment, b"\0")
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s.get(moment, PATIENCE_S)):
                while wanted not in said:
                    said += await reader.read(65_536) or b"\0"
                for _ in range(self.dice.randrange(5) if moment == "more words" else 0):
                    said += await reader.read(65_536)
        assert b"\0" not in said, f"it was answered to the end: {said!r}"
        return said

    def _request(self, model: str, surface: str, *, tools: bool) -> bytes:
        path, fields, offered = SURFACES[surface]
        body = {"model": model, **fields, "stream": self.dice.random() < 0.8, **({"tools": offered} if tools else {})}
        data = orjson.dumps(body)
        lines = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(data)}"
        return f"{lines}\r\n\r\n".encode() + data
