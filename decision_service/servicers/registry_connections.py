"""ConnectionService."""

from __future__ import annotations

from typing import Any

from decision_service.credentials import NO_CREDENTIAL, Credential, OAuth
from decision_service.registry import Registry, connections
from decision_service.registry.paging import page_of
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
from decision_service.store.records import ConnectionRecord
from omniroute.registry.v1 import registry_pb2 as pb
from omniroute.registry.v1 import registry_pb2_grpc
from service_kit.errors import invalid

READERS: Readers[pb.Connection] = {
    "provider": lambda message: message.provider,
    "label": lambda message: message.label,
    "enabled": lambda message: message.enabled if message.HasField("enabled") else True,
    "default_model": lambda message: message.default_model,
    "models": lambda message: list(message.models),
    "base_url": lambda message: message.base_url,
    "account_tier": lambda message: message.account_tier,
    "max_concurrent": lambda message: message.max_concurrent,
    "credential": lambda message: credential_in(message.credential) if message.HasField("credential") else None,
}


class ConnectionServicer(registry_pb2_grpc.ConnectionServiceServicer):
    """Accounts with providers; their credentials are write-only."""

    def __init__(self, registry: Registry, desk: Desk) -> None:
        self._registry = registry
        self._desk = desk

    async def ListConnections(self, request: pb.ListConnectionsRequest, context: Call) -> pb.ListConnectionsResponse:
        self._desk.admit_admin(context)
        page = page_in(request, f"connections/{request.provider}")
        chosen, token = page_of(connections.listed(self._registry, request.provider), page)
        return pb.ListConnectionsResponse(connections=[self._out(each) for each in chosen], next_page_token=token)

    async def GetConnection(self, request: pb.GetConnectionRequest, context: Call) -> pb.GetConnectionResponse:
        self._desk.admit_admin(context)
        return pb.GetConnectionResponse(connection=self._out(connections.find(self._registry, request.id)))

    async def CreateConnection(self, request: pb.CreateConnectionRequest, context: Call) -> pb.CreateConnectionResponse:
        values = all_values(request.connection, READERS) | {"id": request.connection.id}
        record = await self._desk.administer(context, connections.create, self._registry, *_parted(values))
        return pb.CreateConnectionResponse(connection=self._out(record))

    async def UpdateConnection(self, request: pb.UpdateConnectionRequest, context: Call) -> pb.UpdateConnectionResponse:
        sent = request.connection
        parts = _parted(values_in(sent, request.update_mask, READERS))
        record = await self._desk.administer(context, connections.update, self._registry, sent.id, sent.etag, *parts)
        return pb.UpdateConnectionResponse(connection=self._out(record))

    async def DeleteConnection(self, request: pb.DeleteConnectionRequest, context: Call) -> pb.DeleteConnectionResponse:
        await self._desk.administer(context, connections.delete, self._registry, request.id, request.etag)
        return pb.DeleteConnectionResponse()

    def _out(self, record: ConnectionRecord) -> pb.Connection:
        return connection_out(record, usable_now(self._registry, record))


def usable_now(registry: Registry, record: ConnectionRecord) -> bool:
    """A credential is there and has not ended."""
    connection = registry.snapshot.roster.connections.get((record.provider, record.id))
    if connection is None or not connection.usable:
        return False
    return connection.usable_until is None or connection.usable_until > registry.now()


def connection_out(record: ConnectionRecord, usable: bool) -> pb.Connection:
    view = pb.CredentialView(kind=record.credential_kind, reference=record.reference, fingerprint=record.fingerprint)
    view.usable = usable
    if record.expires_at is not None:
        view.expires_at.CopyFrom(instant_out(record.expires_at))
    return pb.Connection(
        id=record.id,
        provider=record.provider,
        label=record.label or record.id,
        enabled=record.enabled,
        default_model=record.default_model,
        models=record.models,
        base_url=record.base_url,
        account_tier=record.account_tier,
        max_concurrent=record.max_concurrent,
        credential_view=view,
        origin=record.origin,
        **stamp_out(record),
    )


def credential_in(message: pb.CredentialInput) -> Credential:
    """Raises INVALID_FIELD when no kind is given."""
    kind = message.WhichOneof("kind")
    if kind is None:
        raise invalid("credential", "no kind", "one of api_key, reference, oauth, none")
    if kind == "oauth":
        return Credential(oauth=oauth_in(message.oauth))
    if kind == "none":
        return NO_CREDENTIAL
    given = message.api_key if kind == "api_key" else message.reference
    if not given:
        raise invalid(f"credential.{kind}", "nothing", "a value")
    return Credential(api_key=given) if kind == "api_key" else Credential(reference=given)


def oauth_in(message: pb.OAuthCredential) -> OAuth:
    ends = instant_in(message.expires_at, "credential.oauth.expires_at") if message.HasField("expires_at") else None
    return OAuth(
        access_token=message.access_token,
        refresh_token=message.refresh_token,
        expires_at=ends,
        token_url=message.token_url,
        client_id=message.client_id,
        client_secret=message.client_secret,
        scope=message.scope,
    )


def _parted(values: dict[str, Any]) -> tuple[dict[str, Any], Credential | None]:
    """A credential goes a way of its own."""
    credential: Credential | None = values.pop("credential", None)
    return values, credential
