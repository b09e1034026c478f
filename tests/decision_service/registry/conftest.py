"""A real registry on loopback, over a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc.aio
import httpx
import pytest
from sqlalchemy import Engine

from decision_service.catalog import Catalog
from decision_service.registry import Registry
from decision_service.registry.oauth import Renewals
from decision_service.roster_source import RosterSource, Snapshot, Surroundings, parse_demo
from decision_service.servicers.registry import RegistryServicers
from decision_service.servicers.registry_desk import Desk, Tokens
from decision_service.vault import Vault
from omniroute.registry.v1 import registry_pb2 as pb
from omniroute.registry.v1 import registry_pb2_grpc as services
from service_kit.errors import from_rpc_error
from service_kit.grpc_server import start_server
from tests.decision_service.conftest import Clock

CATALOG = Catalog()
SECRET_KEY = "a secret key of the tests"
EDGE, EXECUTOR, ADMIN = "edge-token", "executor-token", "admin-token"
DEMO = """[{"id": "demo", "base_url": "http://127.0.0.1:1/v1", "models": [
    {"id": "tiny", "input_price": 0, "context_window": 8000, "capabilities": ["tools", "-vision"]}
]}]"""


def as_caller(token: str) -> tuple[tuple[str, str], ...]:
    return (("x-omniroute-token", token),)


@dataclass(slots=True)
class Running:
    """A running registry: its parts, its rosters as they were published, and stubs by service."""

    registry: Registry
    source: RosterSource
    published: list[Snapshot]
    channel: grpc.aio.Channel
    metadata: tuple[tuple[str, str], ...] = ()
    stubs: dict[str, Any] = field(default_factory=dict)

    def stub(self, service: str) -> Any:
        return self.stubs.setdefault(service, getattr(services, f"{service}Stub")(self.channel))

    async def call(self, service: str, method: str, request: Any, token: str = "") -> Any:
        """The answer; a refusal comes as ServiceError."""
        metadata = as_caller(token) if token else self.metadata
        try:
            return await getattr(self.stub(service), method)(request, timeout=10, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from None


def advertised(api_key_id: str) -> Iterator[pb.AdvertisedModel]:
    yield pb.AdvertisedModel(id="auto", kind="channel", owned_by=f"omniroute{api_key_id}")


def channels(api_key_id: str) -> Iterator[pb.Channel]:
    yield pb.Channel(id="auto", weight_pack=f"balanced{api_key_id}")


@asynccontextmanager
async def running(
    engine: Engine,
    clock: Clock,
    *,
    environ: dict[str, str] | None = None,
    demo: str = "",
    admin: str = "",
    secret_key: str = SECRET_KEY,
    routers: frozenset[str] = frozenset(),
) -> AsyncIterator[Running]:
    published: list[Snapshot] = []
    around = Surroundings(CATALOG, environ or {}, parse_demo(demo), routers)
    source = RosterSource(engine, around, published.append)
    source.start(clock)
    vault = Vault(secret_key)
    registry = Registry(engine, source, vault, clock)
    desk = Desk(Tokens(admin=admin, edge=EDGE, executor=EXECUTOR))
    async with httpx.AsyncClient() as client:
        servicers = RegistryServicers(
            registry, desk, Renewals(registry, client), advertised=advertised, channels=channels
        )
        server = await start_server("127.0.0.1:0", servicers.register, ["omniroute.registry.v1.ConnectionService"])
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            yield Running(registry, source, published, channel)
        await server.stop(0)
    desk.close()
    source.close()


@pytest.fixture
async def live(store: Engine, clock: Clock) -> AsyncIterator[Running]:
    """A registry with no admin token and two connections: c1 of openai, c2 of anthropic."""
    async with running(store, clock, demo=DEMO) as found:
        for name, provider in (("c1", "openai"), ("c2", "anthropic")):
            connection = pb.Connection(id=name, provider=provider, credential=pb.CredentialInput(api_key=f"sk-{name}"))
            await found.call("ConnectionService", "CreateConnection", pb.CreateConnectionRequest(connection=connection))
        yield found
