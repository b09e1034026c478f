"""The HTTP request of one attempt. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executor.dialects.frames import Prepared
from executor.model import Call, Target
from executor.transport.port import UpstreamRequest

# Answers come uncompressed: they are small or streamed, and nothing can unpack to more than the limits.
STATIC_HEADERS: Mapping[str, str] = MappingProxyType(
    {"content-type": "application/json", "accept-encoding": "identity", "user-agent": "omniroute"}
)


def request(call: Call, target: Target, prepared: Prepared, secret: str) -> UpstreamRequest:
    """``secret`` goes out as a bearer token; empty: no authorization at all."""
    headers = {**STATIC_HEADERS, "accept": "text/event-stream" if call.stream else "application/json"}
    if secret:
        headers["authorization"] = f"Bearer {secret}"
    if call.request_id:
        headers["x-request-id"] = call.request_id
    if call.traceparent:
        headers["traceparent"] = call.traceparent
    return UpstreamRequest(target.base_url + prepared.path, headers, prepared.body)
