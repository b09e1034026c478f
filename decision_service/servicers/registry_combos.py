"""ComboService."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from decision_service.registry import Registry, combos
from decision_service.registry.combos import StoredCombo
from decision_service.registry.paging import page_of
from decision_service.registry.registry import get
from decision_service.roster_source.shadowing import Shadow
from decision_service.servicers.registry_desk import Call, Desk
from decision_service.servicers.registry_wire import (
    Readers,
    all_values,
    effective_out,
    page_in,
    plain_struct,
    stamp_out,
    struct_out,
    values_in,
)
from decision_service.store.records import COMBOS, ComboRecord
from omniroute.registry.v1 import registry_pb2 as pb
from omniroute.registry.v1 import registry_pb2_grpc

READERS: Readers[pb.Combo] = {
    "name": lambda message: message.name,
    "strategy": lambda message: message.strategy,
    "steps": lambda message: [step_in(step) for step in message.steps],
    "config": lambda message: plain_struct(message.config),
    "description": lambda message: message.description,
}


class ComboServicer(registry_pb2_grpc.ComboServiceServicer):
    """Named routing policies."""

    def __init__(self, registry: Registry, desk: Desk) -> None:
        self._registry = registry
        self._desk = desk

    async def ListCombos(self, request: pb.ListCombosRequest, context: Call) -> pb.ListCombosResponse:
        self._desk.admit_admin(context)
        chosen, token = page_of(self._registry.snapshot.stored.of(COMBOS), page_in(request, "combos"))
        return pb.ListCombosResponse(combos=[self._out(each) for each in chosen], next_page_token=token)

    async def GetCombo(self, request: pb.GetComboRequest, context: Call) -> pb.GetComboResponse:
        self._desk.admit_admin(context)
        stored = self._registry.snapshot.stored.of(COMBOS)
        return pb.GetComboResponse(combo=self._out(get(stored, COMBOS.kind, (request.id,))))

    async def CreateCombo(self, request: pb.CreateComboRequest, context: Call) -> pb.CreateComboResponse:
        values = all_values(request.combo, READERS) | {"id": request.combo.id}
        stored = await self._desk.administer(context, combos.create, self._registry, values)
        return pb.CreateComboResponse(combo=self._out(stored.record), warning=_warning(stored))

    async def UpdateCombo(self, request: pb.UpdateComboRequest, context: Call) -> pb.UpdateComboResponse:
        sent = request.combo
        values = values_in(sent, request.update_mask, READERS)
        stored = await self._desk.administer(context, combos.update, self._registry, sent.id, sent.etag, values)
        return pb.UpdateComboResponse(combo=self._out(stored.record), warning=_warning(stored))

    async def DeleteCombo(self, request: pb.DeleteComboRequest, context: Call) -> pb.DeleteComboResponse:
        await self._desk.administer(context, combos.delete, self._registry, request.id, request.etag)
        return pb.DeleteComboResponse()

    def _out(self, record: ComboRecord) -> pb.Combo:
        return pb.Combo(
            id=record.id,
            name=record.name,
            strategy=record.strategy,
            steps=[step_out(step) for step in record.steps],
            config=struct_out(record.config),
            description=record.description,
            effective=effective_out(combos.effective(self._registry, record)),
            version=record.version,
            **stamp_out(record),
        )


def step_in(message: pb.ComboStep) -> dict[str, Any]:
    """A step as the policy reads it."""
    step = {
        "id": message.step_id,
        "kind": message.kind,
        "model": message.model,
        "connectionId": message.connection_id,
        "prompt": message.prompt,
        "label": message.label,
        "comboName": message.combo_name,
    }
    given: dict[str, Any] = {key: value for key, value in step.items() if value}
    if message.HasField("weight"):
        given["weight"] = message.weight
    if message.HasField("max_concurrent"):
        given["maxConcurrent"] = message.max_concurrent
    return given


def step_out(step: Mapping[str, Any]) -> pb.ComboStep:
    return pb.ComboStep(
        step_id=step["id"],
        kind=step["kind"],
        model=step.get("model", ""),
        connection_id=step.get("connectionId", ""),
        weight=step.get("weight"),
        prompt=step.get("prompt", ""),
        label=step.get("label", ""),
        combo_name=step.get("comboName", ""),
        max_concurrent=step.get("maxConcurrent"),
    )


def _warning(stored: StoredCombo) -> pb.Warning | None:
    shadow: Shadow | None = stored.shadow
    if shadow is None:
        return None
    return pb.Warning(
        code="COMBO_NAME_SHADOWS_MODEL",
        model_id=shadow.model_id,
        provider_id=shadow.provider_id,
        message=f"the name {shadow.combo!r} is also a model of {shadow.provider_id!r}; requests for it use the combo",
    )
