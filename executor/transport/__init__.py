"""Ways to reach an upstream, by the name that the setting gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from executor.transport.direct import DirectTransport
from executor.transport.over_httpx import HttpxTransport
from executor.transport.port import Transport, TransportLimits

TRANSPORTS: Mapping[str, Callable[[TransportLimits], Transport]] = MappingProxyType(
    {"aiohttp": DirectTransport, "httpx": HttpxTransport}
)
