"""ApiKeyService."""

from __future__ import annotations

from decision_service.registry import Registry, api_keys
from decision_service.registry.paging import page_of
from decision_service.registry.registry import get
from decision_service.servicers.registry_desk import Call, Desk
from decision_service.servicers.registry_wire import (
    Readers,
    all_values,
    instant_in,
    instant_out,
    page_in,
    stamp_out,
    values_in,
)
from decision_service.store.records import API_KEYS, ApiKeyRecord
from omniroute.registry.v1 import registry_pb2 as pb
from omniroute.registry.v1 import registry_pb2_grpc

SIMPLE: Readers[pb.ApiKey] = {
    "name": lambda message: message.name,
    "enabled": lambda message: message.enabled if message.HasField("enabled") else True,
    "scopes": lambda message: list(message.scopes),
    "allowed_models": lambda message: list(message.allowed_models),
    "allowed_connections": lambda message: list(message.allowed_connections),
    "expires_at": lambda message: (
        instant_in(message.expires_at, "expires_at") if message.HasField("expires_at") else None
    ),
}
LIMITS: Readers[pb.ApiKey] = {
    "limits.requests_per_minute": lambda message: message.limits.requests_per_minute,
    "limits.tokens_per_minute": lambda message: message.limits.tokens_per_minute,
    "limits.usd_per_day": lambda message: message.limits.usd_per_day,
    "limits.usd_per_month": lambda message: message.limits.usd_per_month,
}
READERS: Readers[pb.ApiKey] = {
    **SIMPLE,
    **LIMITS,
    "limits": lambda message: {path: read(message) for path, read in LIMITS.items()},
}


class ApiKeyServicer(registry_pb2_grpc.ApiKeyServiceServicer):
    """Keys that clients present; a key's text is in one answer only, that of its making."""

    def __init__(self, registry: Registry, desk: Desk) -> None:
        self._registry = registry
        self._desk = desk

    async def ListApiKeys(self, request: pb.ListApiKeysRequest, context: Call) -> pb.ListApiKeysResponse:
        self._desk.admit_admin(context)
        chosen, token = page_of(self._registry.snapshot.stored.of(API_KEYS), page_in(request, "keys"))
        return pb.ListApiKeysResponse(keys=[key_out(each) for each in chosen], next_page_token=token)

    async def GetApiKey(self, request: pb.GetApiKeyRequest, context: Call) -> pb.GetApiKeyResponse:
        self._desk.admit_admin(context)
        record = get(self._registry.snapshot.stored.of(API_KEYS), API_KEYS.kind, (request.id,))
        return pb.GetApiKeyResponse(key=key_out(record))

    async def CreateApiKey(self, request: pb.CreateApiKeyRequest, context: Call) -> pb.CreateApiKeyResponse:
        values = _flat(all_values(request.key, READERS)) | {"id": request.key.id}
        made = await self._desk.administer(context, api_keys.create, self._registry, values)
        return pb.CreateApiKeyResponse(key=key_out(made.record), secret=made.secret)

    async def UpdateApiKey(self, request: pb.UpdateApiKeyRequest, context: Call) -> pb.UpdateApiKeyResponse:
        sent = request.key
        values = _flat(values_in(sent, request.update_mask, READERS))
        record = await self._desk.administer(context, api_keys.update, self._registry, sent.id, sent.etag, values)
        return pb.UpdateApiKeyResponse(key=key_out(record))

    async def DeleteApiKey(self, request: pb.DeleteApiKeyRequest, context: Call) -> pb.DeleteApiKeyResponse:
        await self._desk.administer(context, api_keys.delete, self._registry, request.id, request.etag)
        return pb.DeleteApiKeyResponse()

    async def Authenticate(self, request: pb.AuthenticateRequest, context: Call) -> pb.AuthenticateResponse:
        self._desk.admit_edge(context)
        caller = api_keys.authenticate(self._registry, request.secret)
        key = key_out(caller.record) if caller.record else None
        return pb.AuthenticateResponse(required=caller.required, key=key)


def _flat(values: dict[str, object]) -> dict[str, object]:
    """Limits as the record has them, beside the other fields."""
    limits = values.pop("limits", {})
    assert isinstance(limits, dict)
    return {path.removeprefix("limits."): value for path, value in (values | limits).items()}


def key_out(record: ApiKeyRecord) -> pb.ApiKey:
    return pb.ApiKey(
        id=record.id,
        name=record.name,
        enabled=record.enabled,
        scopes=record.scopes,
        allowed_models=record.allowed_models,
        allowed_connections=record.allowed_connections,
        limits=pb.KeyLimits(
            requests_per_minute=record.requests_per_minute,
            tokens_per_minute=record.tokens_per_minute,
            usd_per_day=record.usd_per_day,
            usd_per_month=record.usd_per_month,
        ),
        expires_at=None if record.expires_at is None else instant_out(record.expires_at),
        prefix=record.prefix,
        **stamp_out(record),
    )
