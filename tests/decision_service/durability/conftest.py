"""A decision service in a process of its own, over a store that outlives it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvloop

from tests.decision_service.client import Client
from tests.decision_service.process import Service, decision_service, free_ports


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the services run on."""
    return {"uvloop": uvloop.new_event_loop}


CONNECT_LIMIT_S = 10.0


@dataclass
class House:
    """The process and its store."""

    service: Service
    address: str
    data_dir: Path
    clients: list[Client] = field(default_factory=list)

    async def start(self) -> Client:
        """Start the service, once more perhaps; a client of its present life."""
        await self.leave()
        await self.service.start()
        self.clients.append(Client(self.address))
        async with asyncio.timeout(CONNECT_LIMIT_S):
            await self.clients[-1].channel.channel_ready()
        return self.clients[-1]

    async def leave(self) -> None:
        """Close the clients; one that waits to reconnect would keep a newer one waiting too."""
        while self.clients:
            await self.clients.pop().close()

    async def close(self) -> None:
        await self.leave()
        await self.service.kill()

    @property
    def database(self) -> Path:
        return self.data_dir / "omniroute.db"

    def outcomes(self) -> dict[tuple[str, int], int]:
        """How often each (decision, attempt) is on disk."""
        query = "SELECT decision_id, attempt, count(*) FROM outcomes GROUP BY 1, 2"
        with closing(sqlite3.connect(self.database)) as connection:
            return {(decision, attempt): times for decision, attempt, times in connection.execute(query)}


Build = Callable[..., House]


@pytest.fixture
async def build(tmp_path: Path) -> AsyncIterator[Build]:
    """Makes a house that is not started; keyword arguments are whole environment variables."""
    async with AsyncExitStack() as parts:

        def make(**variables: str) -> House:
            port, metrics_port = free_ports(2)
            service = decision_service(tmp_path / "data", tmp_path / "log", port, metrics_port, **variables)
            house = House(service, f"127.0.0.1:{port}", tmp_path / "data")
            parts.push_async_callback(house.close)
            return house

        yield make


@pytest.fixture
def house(build: Build) -> House:
    return build()
