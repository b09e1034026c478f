"""From store, catalogue and environment to rosters."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from sqlalchemy import Engine

from decision_service.roster_source import RosterSource, Snapshot, Surroundings
from decision_service.store import sql
from decision_service.store.engine import open_engine
from decision_service.store.migrate import migrate
from decision_service.store.records import COMBOS, CONNECTIONS, ComboRecord, ConnectionRecord
from omniroute.registry.v1 import registry_pb2 as pb
from service_kit.errors import Reason, ServiceError
from tests.decision_service.conftest import Clock
from tests.decision_service.registry.conftest import CATALOG, Running, running

ENVIRON = {"OPENAI_API_KEY": "sk-x", "GEMINI_API_KEY": "g", "MISTRAL_API_KEY": "", "HOME": "/"}


async def change(live: Running, mask: list[str], **fields: Any) -> None:
    request = pb.UpdateConnectionRequest(connection=pb.Connection(**fields), update_mask=FieldMask(paths=mask))
    await live.call("ConnectionService", "UpdateConnection", request)


def usable(live: Running, provider: str, name: str) -> bool:
    return live.source.snapshot.roster.connections[provider, name].usable


async def test_keys_in_the_environment_are_connections(store: Engine, clock: Clock) -> None:
    async with running(store, clock, environ=ENVIRON) as live:
        listed = await live.call("ConnectionService", "ListConnections", pb.ListConnectionsRequest())
        shown = {c.id: (c.provider, c.origin, c.credential_view.reference) for c in listed.connections}
        assert shown == {
            "env-google": ("google", "environment", "env:GEMINI_API_KEY"),
            "env-openai": ("openai", "environment", "env:OPENAI_API_KEY"),
        }
        assert "sk-x" not in str(listed)
        roster = live.source.snapshot.roster
        assert all(connection.usable for connection in roster.connections.values())
        assert [c.connection for c in roster.pool] == ["env-google", "env-openai"]
        assert {"gpt-4o", "gemini-2.5-flash"} <= set(roster.serving)
        with pytest.raises(ServiceError, match="env:OPENAI_API_KEY") as caught:
            await live.call("ConnectionService", "DeleteConnection", pb.DeleteConnectionRequest(id="env-openai"))
        assert caught.value.reason is Reason.CONFLICT


async def test_what_an_operator_changed_of_them_stays(store: Engine, clock: Clock) -> None:
    async with running(store, clock, environ=ENVIRON) as live:
        await change(live, ["enabled", "models"], id="env-openai", enabled=False, models=["gpt-4o"])
    async with running(store, clock, environ=ENVIRON) as live:
        connection = live.source.snapshot.roster.connections["openai", "env-openai"]
        assert (connection.enabled, connection.models, connection.usable) == (False, ("gpt-4o",), True)
        key = pb.CredentialInput(api_key="sk-own")
        await change(live, ["credential"], id="env-openai", credential=key)
    async with running(store, clock, environ={}) as live:
        assert live.source.snapshot.roster.connections["openai", "env-openai"].usable


async def test_a_variable_that_goes_and_comes_back(store: Engine, clock: Clock) -> None:
    async with running(store, clock, environ=ENVIRON):
        pass
    async with running(store, clock, environ={}) as live:
        connections = live.source.snapshot.roster.connections
        assert len(connections) == 2
        assert not any(connection.usable for connection in connections.values())
        await live.call("ConnectionService", "DeleteConnection", pb.DeleteConnectionRequest(id="env-openai"))
    async with running(store, clock, environ={"GOOGLE_API_KEY": "g", "OPENAI_API_KEY": "o"}) as live:
        stored = live.source.snapshot.connections
        assert stored["env-google"].reference == "env:GOOGLE_API_KEY"
        assert all(connection.usable for connection in live.source.snapshot.roster.connections.values())
        assert "env-openai" in stored


async def test_an_operators_reference_counts_as_present(store: Engine, clock: Clock) -> None:
    async with running(store, clock) as live:
        credential = pb.CredentialInput(reference="env:ONLY_THE_EXECUTOR_HAS_IT")
        connection = pb.Connection(id="c", provider="openai", credential=credential)
        await live.call("ConnectionService", "CreateConnection", pb.CreateConnectionRequest(connection=connection))
        assert live.source.snapshot.roster.connections["openai", "c"].usable


async def test_a_connection_without_an_endpoint_is_not_usable(store: Engine, clock: Clock) -> None:
    async with running(store, clock) as live:
        connection = pb.Connection(id="c", provider="azure", credential=pb.CredentialInput(api_key="k"))
        await live.call("ConnectionService", "CreateConnection", pb.CreateConnectionRequest(connection=connection))
        assert not usable(live, "azure", "c")
        await change(live, ["base_url"], id="c", base_url="https://mine.example/openai/v1/")
        assert usable(live, "azure", "c")
        assert live.source.snapshot.endpoints["c"].base_url == "https://mine.example/openai/v1"


def source_of(engine: Engine, routers: frozenset[str] = frozenset()) -> tuple[RosterSource, list[Snapshot]]:
    published: list[Snapshot] = []
    return RosterSource(engine, Surroundings(CATALOG, {}, (), routers), published.append), published


def test_another_process_is_noticed_soon(store: Engine, clock: Clock) -> None:
    source, published = source_of(store)
    source.start(clock)
    assert len(published) == 1
    with store.begin() as connection:
        sql.next_revision(connection)
        sql.add(connection, CONNECTIONS, ConnectionRecord("c", "openai", credential_kind="api_key", version=1))
    deadline = time.monotonic() + 5
    while len(published) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    source.close()
    assert ("openai", "c") in published[-1].roster.connections


def test_an_older_snapshot_never_replaces_a_newer_one(store: Engine, clock: Clock) -> None:
    source, published = source_of(store)
    old = source.start(clock)
    with store.begin() as connection:
        sql.next_revision(connection)
        new = source.build(connection)
    source.publish(new)
    source.publish(old)
    source.close()
    assert source.snapshot is new
    assert published == [old, new]


def test_a_combo_whose_plug_in_is_gone_stops_the_start_by_name(store: Engine, clock: Clock) -> None:
    with store.begin() as connection:
        record = ComboRecord("1", "special", "auto", config={"routerStrategy": "my-plug-in"})
        sql.add(connection, COMBOS, record)
    source, published = source_of(store)
    with pytest.raises(ServiceError, match=r"'special'.*my-plug-in"):
        source.start(clock)
    assert not published
    source, published = source_of(store, frozenset({"my-plug-in"}))
    source.start(clock)
    source.close()
    assert published[0].roster.combos["special"].config.router_strategy == "my-plug-in"


def test_a_connection_whose_provider_nobody_knows_is_left_out(store: Engine, clock: Clock) -> None:
    with store.begin() as connection:
        sql.add(connection, CONNECTIONS, ConnectionRecord("c", "gone-provider", version=1))
    source, published = source_of(store)
    source.start(clock)
    source.close()
    assert published[0].roster.connections == {}
    assert "c" in published[0].connections


def test_a_large_roster_is_built_quickly(clock: Clock, tmp_path: Path) -> None:
    engine = open_engine("", tmp_path)
    migrate(engine)
    providers = sorted(name for name in CATALOG.ids if CATALOG.provider(name).base_url)[:50]  # type: ignore[union-attr]
    with engine.begin() as connection:
        for n in range(200):
            record = ConnectionRecord(f"c{n}", providers[n % 50], credential_kind="api_key", version=1)
            sql.add(connection, CONNECTIONS, record)
        for n in range(100):
            steps = [{"id": f"s{m}", "model": f"{providers[m]}/x"} for m in range(5)]
            sql.add(connection, COMBOS, ComboRecord(f"k{n}", f"combo {n}", "weighted", steps, version=1))
    source, _ = source_of(engine)
    source.start(clock)
    source.close()
    times = []
    for _ in range(3):
        began = time.perf_counter()
        with sql.reading(engine) as connection:
            source.build(connection)
        times.append(time.perf_counter() - began)
    engine.dispose()
    assert min(times) < 0.25  # some 30 ms on a quiet core
    print(f"\n200 connections, 100 combos: {min(times) * 1000:.0f} ms")
