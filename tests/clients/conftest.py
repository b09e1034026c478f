"""One stack and the client programs that speak to it, for each module of tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.clients.shapes import World, keyed
from tests.clients.speakers import Speakers, speaking
from tests.e2e.conftest import pytest_asyncio_loop_factories, stack
from tests.e2e.stack import Stack

__all__ = ["pytest_asyncio_loop_factories", "stack"]

pytest.register_assert_rewrite("tests.clients.matrix")
if TYPE_CHECKING:
    from tests.clients.matrix import Client


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each of its module's clients, or for each of all that they can do."""
    if "task" in metafunc.fixturenames:
        pairs = {f"{name}-{task}": (client, task) for name, client in clients_of(metafunc) for task in client.can}
        metafunc.parametrize(("client", "task"), pairs.values(), ids=pairs)
    elif "client" in metafunc.fixturenames:
        named = dict(clients_of(metafunc))
        metafunc.parametrize("client", named.values(), ids=named)


def clients_of(metafunc: pytest.Metafunc) -> Iterable[tuple[str, Client]]:
    found: dict[str, Client] = metafunc.module.CLIENTS
    return found.items()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(stack: Stack) -> World:
    return await keyed(stack)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def speakers(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Speakers]:
    async with speaking(stack.url, tmp_path_factory.mktemp("clients")) as speakers:
        yield speakers
