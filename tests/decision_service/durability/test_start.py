"""Start and stop: keys of the environment, demo providers, refused settings, a graceful end."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from contextlib import closing

import grpc
import pytest

from omniroute.registry.v1 import registry_pb2
from tests.decision_service.client import LIMIT_S, Client, outcome, refused
from tests.decision_service.durability.conftest import Build, House

KEY = "sk-environment-0123456789"


async def connection(client: Client, name: str) -> registry_pb2.Connection:
    request = registry_pb2.GetConnectionRequest(id=name)
    return (await client.connections.GetConnection(request, timeout=LIMIT_S)).connection


async def test_a_provider_key_of_the_environment_is_a_connection(build: Build) -> None:
    keyed = build(OPENAI_API_KEY=KEY)
    client = await keyed.start()
    found = await connection(client, "env-openai")
    assert (found.provider, found.origin) == ("openai", "environment")
    assert (found.credential_view.kind, found.credential_view.reference) == ("reference", "env:OPENAI_API_KEY")
    assert found.credential_view.usable
    for model in ("auto", "openai/gpt-4o", "gpt-4o"):
        target = (await client.decide(model)).plan.targets[0]
        assert (target.provider, target.connection_id) == ("openai", "env-openai")
        assert target.base_url.startswith("https://")
    assert KEY not in str(found)
    await keyed.service.terminate()
    assert KEY not in keyed.service.said
    assert KEY.encode() not in keyed.database.read_bytes()


async def test_without_its_variable_such_a_connection_is_not_usable(build: Build) -> None:
    keyed = build(OPENAI_API_KEY=KEY)
    await keyed.start()
    await keyed.service.terminate()
    bare = build()
    client = await bare.start()
    assert not (await connection(client, "env-openai")).credential_view.usable
    assert (await refused(client.decide("auto"))).reason == "NO_AVAILABLE_TARGET"
    await bare.service.terminate()
    client = await keyed.start()
    assert (await client.decide("auto")).plan.targets[0].connection_id == "env-openai"


async def test_demo_providers_are_there_and_stored_nowhere(build: Build) -> None:
    demo = [
        {"id": f"demo-{n}", "base_url": f"http://127.0.0.1:{n}/v1", "models": [{"id": "m", "input_price": n}]}
        for n in (1, 2)
    ]
    house = build(OMNIROUTE_DEMO_PROVIDERS=json.dumps(demo))
    client = await house.start()
    decision = await client.decide("auto")
    assert {target.connection_id for target in decision.plan.targets} == {"demo-demo-1", "demo-demo-2"}
    assert {target.base_url for target in decision.plan.targets} == {"http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"}
    assert (await connection(client, "demo-demo-1")).origin == "demo"
    with closing(sqlite3.connect(house.database)) as database:
        assert database.execute("SELECT count(*) FROM connections").fetchone() == (0,)


async def ends_at_once(house: House) -> tuple[int, str]:
    """Exit status and words of a service that refuses to start."""
    await house.service.spawn()
    assert house.service.process is not None
    async with asyncio.timeout(LIMIT_S * 2):
        status = await house.service.process.wait()
    return status, house.service.said


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"OMNIROUTE_DECISION_METRICS_PORT": "many"}, "OMNIROUTE_DECISION_METRICS_PORT: got 'many'"),
        (
            {"OMNIROUTE_DEMO_PROVIDERS": "nonsense"},
            "OMNIROUTE_DEMO_PROVIDERS: demo_providers: got a text of 8 characters",
        ),
        ({"OMNIROUTE_DEMO_PROVIDERS": '[{"id": "x"}]'}, "demo_providers[0].base_url"),
        ({"OMNIROUTE_DATABASE_URL": "mysql://root:hush@nowhere/x"}, "mysql"),
        ({"OMNIROUTE_DATA_DIR": "/proc/nowhere"}, "/proc/nowhere"),
    ],
)
async def test_what_cannot_be_served_with_is_told_in_a_line(build: Build, variables: dict[str, str], says: str) -> None:
    house = build()
    house.service.environ = {**house.service.environ, **variables}
    status, said = await ends_at_once(house)
    assert status in (1, 2)
    assert says in said
    assert "Traceback" not in said
    assert "hush" not in said


async def test_another_secret_key_does_not_open_the_store(build: Build) -> None:
    first = build(OMNIROUTE_SECRET_KEY="the first secret key of all")
    client = await first.start()
    await client.add_target("ant", api_key="sk-sealed")
    await first.service.terminate()
    status, said = await ends_at_once(build(OMNIROUTE_SECRET_KEY="quite another secret key"))
    assert status == 1
    assert "secret key" in said
    assert "quite another" not in said
    assert "Traceback" not in said


async def test_the_key_file_is_made_once_for_its_owner_alone(house: House) -> None:
    client = await house.start()
    await client.add_target("ant", api_key="sk-sealed")
    files = {path.name: path for path in house.data_dir.iterdir()}
    [key_file] = [path for name, path in files.items() if "key" in name]
    assert key_file.stat().st_mode & 0o777 == 0o600
    assert house.database.stat().st_mode & 0o777 == 0o600
    assert b"sk-sealed" not in house.database.read_bytes()


async def keep_reporting(client: Client, model: str, reported: set[str], stop: asyncio.Event) -> None:
    while not stop.is_set():
        try:
            decision = await client.decide(model)
            await client.report(outcome(decision, "SUCCESS"))
        except grpc.aio.AioRpcError:
            return
        reported.add(decision.decision_id)


async def test_sigterm_ends_well_under_load(house: House) -> None:
    client = await house.start()
    model = await client.add_target("ant")
    reported: set[str] = set()
    stop = asyncio.Event()
    callers = [asyncio.create_task(keep_reporting(client, model, reported, stop)) for _ in range(4)]
    async with asyncio.timeout(LIMIT_S):
        while len(reported) < 20:
            await asyncio.sleep(0.01)
    began = time.monotonic()
    status = await house.service.terminate()
    assert status == 0
    assert time.monotonic() - began < 15
    stop.set()
    await asyncio.gather(*callers)
    assert reported <= {decision_id for decision_id, _ in house.outcomes()}
    assert "Traceback" not in house.service.said
    with closing(sqlite3.connect(house.database)) as database:
        [(saved_at,)] = database.execute("SELECT max(updated_at) FROM health_states WHERE kind = 'statistics'")
        [(learnt_at,)] = database.execute("SELECT max(at) FROM outcomes")
    assert saved_at >= learnt_at


async def test_a_stored_combo_that_cannot_be_read_is_told_in_a_line(house: House) -> None:
    client = await house.start()
    await client.add_combo("mine", [await client.add_target("ant")])
    await house.service.terminate()
    with closing(sqlite3.connect(house.database)) as database, database:
        database.execute("UPDATE combos SET strategy = 'of another version'")
    status, said = await ends_at_once(house)
    assert status == 1
    assert "the stored combo 'mine' cannot be read" in said
    assert "Traceback" not in said
