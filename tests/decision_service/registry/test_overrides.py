"""OverrideService and SettingsService."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct

from omniroute.registry.v1 import registry_pb2 as pb
from service_kit.errors import Reason, ServiceError
from tests.decision_service.registry.conftest import Running

ONE, TWO = "openai/gpt-4o@c1", "anthropic/claude-haiku-4-5@c2"


@pytest.fixture
async def key_id(live: Running) -> str:
    answer = await live.call("ApiKeyService", "CreateApiKey", pb.CreateApiKeyRequest(key=pb.ApiKey(name="k", id="k1")))
    return answer.key.id  # type: ignore[no-any-return]


async def put(live: Running, **fields: Any) -> pb.Override:
    request = pb.UpdateOverrideRequest(override=pb.Override(**({"api_key_id": "k1", "channel": "fast"} | fields)))
    answer = await live.call("OverrideService", "UpdateOverride", request)
    return answer.override  # type: ignore[no-any-return]


def candidate(name: str, **fields: Any) -> pb.CandidateOverride:
    return pb.CandidateOverride(candidate=name, **fields)


async def test_an_override_is_in_the_roster_when_the_answer_comes(live: Running, key_id: str) -> None:
    made = await put(live, candidates=[candidate(ONE, excluded=True), candidate(TWO, multiplier=0.0)], order=[TWO, ONE])
    override = live.source.snapshot.roster.overrides[key_id, "fast"]
    assert (set(override.excluded), dict(override.multipliers)) == ({ONE}, {TWO: 0.0})
    assert (override.order, override.strategy) == ((TWO, ONE), "")
    got = await live.call("OverrideService", "GetOverride", pb.GetOverrideRequest(api_key_id=key_id, channel="fast"))
    assert got.override == made
    assert not made.candidates[0].HasField("multiplier")


@pytest.mark.parametrize(
    ("given", "resolved"),
    [
        ("auto", "auto"),
        ("auto/fast", "fast"),
        ("coding:floor", "coding:cheap"),
        ("best-coding", "coding"),
        ("best-free", "chat:free"),
    ],
)
async def test_channels_are_resolved(live: Running, key_id: str, given: str, resolved: str) -> None:
    assert (await put(live, channel=given, strategy="random")).channel == resolved
    assert live.source.snapshot.roster.overrides[key_id, resolved].strategy == "random"


async def test_an_override_is_replaced_whole_and_removed(live: Running, key_id: str) -> None:
    first = await put(live, candidates=[candidate(ONE, excluded=True)])
    second = await put(live, strategy="least-used", etag=first.etag)
    assert (len(second.candidates), second.strategy) == (0, "least-used")
    with pytest.raises(ServiceError) as caught:
        await put(live, etag=first.etag)
    assert caught.value.reason is Reason.CONFLICT
    listed = await live.call("OverrideService", "ListOverrides", pb.ListOverridesRequest(api_key_id=key_id))
    assert list(listed.overrides) == [second]
    gone = pb.DeleteOverrideRequest(api_key_id=key_id, channel="auto/fast", etag=second.etag)
    await live.call("OverrideService", "DeleteOverride", gone)
    assert not live.source.snapshot.roster.overrides
    with pytest.raises(ServiceError) as caught:
        await live.call("OverrideService", "DeleteOverride", gone)
    assert caught.value.reason is Reason.NOT_FOUND


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"api_key_id": ""}, "api_key_id"),
        ({"api_key_id": "nobody"}, "api_key_id"),
        ({"channel": "fastt"}, "channel"),
        ({"channel": "coding:fast:pro"}, "channel"),
        ({"candidates": [candidate("gpt-4o")]}, "candidates[0].candidate"),
        ({"candidates": [candidate("openai/gpt-4o@c2")]}, "candidates[0].candidate"),
        ({"candidates": [candidate(ONE), candidate(ONE)]}, "candidates[1].candidate"),
        ({"candidates": [candidate(ONE, multiplier=1.5)]}, "candidates[0].multiplier"),
        ({"candidates": [candidate(ONE, multiplier=float("nan"))]}, "candidates[0].multiplier"),
        ({"order": ["x"]}, "order[0]"),
        ({"strategy": "fusion"}, "strategy"),
        ({"strategy": "quota-share"}, "strategy"),
        ({"strategy": "random", "order": [ONE]}, "strategy"),
    ],
)
async def test_bad_overrides_are_refused(live: Running, key_id: str, fields: dict[str, Any], field: str) -> None:
    with pytest.raises(ServiceError) as caught:
        await put(live, **fields)
    assert (caught.value.reason, caught.value.field) == (Reason.INVALID_FIELD, field)
    assert not live.source.snapshot.roster.overrides


async def test_a_keys_overrides_go_with_it(live: Running, key_id: str) -> None:
    await put(live, strategy="random")
    await live.call("ApiKeyService", "DeleteApiKey", pb.DeleteApiKeyRequest(id=key_id))
    assert not live.source.snapshot.roster.overrides


# Settings


async def change(live: Running, values: dict[str, Any], *mask: str, etag: str = "") -> pb.Settings:
    struct = Struct()
    struct.update(values)
    request = pb.UpdateSettingsRequest(
        settings=pb.Settings(values=struct, etag=etag), update_mask=FieldMask(paths=mask) if mask else None
    )
    answer = await live.call("SettingsService", "UpdateSettings", request)
    return answer.settings  # type: ignore[no-any-return]


async def test_settings_are_in_force_when_the_answer_comes(live: Running) -> None:
    got = (await live.call("SettingsService", "GetSettings", pb.GetSettingsRequest())).settings
    assert (MessageToDict(got.values), got.etag) == ({}, "")
    made = await change(live, {"hidePaidModels": True, "stickyRoundRobinLimit": 4})
    settings = live.source.snapshot.roster.settings
    assert (settings.hide_paid_models, settings.sticky_round_robin_limit) == (True, 4)
    layers = {each.key: each.layer for each in made.effective}
    assert (layers["hidePaidModels"], layers["comboRefMaxDepth"]) == ("settings", "default")
    changed = await change(live, {"hidePaidModels": None}, etag=made.etag)
    assert MessageToDict(changed.values) == {"stickyRoundRobinLimit": 4}
    with pytest.raises(ServiceError) as caught:
        await change(live, {"hidePaidModels": True}, etag=made.etag)
    assert caught.value.reason is Reason.CONFLICT


async def test_a_mask_names_settings(live: Running) -> None:
    await change(live, {"hidePaidModels": True, "comboRefMaxDepth": 5})
    changed = await change(live, {"comboRefMaxDepth": 6, "stickyRoundRobinLimit": 2}, "values.comboRefMaxDepth")
    assert MessageToDict(changed.values) == {"hidePaidModels": True, "comboRefMaxDepth": 6}
    changed = await change(live, {}, "values.hidePaidModels")
    assert MessageToDict(changed.values) == {"comboRefMaxDepth": 6}
    with pytest.raises(ServiceError, match="update_mask"):
        await change(live, {}, "hidePaidModels")


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"hidePaidModel": True}, "values.hidePaidModel"),
        ({"hidePaidModels": "yes"}, "values.hidePaidModels"),
        ({"comboRefMaxDepth": 0}, "values.comboRefMaxDepth"),
        ({"stickyRoundRobinLimit": float("inf")}, "values.stickyRoundRobinLimit"),
        ({"hidePaidModels": True, "connectionAwareExpansion": {}}, "values.connectionAwareExpansion"),
    ],
)
async def test_bad_settings_are_refused_and_nothing_is_stored(
    live: Running, values: dict[str, Any], field: str
) -> None:
    with pytest.raises(ServiceError) as caught:
        await change(live, values)
    assert (caught.value.reason, caught.value.field) == (Reason.INVALID_FIELD, field)
    assert not live.source.snapshot.roster.settings.hide_paid_models


async def test_the_depth_stays_above_what_is_nested(live: Running) -> None:
    for name, inner in (("a", ""), ("b", "a"), ("c", "b")):
        combo = pb.Combo(name=name, strategy="priority")
        if inner:
            combo.steps.add(kind="combo-ref", combo_name=inner)
        else:
            combo.steps.add(model="openai/gpt-4o")
        await live.call("ComboService", "CreateCombo", pb.CreateComboRequest(combo=combo))
    with pytest.raises(ServiceError, match="'c'"):
        await change(live, {"comboRefMaxDepth": 1})
    await change(live, {"comboRefMaxDepth": 2})
