"""Header values: what comes in as text, what goes out without a chance to forge a header."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from starlette.types import Scope

from edge_gateway.controls import HEADER_OF
from omniroute.decision.v1 import decision_pb2
from omniroute.executor.v1 import executor_pb2

REQUEST_ID = b"x-request-id"

Pairs = list[tuple[bytes, bytes]]

_UNSAFE = re.compile(r"[^ -~]")
_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]{1,64}")
_REQUEST_ID_SHAPE = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
MAX_VALUE = 1024

# Framing belongs to the server, and the rest only this gateway may set.
NOT_PASSED = frozenset(
    {"connection", "content-length", "date", "keep-alive", "server", "set-cookie", "trailer", "transfer-encoding"}
    | {"upgrade", "x-request-id"}
)


def incoming(scope: Scope) -> dict[str, str]:
    """Request headers by lower-case name; of a repeated one the last counts."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def named(incoming: Mapping[str, str], names: Iterable[str]) -> tuple[executor_pb2.Header, ...]:
    """Those of the headers, for the executor."""
    return tuple(executor_pb2.Header(name=name, value=incoming[name]) for name in names if name in incoming)


def safe(value: str) -> bytes:
    """The value with everything but printable ASCII replaced, cut to a length that every client takes."""
    return _UNSAFE.sub("_", value[:MAX_VALUE]).encode()


def well_formed_id(value: str) -> str:
    """The client's own request id, or nothing when it is not fit for logs."""
    return value if _REQUEST_ID_SHAPE.fullmatch(value) else ""


def of_decision(decision: decision_pb2.DecideResponse, ignored_here: Sequence[str], *, degraded: bool) -> Pairs:
    """What is known once the decision is made. ``ignored_here`` are fields that were not even sent to it.

    ``degraded``: it is an earlier one, used again while the decision service is away.
    """
    found = [
        (b"x-omniroute-decision-id", safe(decision.decision_id)),
        (b"x-omniroute-strategy", safe(decision.strategy)),
    ]
    if degraded:
        found.append((b"x-omniroute-degraded", b"true"))
    ignored = dict.fromkeys(HEADER_OF.get(name, name) for name in (*ignored_here, *decision.ignored_controls))
    if ignored:
        found.append((b"x-omniroute-ignored-controls", safe(", ".join(ignored))))
    if decision.opened_filters:
        found.append((b"x-omniroute-opened-filters", safe(", ".join(decision.opened_filters))))
    return found


def of_head(head: executor_pb2.Head) -> Pairs:
    """What is known once somebody answers."""
    named = (
        (b"x-omniroute-provider", head.provider),
        (b"x-omniroute-model", head.model),
        (b"x-omniroute-connection", head.connection_id),
        (b"x-omniroute-attempts", str(head.attempts)),
        (b"x-omniroute-cost-usd", usd(head.cost_usd)),
    )
    return [(name, safe(value)) for name, value in named if value]


def usd(cost: float) -> str:
    """A cost without an exponent and without trailing zeros."""
    return f"{cost:.10f}".rstrip("0").rstrip(".")


def passed_on(headers: Iterable[executor_pb2.Header]) -> Pairs:
    """The executor's headers that may reach the client."""
    return [
        (header.name.encode(), safe(header.value))
        for header in headers
        if _NAME.fullmatch(header.name) and header.name not in NOT_PASSED and not header.name.startswith("x-omniroute-")
    ]


def is_event_stream(headers: Iterable[executor_pb2.Header]) -> bool:
    """Whether the executor announces a stream of events."""
    return any(header.name == "content-type" and header.value.startswith("text/event-stream") for header in headers)
