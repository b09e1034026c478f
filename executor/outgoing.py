"""The HTTP request of one attempt. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from executor.dialects.frames import Prepared
from executor.model import Call, Target
from executor.transport.port import UpstreamRequest

# Answers come uncompressed: they are small or streamed, and nothing can unpack to more than the limits.
STATIC_HEADERS: Mapping[str, str] = MappingProxyType(
    {"content-type": "application/json", "accept-encoding": "identity", "user-agent": "omniroute"}
)
ANTHROPIC_VERSION = "2023-06-01"
ANTHROPIC_TOKEN, ANTHROPIC_TOKEN_BETA = "sk-ant-oat", "oauth-2025-04-20"
GOOGLE_TOKEN = "ya29."
LISTS = frozenset({"anthropic-beta"})  # headers whose values add up


def request(call: Call, target: Target, prepared: Prepared, secret: str) -> UpstreamRequest:
    """``secret`` goes out as the target's dialect wants it; empty: no authorization at all."""
    headers = {**STATIC_HEADERS, "accept": "text/event-stream" if call.stream else "application/json"}
    headers |= AUTHORIZATIONS.get(target.dialect, _bearer)(secret)
    if call.own_body(target.dialect) is not None:
        _add(headers, call.headers)
    if call.request_id:
        headers["x-request-id"] = call.request_id
    if call.traceparent:
        headers["traceparent"] = call.traceparent
    return UpstreamRequest(target.base_url + prepared.path, headers, prepared.body)


def _add(headers: dict[str, str], given: tuple[tuple[str, str], ...]) -> None:
    """The client's own headers go before ours."""
    for name, value in given:
        both = name in LISTS and name in headers
        headers[name] = f"{headers[name]},{value}" if both else value


def _bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"} if secret else {}


def _anthropic(secret: str) -> dict[str, str]:
    version = {"anthropic-version": ANTHROPIC_VERSION}
    if secret.startswith(ANTHROPIC_TOKEN):
        return version | _bearer(secret) | {"anthropic-beta": ANTHROPIC_TOKEN_BETA}
    return version | ({"x-api-key": secret} if secret else {})


def _google(secret: str) -> dict[str, str]:
    if secret.startswith(GOOGLE_TOKEN):
        return _bearer(secret)
    return {"x-goog-api-key": secret} if secret else {}


AUTHORIZATIONS: Mapping[str, Callable[[str], dict[str, str]]] = MappingProxyType(
    {"openai": _bearer, "anthropic": _anthropic, "gemini": _google}
)
