"""What travels beside a call: the request id and the trace context, from the one coming in to those going out."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass

REQUEST_ID = "x-request-id"
TRACEPARENT = "traceparent"
TOKEN = "x-omniroute-token"

_REQUEST_ID_SHAPE = re.compile(r"[!-~]{1,128}")
_TRACEPARENT_SHAPE = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class CallContext:
    """Whose work this task does; both texts are empty outside a call."""

    request_id: str = ""
    traceparent: str = ""


CURRENT: ContextVar[CallContext] = ContextVar("omniroute_call", default=CallContext())  # noqa: B039 - frozen


def received(metadata: Iterable[tuple[str, str | bytes]]) -> CallContext:
    """The context of an incoming call: a request id that is missing or malformed is made anew, a bad trace dropped."""
    request_id, traceparent = "", ""
    for key, value in metadata:
        if key == REQUEST_ID and isinstance(value, str) and _REQUEST_ID_SHAPE.fullmatch(value):
            request_id = value
        elif key == TRACEPARENT and isinstance(value, str) and _TRACEPARENT_SHAPE.fullmatch(value):
            traceparent = value
    return CallContext(request_id or secrets.token_hex(8), traceparent)


def metadata(*, token: str = "", request_id: str = "", traceparent: str = "") -> tuple[tuple[str, str], ...]:
    """Metadata for an outgoing call; ids that are not given are those of the current call."""
    call = CURRENT.get()
    pairs = (
        (REQUEST_ID, request_id or call.request_id),
        (TRACEPARENT, traceparent or call.traceparent),
        (TOKEN, token),
    )
    return tuple(pair for pair in pairs if pair[1])
