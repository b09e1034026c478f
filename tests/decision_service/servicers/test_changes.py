"""What an operator changes is in force for the next request, also when another process changed it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from omniroute.decision.v1 import decision_pb2
from omniroute.registry.v1 import registry_pb2
from tests.decision_service.client import LIMIT_S, Client, refused, struct
from tests.decision_service.loopback import serving

SOON_S = 5.0


async def connections_of(service: Client, model: str) -> set[str]:
    return {target.connection_id for target in (await service.decide(model)).plan.targets}


async def test_a_new_connection_is_in_the_next_pool_and_a_removed_one_is_not(service: Client) -> None:
    model = await service.add_target("ant")
    for number in range(2, 12):
        await service.add_connection(f"ant-{number}", "ant")
        assert f"ant-{number}" in await connections_of(service, model)
    request = registry_pb2.DeleteConnectionRequest(id="ant-5")
    await service.connections.DeleteConnection(request, timeout=LIMIT_S)
    assert await connections_of(service, model) == {f"ant-{number}" for number in range(1, 12) if number != 5}


async def test_a_disabled_connection_is_out_and_comes_back(service: Client) -> None:
    model = await service.add_target("ant")
    await service.add_connection("ant-2", "ant")
    for enabled, expected in ((False, {"ant-2"}), (True, {"ant-1", "ant-2"})):
        request = registry_pb2.UpdateConnectionRequest(
            connection=registry_pb2.Connection(id="ant-1", enabled=enabled), update_mask=FieldMask(paths=["enabled"])
        )
        await service.connections.UpdateConnection(request, timeout=LIMIT_S)
        assert await connections_of(service, model) == expected


async def test_a_combo_is_callable_at_once_and_changes_at_once(service: Client) -> None:
    first, second = await service.add_target("ant"), await service.add_target("bee")
    assert (await refused(service.decide("mine"))).reason == "MODEL_NOT_FOUND"
    await service.add_combo("mine", [first, second], config={"targetTimeoutMs": 7_000})
    decision = await service.decide("mine")
    assert [target.provider for target in decision.plan.targets] == ["ant", "bee"]
    assert decision.plan.targets[0].timeout_ms == 7_000
    [stored] = (await service.combos.ListCombos(registry_pb2.ListCombosRequest(), timeout=LIMIT_S)).combos
    stored.config.CopyFrom(struct({"targetTimeoutMs": 9_000}))
    stored.steps.reverse()
    await service.combos.UpdateCombo(registry_pb2.UpdateComboRequest(combo=stored), timeout=LIMIT_S)
    decision = await service.decide("mine")
    assert [target.provider for target in decision.plan.targets] == ["bee", "ant"]
    assert decision.plan.targets[0].timeout_ms == 9_000
    await service.combos.DeleteCombo(registry_pb2.DeleteComboRequest(id=stored.id), timeout=LIMIT_S)
    assert (await refused(service.decide("mine"))).reason == "MODEL_NOT_FOUND"


async def test_a_connection_keeps_its_cooldown_over_a_change_of_others(service: Client) -> None:
    model = await service.add_target("ant")
    await service.attempt(model, "RATE_LIMITED", retry_after_ms=60_000)
    await service.add_target("bee")
    assert (await refused(service.decide(model))).reason == "NO_AVAILABLE_TARGET"


@pytest.mark.full
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_a_change_by_another_process_is_seen_soon(tmp_path: Path, database_url: str) -> None:
    shared: dict[str, Any] = {"database_url": database_url, "secret_key": "the one that both were given"}
    async with serving(tmp_path / "one", **shared) as one, serving(tmp_path / "other", **shared) as other:
        model = await one.add_target("ant")
        async with asyncio.timeout(SOON_S):
            while (
                await other.decisions.ListCandidates(decision_pb2.ListCandidatesRequest(model="auto"))
            ).candidates == []:
                await asyncio.sleep(0.05)
        assert await connections_of(other, model) == {"ant-1"}
        await other.add_connection("ant-2", "ant")
        assert await connections_of(other, model) == {"ant-1", "ant-2"}
        async with asyncio.timeout(SOON_S):
            while await connections_of(one, model) != {"ant-1", "ant-2"}:
                await asyncio.sleep(0.05)
