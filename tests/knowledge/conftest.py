"""A store, a clock, and sources that a test holds in its hand: a real HTTP server on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvloop
from sqlalchemy import Engine

from decision_service.store.engine import open_engine
from decision_service.store.migrate import migrate
from tests.decision_service.conftest import Clock


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the service runs on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine("", tmp_path)
    migrate(engine)
    yield engine
    engine.dispose()


@dataclass(slots=True)
class Reply:
    """What is answered at a path. ``repeat`` sends the body so many times; ``cut`` closes before the announced end."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    repeat: int = 1
    cut: bool = False


class Outside:
    """An HTTP server; ``replies`` by path with its query, ``asked`` as they came. Unknown paths are 404."""

    def __init__(self) -> None:
        self.replies: dict[str, Reply] = {}
        self.asked: list[str] = []
        self.sent = 0
        self.port = 0

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ")[1].decode()
            self.asked.append(path)
            reply = self.replies.get(path, Reply(status=404))
            await asyncio.sleep(reply.wait_s)
            length = len(reply.body) * reply.repeat + int(reply.cut)
            headers = {"content-length": str(length), "connection": "close", **reply.headers}
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            writer.write(f"HTTP/1.1 {reply.status} Said\r\n{lines}\r\n".encode())
            for _ in range(reply.repeat):
                writer.write(reply.body)
                await writer.drain()
                self.sent += len(reply.body)
        writer.close()


@pytest.fixture
async def outside() -> AsyncIterator[Outside]:
    running = Outside()
    server = await asyncio.start_server(running.answer, "127.0.0.1", 0)
    running.port = server.sockets[0].getsockname()[1]
    yield running
    server.close()
