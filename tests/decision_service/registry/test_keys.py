"""ApiKeyService, and who may call what."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp
from sqlalchemy import Engine, text

from omniroute.registry.v1 import registry_pb2 as pb
from service_kit.errors import Reason, ServiceError
from tests.decision_service.conftest import Clock
from tests.decision_service.registry.conftest import ADMIN, EDGE, EXECUTOR, Running, running


async def create(live: Running, **fields: Any) -> pb.CreateApiKeyResponse:
    request = pb.CreateApiKeyRequest(key=pb.ApiKey(**({"name": "test"} | fields)))
    return await live.call("ApiKeyService", "CreateApiKey", request)  # type: ignore[no-any-return]


async def update(live: Running, *mask: str, **fields: Any) -> pb.ApiKey:
    request = pb.UpdateApiKeyRequest(key=pb.ApiKey(**fields), update_mask=FieldMask(paths=mask) if mask else None)
    answer = await live.call("ApiKeyService", "UpdateApiKey", request)
    return answer.key  # type: ignore[no-any-return]


async def authenticate(live: Running, secret: str, token: str = EDGE) -> pb.AuthenticateResponse:
    request = pb.AuthenticateRequest(secret=secret)
    return await live.call("ApiKeyService", "Authenticate", request, token)  # type: ignore[no-any-return]


async def rejected(live: Running, secret: str) -> bool:
    with pytest.raises(ServiceError) as caught:
        await authenticate(live, secret)
    assert caught.value.reason is Reason.UNAUTHENTICATED
    return True


async def test_without_any_key_everybody_is_anonymous(live: Running) -> None:
    for secret in ("", "sk-anything"):
        answer = await authenticate(live, secret)
        assert (answer.required, answer.HasField("key")) == (False, False)


async def test_a_key_is_shown_once_and_known_again(live: Running, store: Engine) -> None:
    limits = pb.KeyLimits(requests_per_minute=10, tokens_per_minute=2**40, usd_per_day=1.5, usd_per_month=20)
    made = await create(live, limits=limits, allowed_models=["openai/*"], allowed_connections=["c1"], scopes=["admin"])
    assert made.secret.startswith("or-")
    assert len(made.secret) >= 35
    assert made.secret.startswith(made.key.prefix)
    assert len(made.key.prefix) <= 10
    answer = await authenticate(live, made.secret)
    assert (answer.required, answer.key) == (True, made.key)
    policy = live.source.snapshot.roster.keys[made.key.id]
    assert (policy.requests_per_minute, policy.tokens_per_minute, policy.usd_per_day) == (10, 2**40, 1.5)
    assert (policy.allowed_models, policy.allowed_connections) == (("openai/*",), frozenset({"c1"}))
    got = await live.call("ApiKeyService", "GetApiKey", pb.GetApiKeyRequest(id=made.key.id))
    assert got.key == made.key
    assert made.secret not in str(got)
    with store.connect() as connection:
        assert made.secret[10:] not in repr(connection.execute(text("SELECT * FROM api_keys")).all())


async def test_keys_that_do_not_open(live: Running, clock: Clock) -> None:
    ends = Timestamp(seconds=int(clock()) + 60)
    made = await create(live, expires_at=ends)
    assert await rejected(live, "")
    assert await rejected(live, "or-" + "x" * 43)
    assert await rejected(live, made.secret + "x")
    assert await rejected(live, "y" * 100_000)
    assert (await authenticate(live, made.secret)).key.expires_at == ends
    clock.now += 60
    assert await rejected(live, made.secret)
    await update(live, "expires_at", id=made.key.id)
    assert not (await authenticate(live, made.secret)).key.HasField("expires_at")
    await update(live, "enabled", id=made.key.id, enabled=False)
    assert await rejected(live, made.secret)
    assert await rejected(live, "")  # switching off the last key does not open the door
    await live.call("ApiKeyService", "DeleteApiKey", pb.DeleteApiKeyRequest(id=made.key.id))
    assert not (await authenticate(live, "")).required


async def test_masks_reach_into_the_limits(live: Running) -> None:
    made = (await create(live, limits=pb.KeyLimits(requests_per_minute=1, usd_per_day=2))).key
    changed = await update(live, "limits.usd_per_day", id=made.id, limits=pb.KeyLimits(usd_per_day=3))
    assert (changed.limits.requests_per_minute, changed.limits.usd_per_day) == (1, 3)
    changed = await update(live, "limits", id=made.id, limits=pb.KeyLimits(usd_per_day=4))
    assert (changed.limits.requests_per_minute, changed.limits.usd_per_day) == (0, 4)
    changed = await update(live, id=made.id, name="whole", etag=changed.etag)
    assert (changed.limits.usd_per_day, changed.name, list(changed.scopes)) == (0, "whole", ["inference"])


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": ""}, "name"),
        ({"scopes": ["root"]}, "scopes[0]"),
        ({"allowed_models": [""]}, "allowed_models[0]"),
        ({"allowed_connections": ["c1", "nobody"]}, "allowed_connections[1]"),
        ({"limits": pb.KeyLimits(usd_per_day=-1)}, "usd_per_day"),
        ({"limits": pb.KeyLimits(usd_per_month=float("nan"))}, "usd_per_month"),
        ({"expires_at": Timestamp(seconds=-5)}, "expires_at"),
        ({"id": "a/b"}, "id"),
    ],
)
async def test_bad_keys_are_refused(live: Running, fields: dict[str, Any], field: str) -> None:
    with pytest.raises(ServiceError) as caught:
        await create(live, **fields)
    assert (caught.value.reason, caught.value.field) == (Reason.INVALID_FIELD, field)
    assert not live.source.snapshot.keys


async def test_a_key_keeps_a_connection_that_has_gone(live: Running) -> None:
    made = (await create(live, allowed_connections=["c1"])).key
    await live.call("ConnectionService", "DeleteConnection", pb.DeleteConnectionRequest(id="c1"))
    changed = await update(live, id=made.id, name="again", allowed_connections=["c1", "c2"])
    assert list(changed.allowed_connections) == ["c1", "c2"]


async def test_keys_in_a_list_show_no_secret(live: Running) -> None:
    secrets = [(await create(live, name=f"k{n}")).secret for n in range(3)]
    listed = await live.call("ApiKeyService", "ListApiKeys", pb.ListApiKeysRequest())
    assert len(listed.keys) == 3
    assert not any(secret in str(listed) for secret in secrets)


# Who may call


@pytest.mark.parametrize("token", ["", EXECUTOR, ADMIN, "edge-token-and-more"])
async def test_only_the_edge_authenticates(live: Running, token: str) -> None:
    with pytest.raises(ServiceError) as caught:
        await authenticate(live, "x", token)
    assert caught.value.reason is Reason.FORBIDDEN


READS = [
    ("ConnectionService", "ListConnections", pb.ListConnectionsRequest()),
    ("ConnectionService", "GetConnection", pb.GetConnectionRequest(id="c1")),
    ("ComboService", "ListCombos", pb.ListCombosRequest()),
    ("ComboService", "GetCombo", pb.GetComboRequest(id="x")),
    ("ModelMappingService", "ListModelMappings", pb.ListModelMappingsRequest()),
    ("ModelMappingService", "GetModelMapping", pb.GetModelMappingRequest(id="x")),
    ("ApiKeyService", "ListApiKeys", pb.ListApiKeysRequest()),
    ("ApiKeyService", "GetApiKey", pb.GetApiKeyRequest(id="x")),
    ("SettingsService", "GetSettings", pb.GetSettingsRequest()),
    ("CatalogService", "ListProviders", pb.ListProvidersRequest()),
    ("CatalogService", "GetProvider", pb.GetProviderRequest(id="x")),
    ("CatalogService", "ListModels", pb.ListModelsRequest()),
    ("CatalogService", "GetModel", pb.GetModelRequest(provider="x", model="y")),
]
WRITES = [
    ("ConnectionService", "CreateConnection", pb.CreateConnectionRequest()),
    ("ConnectionService", "UpdateConnection", pb.UpdateConnectionRequest()),
    ("ConnectionService", "DeleteConnection", pb.DeleteConnectionRequest()),
    ("ComboService", "CreateCombo", pb.CreateComboRequest()),
    ("ComboService", "UpdateCombo", pb.UpdateComboRequest()),
    ("ComboService", "DeleteCombo", pb.DeleteComboRequest()),
    ("ModelMappingService", "CreateModelMapping", pb.CreateModelMappingRequest()),
    ("ModelMappingService", "UpdateModelMapping", pb.UpdateModelMappingRequest()),
    ("ModelMappingService", "DeleteModelMapping", pb.DeleteModelMappingRequest()),
    ("ApiKeyService", "CreateApiKey", pb.CreateApiKeyRequest()),
    ("ApiKeyService", "UpdateApiKey", pb.UpdateApiKeyRequest()),
    ("ApiKeyService", "DeleteApiKey", pb.DeleteApiKeyRequest()),
    ("SettingsService", "UpdateSettings", pb.UpdateSettingsRequest()),
    ("CatalogService", "CreateProvider", pb.CreateProviderRequest()),
    ("CatalogService", "UpdateProvider", pb.UpdateProviderRequest()),
    ("CatalogService", "DeleteProvider", pb.DeleteProviderRequest()),
    ("CatalogService", "UpdateModel", pb.UpdateModelRequest()),
]
EDGE_TOO = [
    ("CatalogService", "ListAdvertisedModels", pb.ListAdvertisedModelsRequest()),
    ("CatalogService", "ListChannels", pb.ListChannelsRequest()),
    ("OverrideService", "ListOverrides", pb.ListOverridesRequest()),
    ("OverrideService", "GetOverride", pb.GetOverrideRequest(channel="fast")),
    ("OverrideService", "UpdateOverride", pb.UpdateOverrideRequest()),
    ("OverrideService", "DeleteOverride", pb.DeleteOverrideRequest(channel="fast")),
]


async def reason_of(live: Running, service: str, method: str, request: Any, token: str) -> Reason | None:
    try:
        await live.call(service, method, request, token)
    except ServiceError as error:
        return error.reason
    return None


async def test_with_an_admin_token_everything_needs_it(store: Engine, clock: Clock) -> None:
    async with running(store, clock, admin=ADMIN) as guarded:
        for service, method, request in READS + WRITES:
            for token in ("", EDGE, EXECUTOR, "admin-toke"):
                assert await reason_of(guarded, service, method, request, token) is Reason.FORBIDDEN, method
            assert await reason_of(guarded, service, method, request, ADMIN) is not Reason.FORBIDDEN, method
        for service, method, request in EDGE_TOO:
            assert await reason_of(guarded, service, method, request, EXECUTOR) is Reason.FORBIDDEN, method
            for token in (ADMIN, EDGE):
                assert await reason_of(guarded, service, method, request, token) is not Reason.FORBIDDEN, method


async def test_empty_requests_are_refused_by_field_and_not_by_accident(live: Running) -> None:
    for service, method, request in WRITES + EDGE_TOO[4:]:
        reason = await reason_of(live, service, method, request, "")
        assert reason in (Reason.INVALID_FIELD, Reason.NOT_FOUND, None), method


async def test_changes_at_once_all_arrive(live: Running) -> None:
    made = await asyncio.gather(*(create(live, name=f"k{n}") for n in range(20)))
    assert {key.key.id for key in made} == set(live.source.snapshot.roster.keys)
    assert live.source.snapshot.revision == live.published[-1].revision


async def test_of_changes_at_once_on_one_version_one_wins(live: Running) -> None:
    made = (await create(live)).key
    tries = [update(live, "name", id=made.id, name=f"n{n}", etag=made.etag) for n in range(8)]
    results = await asyncio.gather(*tries, return_exceptions=True)
    refused = [result for result in results if isinstance(result, ServiceError)]
    assert [error.reason for error in refused] == [Reason.CONFLICT] * 7
