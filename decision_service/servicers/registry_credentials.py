"""CredentialService: the one way by which a secret leaves the store."""

from __future__ import annotations

from decision_service import credentials
from decision_service.credentials import Credential, OAuth
from decision_service.registry import Registry, connections
from decision_service.registry.oauth import Renewals
from decision_service.servicers.registry_desk import Call, Desk
from decision_service.servicers.registry_wire import instant_out
from decision_service.store.records import ConnectionRecord
from omniroute.registry.v1 import registry_pb2 as pb
from omniroute.registry.v1 import registry_pb2_grpc

MAX_AGE_MS = 60_000


class CredentialServicer(registry_pb2_grpc.CredentialServiceServicer):
    """Secrets, for the executor alone."""

    def __init__(self, registry: Registry, desk: Desk, renewals: Renewals) -> None:
        self._registry = registry
        self._desk = desk
        self._renewals = renewals

    async def Resolve(self, request: pb.ResolveRequest, context: Call) -> pb.ResolveResponse:
        self._desk.admit_executor(context)
        record = connections.find(self._registry, request.connection_id)
        answer = await self._credential(record, refused=request.refresh)
        answer.max_concurrent = record.max_concurrent
        return answer

    async def _credential(self, record: ConnectionRecord, *, refused: bool) -> pb.ResolveResponse:
        if record.credential_kind == "oauth":
            return oauth_out(await self._renewals.current(record.id, refused=refused), self._registry.now())
        return credential_out(await self._desk.run(credentials.opened, record, self._registry.vault))


def credential_out(credential: Credential) -> pb.ResolveResponse:
    if credential.api_key:
        return pb.ResolveResponse(api_key=credential.api_key, max_age_ms=MAX_AGE_MS)
    if credential.reference:
        return pb.ResolveResponse(reference=credential.reference, max_age_ms=MAX_AGE_MS)
    return pb.ResolveResponse(none=pb.NoCredential(), max_age_ms=MAX_AGE_MS)


def oauth_out(oauth: OAuth, now: int) -> pb.ResolveResponse:
    """The access token alone: what renews it stays here."""
    shown = pb.OAuthCredential(access_token=oauth.access_token)
    age = MAX_AGE_MS
    if oauth.expires_at is not None:
        shown.expires_at.CopyFrom(instant_out(oauth.expires_at))
        age = max(0, min(age, oauth.expires_at - now))
    return pb.ResolveResponse(oauth=shown, max_age_ms=age)
