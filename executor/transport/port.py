"""The one narrow port to upstreams: a request goes out, a status, headers and a stream of bytes come back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class FaultKind(StrEnum):
    """What went wrong below HTTP."""

    CONNECT = "connect"
    TLS = "tls"
    DISCONNECTED = "disconnected"
    PROTOCOL = "protocol"


class TransportFault(Exception):
    """The only exception of a transport. Its text is ours: it holds no header, body or address."""

    def __init__(self, kind: FaultKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """Seconds and bytes. ``ca_file`` adds trusted roots; ``proxy`` is a URL or empty."""

    connect_timeout_s: float = 10.0
    keepalive_s: float = 15.0
    max_header_bytes: int = 16_384
    ca_file: str = ""
    proxy: str = ""


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """One POST. Header names are in lower case."""

    url: str
    headers: Mapping[str, str]
    body: bytes


class UpstreamResponse(Protocol):
    """An answer whose head has arrived. Exactly one of ``finish`` and ``close`` ends it."""

    status: int
    headers: Mapping[str, str]  # looked up in lower case

    async def read(self) -> bytes:
        """What has arrived, at least one byte; empty at the end of the body. Raises TransportFault."""

    def finish(self) -> None:
        """Nothing more is wanted of a whole answer: the connection may serve the next call."""

    async def close(self) -> None:
        """Drops the connection at once, whatever is still to come."""


class Transport(Protocol):
    """Redirects are not followed, cookies not kept, proxies of the environment not used, certificates verified."""

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        """Raises TransportFault. Cancelling it drops the connection."""

    async def close(self) -> None:
        """Drops every connection."""
