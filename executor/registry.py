"""The registry's credential service as this process sees it."""

from __future__ import annotations

from dataclasses import replace

import grpc
import grpc.aio
import structlog

from executor.credentials import Away, Resolved, Unusable
from omniroute.registry.v1 import registry_pb2, registry_pb2_grpc
from service_kit import calls
from service_kit.errors import Reason, from_rpc_error

# Refusals that say something of the connection; every other one says that we could not ask.
ABOUT_CONNECTION = frozenset({Reason.NOT_FOUND, Reason.INVALID_FIELD, Reason.CONFLICT})

log = structlog.get_logger()


class GrpcRegistry:
    """``token`` proves the executor's identity; ``timeout_s`` bounds each question."""

    def __init__(self, channel: grpc.aio.Channel, token: str, timeout_s: float) -> None:
        self._stub = registry_pb2_grpc.CredentialServiceStub(channel)
        self._token = token
        self._timeout_s = timeout_s

    async def resolve(self, connection_id: str, *, refresh: bool) -> Resolved:
        request = registry_pb2.ResolveRequest(connection_id=connection_id, refresh=refresh)
        try:
            response = await self._stub.Resolve(
                request, timeout=self._timeout_s, metadata=calls.metadata(token=self._token)
            )
        except grpc.aio.AioRpcError as error:
            refusal = from_rpc_error(error)
            if refusal.reason in ABOUT_CONNECTION or error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                raise Unusable("the connection has no usable credential") from error
            log.warning("credentials cannot be resolved", connection=connection_id, code=error.code().name)
            raise Away("the registry of credentials cannot be reached") from error
        return _resolved(response)


def _resolved(response: registry_pb2.ResolveResponse) -> Resolved:
    return replace(_credential(response), max_concurrent=response.max_concurrent)


def _credential(response: registry_pb2.ResolveResponse) -> Resolved:
    max_age_s = response.max_age_ms / 1000
    match response.WhichOneof("kind"):
        case "api_key":
            return Resolved(secret=response.api_key, max_age_s=max_age_s)
        case "reference":
            return Resolved(reference=response.reference, max_age_s=max_age_s)
        case "oauth":
            return Resolved(secret=response.oauth.access_token, max_age_s=max_age_s)
        case "none":
            return Resolved(max_age_s=max_age_s)
        case _:
            raise Unusable("the connection has no credential")
