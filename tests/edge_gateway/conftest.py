"""A running edge on a free port, with played services behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

import httpx
import openai
import pytest

from edge_gateway.assembly import Edge
from edge_gateway.settings import Settings
from tests.edge_gateway.fakes import EDGE_TOKEN, FakeDecision, FakeExecutor, plain_answer

READ_LIMIT_S = 5.0


@dataclass
class House:
    """The edge under test and everything around it."""

    edge: Edge
    decision: FakeDecision
    executor: FakeExecutor

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.edge.port}"

    def openai(self, api_key: str = "any") -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key=api_key, max_retries=0, timeout=10)

    async def get(self, path: str, **headers: str) -> httpx.Response:
        async with httpx.AsyncClient() as client:
            return await client.get(self.url + path, headers=headers)

    async def post(self, body: Any, headers: dict[str, str] | None = None) -> httpx.Response:
        """A chat completion; ``body`` is bytes as they are, or a value to send as JSON."""
        content = {"content": body} if isinstance(body, bytes) else {"json": body}
        async with httpx.AsyncClient(timeout=10) as client:
            return await client.post(f"{self.url}/v1/chat/completions", headers=headers, **content)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.edge.port)

    async def raw(self, data: bytes) -> bytes:
        """Everything that comes back for these bytes until the edge closes the connection."""
        reader, writer = await self.connect()
        writer.write(data)
        async with asyncio.timeout(READ_LIMIT_S):
            answer = await reader.read()
        writer.close()
        return answer


Open = Callable[..., Awaitable[House]]


@pytest.fixture
async def open_house() -> AsyncIterator[Open]:
    """Start a house; keyword arguments are changed settings, ``script`` what the executor plays."""
    async with AsyncExitStack() as stack:

        async def start(script: Any = None, decision: FakeDecision | None = None, **changes: Any) -> House:
            decision = decision or FakeDecision()
            executor = FakeExecutor(script or plain_answer())
            decision_server, executor_server = await decision.start(), await executor.start()
            stack.push_async_callback(decision_server.stop, 0)
            stack.push_async_callback(executor_server.stop, 0)
            settings = replace(
                Settings(
                    edge_port=0,
                    edge_token=EDGE_TOKEN,
                    decision_address=f"127.0.0.1:{decision_server.port}",
                    executor_address=f"127.0.0.1:{executor_server.port}",
                    edge_drain_ms=1000,
                ),
                **changes,
            )
            return House(await stack.enter_async_context(Edge(settings)), decision, executor)

        yield start


@pytest.fixture
async def house(open_house: Open) -> House:
    return await open_house()


def chat(content: Any = "Say hello", **fields: Any) -> dict[str, Any]:
    """A small chat body."""
    return {"model": "auto", "messages": [{"role": "user", "content": content}]} | fields
