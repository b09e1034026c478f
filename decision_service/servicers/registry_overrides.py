"""OverrideService and SettingsService."""

from __future__ import annotations

from typing import Any

from google.protobuf import field_mask_pb2

from decision_service.policy.fields import shape
from decision_service.registry import Registry, overrides, settings
from decision_service.registry.paging import page_of
from decision_service.servicers.registry_desk import Call, Desk
from decision_service.servicers.registry_wire import effective_out, page_in, plain_struct, struct_out
from decision_service.store.records import OVERRIDES, OverrideRecord, SettingsRecord, etag
from omniroute.registry.v1 import registry_pb2 as pb
from omniroute.registry.v1 import registry_pb2_grpc
from service_kit.errors import invalid

VALUES_PREFIX = "values."


class OverrideServicer(registry_pb2_grpc.OverrideServiceServicer):
    """What a key changes in a channel's pool."""

    def __init__(self, registry: Registry, desk: Desk) -> None:
        self._registry = registry
        self._desk = desk

    async def ListOverrides(self, request: pb.ListOverridesRequest, context: Call) -> pb.ListOverridesResponse:
        self._desk.admit_reader(context)
        wanted = request.api_key_id
        stored = self._registry.snapshot.stored.of(OVERRIDES)
        found = {key: record for key, record in stored.items() if not wanted or record.api_key_id == wanted}
        chosen, token = page_of(found, page_in(request, f"overrides/{wanted}"))
        return pb.ListOverridesResponse(overrides=[override_out(each) for each in chosen], next_page_token=token)

    async def GetOverride(self, request: pb.GetOverrideRequest, context: Call) -> pb.GetOverrideResponse:
        self._desk.admit_reader(context)
        record = overrides.find(self._registry, request.api_key_id, request.channel)
        return pb.GetOverrideResponse(override=override_out(record))

    async def UpdateOverride(self, request: pb.UpdateOverrideRequest, context: Call) -> pb.UpdateOverrideResponse:
        self._desk.admit_reader(context)
        record = await self._desk.run(
            overrides.put, self._registry, override_in(request.override), request.override.etag
        )
        return pb.UpdateOverrideResponse(override=override_out(record))

    async def DeleteOverride(self, request: pb.DeleteOverrideRequest, context: Call) -> pb.DeleteOverrideResponse:
        self._desk.admit_reader(context)
        place = request.api_key_id, request.channel, request.etag
        await self._desk.run(overrides.delete, self._registry, *place)
        return pb.DeleteOverrideResponse()


class SettingsServicer(registry_pb2_grpc.SettingsServiceServicer):
    """Settings of the whole service."""

    def __init__(self, registry: Registry, desk: Desk) -> None:
        self._registry = registry
        self._desk = desk

    async def GetSettings(self, request: pb.GetSettingsRequest, context: Call) -> pb.GetSettingsResponse:
        self._desk.admit_admin(context)
        return pb.GetSettingsResponse(settings=self._out(settings.find(self._registry)))

    async def UpdateSettings(self, request: pb.UpdateSettingsRequest, context: Call) -> pb.UpdateSettingsResponse:
        values = masked_settings(plain_struct(request.settings.values), request.update_mask)
        record = await self._desk.administer(context, settings.update, self._registry, request.settings.etag, values)
        return pb.UpdateSettingsResponse(settings=self._out(record))

    def _out(self, record: SettingsRecord) -> pb.Settings:
        effective = effective_out(settings.effective(self._registry))
        tag = etag(record)
        return pb.Settings(values=struct_out(record.settings), effective=effective, etag=tag)


def masked_settings(given: dict[str, Any], mask: field_mask_pb2.FieldMask) -> dict[str, Any]:
    """The settings that a mask names (``values.name``); named and not given: unset. No mask: all that are given."""
    names = []
    for path in mask.paths:
        if not path.startswith(VALUES_PREFIX):
            raise invalid("update_mask", shape(path), "values.<setting>")
        names.append(path.removeprefix(VALUES_PREFIX))
    return {name: given.get(name) for name in names} if names else given


def override_in(message: pb.Override) -> OverrideRecord:
    """The override as it was sent, not checked yet."""
    return OverrideRecord(
        api_key_id=message.api_key_id,
        channel=message.channel,
        candidates=candidates_in(message),
        order=tuple(message.order),
        strategy=message.strategy,
    )


def candidates_in(message: pb.Override) -> dict[str, dict[str, Any]]:
    """Raises INVALID_FIELD for a candidate that is named twice."""
    found: dict[str, dict[str, Any]] = {}
    for index, each in enumerate(message.candidates):
        if each.candidate in found:
            raise invalid(f"candidates[{index}].candidate", shape(each.candidate), "each candidate once")
        found[each.candidate] = {"excluded": each.excluded}
        if each.HasField("multiplier"):
            found[each.candidate]["multiplier"] = each.multiplier
    return found


def override_out(record: OverrideRecord) -> pb.Override:
    candidates = [
        pb.CandidateOverride(candidate=name, excluded=each.get("excluded", False), multiplier=each.get("multiplier"))
        for name, each in record.candidates.items()
    ]
    return pb.Override(
        api_key_id=record.api_key_id,
        channel=record.channel,
        candidates=candidates,
        order=record.order,
        strategy=record.strategy,
        etag=etag(record),
    )
