"""A provider made of a raw socket, so that a test can say every byte of it and cut it anywhere."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    path: str
    headers: Mapping[str, str]
    raw_body: bytes

    @property
    def body(self) -> dict[str, Any]:
        loaded: dict[str, Any] = orjson.loads(self.raw_body)
        return loaded


@dataclass
class Connection:
    """One client connection; ``gone`` is set when the client closes it, at ``gone_at`` on the loop's clock."""

    writer: asyncio.StreamWriter
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    gone_at: float = 0.0

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send_slowly(self, data: bytes, pause_s: float = 0.001) -> None:
        """Each byte by itself."""
        for place in range(len(data)):
            await self.send(data[place : place + 1])
            await asyncio.sleep(pause_s)

    def cut(self) -> None:
        """A reset, as from a process that died."""
        if not self.writer.is_closing():
            self.writer.transport.abort()

    def left(self) -> None:
        if not self.gone.is_set():
            self.gone_at = asyncio.get_running_loop().time()
            self.gone.set()


Script = Callable[[Received, Connection], Awaitable[None]]


class Upstream:
    """Plays its scripts one after the other, the last one for ever."""

    def __init__(self, *scripts: Script) -> None:
        self.scripts = list(scripts)
        self.requests: list[Received] = []
        self.connections: list[Connection] = []
        self.port = 0
        self.tls: ssl.SSLContext | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}/v1"

    async def start(self) -> Upstream:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self.connections:
            connection.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        connection = Connection(writer)
        self.connections.append(connection)
        try:
            while True:
                received = await _received(reader)
                self.requests.append(received)
                script = self.scripts[min(len(self.requests), len(self.scripts)) - 1]
                await self._play(script, received, connection, reader)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            connection.left()
            self._tasks.discard(task)
            writer.close()

    async def _play(
        self, script: Script, received: Received, connection: Connection, reader: asyncio.StreamReader
    ) -> None:
        async def watch() -> None:
            with suppress(ConnectionError):
                while not reader.at_eof():
                    if reader._buffer or await _peeked(reader):  # type: ignore[attr-defined]
                        return
            connection.left()

        watcher = asyncio.create_task(watch())
        try:
            await script(received, connection)
        finally:
            watcher.cancel()
            with suppress(asyncio.CancelledError):
                await watcher


async def _peeked(reader: asyncio.StreamReader) -> bool:
    """Waits for bytes without taking them; False at the end."""
    await reader._wait_for_data("peek")  # type: ignore[attr-defined]
    return bool(reader._buffer)  # type: ignore[attr-defined]


async def _received(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    request_line, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(request_line.split(" ")[1], headers, body)


def head(status: int = 200, headers: Mapping[str, str] | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status} Status", *(f"{name}: {value}" for name, value in (headers or {}).items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def answer(status: int, body: bytes | dict[str, Any], headers: Mapping[str, str] | None = None) -> Script:
    """A whole answer with a length."""
    data = body if isinstance(body, bytes) else orjson.dumps(body)

    async def play(_received: Received, connection: Connection) -> None:
        told = {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})}
        await connection.send(head(status, told) + data)

    return play


def stream(*pieces: bytes, end: str = "close", pause_s: float = 0.0) -> Script:
    """An event stream; each piece is written by itself. It ends well (``close``), is ``cut``, or ``hang``s."""

    async def play(_received: Received, connection: Connection) -> None:
        await connection.send(head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"}))
        for piece in pieces:
            await connection.send(chunked(piece))
            await asyncio.sleep(pause_s)
        if end == "hang":
            await connection.gone.wait()
        elif end == "cut":
            connection.cut()
            raise ConnectionResetError
        else:
            await connection.send(b"0\r\n\r\n")

    return play


async def hang(_received: Received, connection: Connection) -> None:
    """Takes the request and says nothing."""
    await connection.gone.wait()


async def close_at_once(_received: Received, connection: Connection) -> None:
    connection.cut()
    raise ConnectionResetError


def event(payload: dict[str, Any] | str) -> bytes:
    data = payload if isinstance(payload, str) else orjson.dumps(payload).decode()
    return f"data: {data}\n\n".encode()


def delta(text: str | None = None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    said = {**({} if text is None else {"content": text}), **fields}
    choice = {"index": 0, "delta": said, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "served", "choices": [choice]}


def completion(text: str = "hello", finish: str = "stop", **message: Any) -> dict[str, Any]:
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 7,
        "model": "served",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


USAGE = {
    "id": "c1",
    "object": "chat.completion.chunk",
    "created": 7,
    "model": "served",
    "choices": [],
    "usage": {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 40},
    },
}
DONE = b"data: [DONE]\n\n"
ROLE = event(delta(role="assistant", content=""))
GOOD_STREAM = (ROLE, event(delta("Hel")), event(delta("lo")), event(delta(finish="stop")), event(USAGE), DONE)


def error_body(message: str = "broken", **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "server_error", "param": None, "code": None, **fields}}
