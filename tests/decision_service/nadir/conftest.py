"""A Nadir that the test plays, and an asker with a clock in hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import httpx
import pytest
import uvloop

from decision_service.nadir import Nadir, Question, open_client
from tests.executor.upstream import Script, Upstream, answer


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the services run on."""
    return {"uvloop": uvloop.new_event_loop}


def choosing(model: str, **more: object) -> Script:
    return answer(200, {"model": model, **more})


@pytest.fixture
async def player() -> AsyncIterator[Upstream]:
    """Chooses ``big`` until it is told otherwise."""
    server = await Upstream(choosing("big")).start()
    yield server
    await server.stop()


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with open_client() as client:
        yield client


class Hand:
    """A clock for durations that a test turns."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def hand() -> Hand:
    return Hand()


async def no_key(_combo: str) -> str:
    return ""


Ask = Callable[..., Nadir]


@pytest.fixture
def nadir_at(client: httpx.AsyncClient, hand: Hand) -> Ask:
    """An asker whose service-wide address and key are the given ones."""

    def make(base_url: str, api_key: str = "", key_of: Callable[[str], Awaitable[str]] = no_key) -> Nadir:
        return Nadir(client, base_url, api_key, key_of, now=hand)

    return make


def question(base_url: str = "", timeout_ms: int = 2_000, prompt: str = "Prove it.") -> Question:
    return Question("mine", prompt, ("small", "big"), base_url, timeout_ms)
