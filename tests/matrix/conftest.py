"""The world as it is before anything happens, made once, and running copies of it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from tests.decision_service.loopback import serving
from tests.matrix.policies import furnish
from tests.matrix.world import World

SECRET_KEY = "a secret key that all copies of the world share"
Running = Callable[[], AbstractAsyncContextManager[World]]


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the services run on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a world that nothing has happened to."""
    data_dir = tmp_path_factory.mktemp("furnished")

    async def make() -> None:
        async with serving(data_dir, secret_key=SECRET_KEY) as client:
            await furnish(World(client))

    uvloop.run(make())
    return data_dir


@pytest.fixture(scope="session")
def running(furnished: Path, tmp_path_factory: pytest.TempPathFactory) -> Running:
    """Starts a service over one more copy of that world."""

    @asynccontextmanager
    async def run() -> AsyncIterator[World]:
        data_dir = tmp_path_factory.mktemp("world")
        shutil.copytree(furnished, data_dir, dirs_exist_ok=True)
        async with serving(data_dir, secret_key=SECRET_KEY) as client:
            yield World(client)

    return run
