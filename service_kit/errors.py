"""The closed list of refusals, and the one table that maps a refusal to gRPC and HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import cast

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

DOMAIN = "omniroute"


class Reason(StrEnum):
    """Why a call was refused; travels as ``google.rpc.ErrorInfo.reason``."""

    INVALID_FIELD = "INVALID_FIELD"
    CAPABILITY_MISMATCH = "CAPABILITY_MISMATCH"
    CONTEXT_LENGTH_EXCEEDED = "CONTEXT_LENGTH_EXCEEDED"
    BUDGET_EXCEEDED = "BUDGET_EXCEEDED"
    KEY_BUDGET_EXCEEDED = "KEY_BUDGET_EXCEEDED"
    MODEL_NOT_FOUND = "MODEL_NOT_FOUND"
    POLICY_EXCLUDES_ALL = "POLICY_EXCLUDES_ALL"
    NO_AVAILABLE_TARGET = "NO_AVAILABLE_TARGET"
    RATE_LIMIT_EXCEEDED = "RATE_LIMIT_EXCEEDED"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    FORBIDDEN = "FORBIDDEN"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    CONFLICT = "CONFLICT"
    UNAVAILABLE = "UNAVAILABLE"
    INTERNAL = "INTERNAL"


STATUS: Mapping[Reason, tuple[grpc.StatusCode, int]] = MappingProxyType(
    {
        Reason.INVALID_FIELD: (grpc.StatusCode.INVALID_ARGUMENT, 400),
        Reason.CAPABILITY_MISMATCH: (grpc.StatusCode.INVALID_ARGUMENT, 400),
        Reason.CONTEXT_LENGTH_EXCEEDED: (grpc.StatusCode.INVALID_ARGUMENT, 400),
        Reason.BUDGET_EXCEEDED: (grpc.StatusCode.FAILED_PRECONDITION, 402),
        Reason.KEY_BUDGET_EXCEEDED: (grpc.StatusCode.FAILED_PRECONDITION, 402),
        Reason.MODEL_NOT_FOUND: (grpc.StatusCode.NOT_FOUND, 404),
        Reason.POLICY_EXCLUDES_ALL: (grpc.StatusCode.PERMISSION_DENIED, 403),
        Reason.NO_AVAILABLE_TARGET: (grpc.StatusCode.UNAVAILABLE, 503),
        Reason.RATE_LIMIT_EXCEEDED: (grpc.StatusCode.RESOURCE_EXHAUSTED, 429),
        Reason.UNAUTHENTICATED: (grpc.StatusCode.UNAUTHENTICATED, 401),
        Reason.FORBIDDEN: (grpc.StatusCode.PERMISSION_DENIED, 403),
        Reason.NOT_FOUND: (grpc.StatusCode.NOT_FOUND, 404),
        Reason.ALREADY_EXISTS: (grpc.StatusCode.ALREADY_EXISTS, 409),
        Reason.CONFLICT: (grpc.StatusCode.ABORTED, 409),
        Reason.UNAVAILABLE: (grpc.StatusCode.UNAVAILABLE, 503),
        Reason.INTERNAL: (grpc.StatusCode.INTERNAL, 500),
    }
)


class ServiceError(Exception):
    """A refusal that a caller can act on.

    ``field`` names the offending field of the request, if one does. ``retry_after_ms`` is the earliest useful retry.
    ``rate_limited`` says that every target was refused by a rate limit: NO_AVAILABLE_TARGET then reads 429, not 503.
    """

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        field: str = "",
        retry_after_ms: int | None = None,
        rate_limited: bool = False,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.field = field
        self.retry_after_ms = retry_after_ms
        self.rate_limited = rate_limited

    @property
    def grpc_code(self) -> grpc.StatusCode:
        if self.rate_limited:
            return grpc.StatusCode.RESOURCE_EXHAUSTED
        return STATUS[self.reason][0]

    @property
    def http_status(self) -> int:
        return 429 if self.rate_limited else STATUS[self.reason][1]


def invalid(field: str, got: str, allowed: str) -> ServiceError:
    """An INVALID_FIELD that names the field, the value's shape and what is allowed."""
    return ServiceError(Reason.INVALID_FIELD, f"{field}: got {got}; allowed: {allowed}", field=field)


def to_status(error: ServiceError) -> grpc.Status:
    """The rich gRPC status of a refusal, ready for ``abort_with_status``."""
    metadata = {"field": error.field} if error.field else {}
    details = [
        _packed(error_details_pb2.ErrorInfo(reason=error.reason.value, domain=DOMAIN, metadata=metadata)),
    ]
    if error.retry_after_ms is not None:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(error.retry_after_ms)
        details.append(_packed(error_details_pb2.RetryInfo(retry_delay=delay)))
    code = code_pb2.Code.Value(error.grpc_code.name)
    return rpc_status.to_status(status_pb2.Status(code=code, message=error.message, details=details))


def from_rpc_error(error: grpc.RpcError) -> ServiceError:
    """The refusal inside a failed call; a call without ErrorInfo reads UNAVAILABLE or INTERNAL by its code."""
    code = error.code()
    try:
        status = rpc_status.from_call(cast(grpc.Call, error))
    except ValueError:
        status = None
    info = error_details_pb2.ErrorInfo()
    retry = error_details_pb2.RetryInfo()
    reason: Reason | None = None
    retry_after_ms: int | None = None
    for detail in status.details if status else ():
        if detail.Is(info.DESCRIPTOR) and detail.Unpack(info) and info.reason in Reason.__members__:
            reason = Reason(info.reason)
        elif detail.Is(retry.DESCRIPTOR) and detail.Unpack(retry):
            retry_after_ms = retry.retry_delay.ToMilliseconds()
    if reason is None:
        lost = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}
        reason = Reason.UNAVAILABLE if code in lost else Reason.INTERNAL
    return ServiceError(
        reason,
        error.details() or code.name,
        field=info.metadata.get("field", ""),
        retry_after_ms=retry_after_ms,
        rate_limited=reason is Reason.NO_AVAILABLE_TARGET and code is grpc.StatusCode.RESOURCE_EXHAUSTED,
    )


def _packed(message: error_details_pb2.ErrorInfo | error_details_pb2.RetryInfo) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed
