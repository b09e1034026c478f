"""A backup under load outlives the machine it was made on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import grpc

from omniroute.decision.v1 import decision_pb2
from omniroute.registry.v1 import registry_pb2
from service_kit import calls
from tests.decision_service.client import LIMIT_S, Client, outcome, struct
from tests.decision_service.durability.conftest import Build, House
from tests.decision_service.process import ROOT

SECRET, SEED = "sk-not-to-be-found-anywhere", 7
EXECUTOR, EDGE = "a-token-for-the-executor", "a-token-for-the-edge"
CALLERS = 4


async def omnictl(*arguments: str | Path, status: int = 0, environ: Mapping[str, str] | None = None) -> str:
    """What a command says that ends with this status."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "omnictl", *map(str, arguments)),
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'protos/gen'}", **(environ or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(LIMIT_S * 3):
        said, _ = await process.communicate()
    assert process.returncode == status, said
    return said.decode()


async def keep_calling(client: Client, reported: set[str]) -> None:
    while True:
        decision = await client.decide("mine")
        try:
            await client.report(outcome(decision, "SUCCESS"))
        except grpc.aio.AioRpcError:
            return
        reported.add(decision.decision_id)


async def furnish(client: Client) -> str:
    """Something of everything; the client key's text."""
    steps = [await client.add_target(name, api_key=SECRET, provider_class="api_key") for name in ("ant", "bee")]
    await client.add_combo("mine", steps, "auto")
    await client.settings.UpdateSettings(
        registry_pb2.UpdateSettingsRequest(settings=registry_pb2.Settings(values=struct({"comboRefMaxDepth": 2}))),
        timeout=LIMIT_S,
    )
    await client.attempt("bee/bee-model", "AUTH_FAILED", http_status=401)
    return (await client.add_key("laptop", allowed_models=["mine"])).secret


async def seen(client: Client, secret: str) -> dict[str, object]:
    """What an operator, a client and the executor see."""
    explain = decision_pb2.ExplainRequest(request=decision_pb2.DecideRequest(model="mine", seed=SEED))
    decision = (await client.decisions.Explain(explain, timeout=LIMIT_S)).decision
    executor, edge = calls.metadata(token=EXECUTOR), calls.metadata(token=EDGE)
    resolve = registry_pb2.ResolveRequest(connection_id="ant-1")
    known = registry_pb2.AuthenticateRequest(secret=secret)
    return {
        "connections": (await client.connections.ListConnections(registry_pb2.ListConnectionsRequest())).connections,
        "combos": (await client.combos.ListCombos(registry_pb2.ListCombosRequest())).combos,
        "settings": (await client.settings.GetSettings(registry_pb2.GetSettingsRequest())).settings,
        "targets": [target.target_id for target in decision.plan.targets],
        "rejections": [row.rejection.filter for row in decision.trace.candidates],
        "credential": (await client.secrets.Resolve(resolve, metadata=executor)).api_key,
        "key": (await client.keys.Authenticate(known, metadata=edge)).key.id,
        "cooldown": (await client.states("cooldown"))["bee/bee-1"].state,
    }


async def test_a_backup_under_load_is_the_service_elsewhere(build: Build, tmp_path: Path) -> None:
    tokens = {"OMNIROUTE_EXECUTOR_TOKEN": EXECUTOR, "OMNIROUTE_EDGE_TOKEN": EDGE}
    house = build(**tokens)
    client = await house.start()
    secret = await furnish(client)
    reported: set[str] = set()
    callers = [asyncio.create_task(keep_calling(client, reported)) for _ in range(CALLERS)]
    async with asyncio.timeout(LIMIT_S):
        while len(reported) < 50:
            await asyncio.sleep(0.01)
    before = {*reported}
    backup, there = tmp_path / "backup", tmp_path / "there"
    await omnictl("backup", backup, "--with-secret-key", environ={"OMNIROUTE_DATA_DIR": str(house.data_dir)})
    for caller in callers:
        caller.cancel()
    await asyncio.gather(*callers, return_exceptions=True)
    expected = await seen(client, secret)
    assert expected["credential"] == SECRET
    await house.leave()
    await house.service.kill()
    for hidden in (SECRET, secret):
        assert hidden.encode() not in backup.read_bytes()

    await omnictl("restore", backup, "--data-dir", there)
    house.service.environ = {**house.service.environ, "OMNIROUTE_DATA_DIR": str(there)}
    house.data_dir = there
    again = await house.start()
    assert await seen(again, secret) == expected
    kept = {decision_id for decision_id, _ in house.outcomes()}
    assert before <= kept
    assert (await again.report(outcome(await again.decide("mine"), "SUCCESS"))).accepted == 1


async def test_a_running_service_keeps_its_store(house: House, build: Build, tmp_path: Path) -> None:
    await house.start()
    data = {"OMNIROUTE_DATA_DIR": str(house.data_dir)}
    await omnictl("backup", tmp_path / "backup", environ=data)
    said = await omnictl("restore", tmp_path / "backup", "--force", status=1, environ=data)
    assert f"in use by another process ({house.service.pid})" in said
    second = build()
    await second.service.spawn()
    assert second.service.process is not None
    async with asyncio.timeout(LIMIT_S * 2):
        assert await second.service.process.wait() == 1
    assert f"in use by another process ({house.service.pid})" in second.service.said
    assert "Traceback" not in second.service.said
    await house.service.kill()
    await omnictl("restore", tmp_path / "backup", "--force", environ=data)
