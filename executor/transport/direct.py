"""The transport on aiohttp itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import aiohttp
from yarl import URL

from executor.transport.port import FaultKind, TransportFault, TransportLimits, UpstreamRequest
from executor.transport.tls import client_context

READ_BUFFER_BYTES = 64 * 1024
LINGER_S = 0.25
# A kept connection that lay idle too long breaks within a round trip of being used.
IDLE_CLOSE_S = 0.5
KEPT_TRIES = 2

# In order: the first that fits. The texts are ours, because aiohttp's carry addresses.
FAULTS: Mapping[type[Exception], tuple[FaultKind, str]] = MappingProxyType(
    {
        aiohttp.InvalidURL: (FaultKind.CONNECT, "the upstream's address cannot be used"),
        aiohttp.ClientConnectorCertificateError: (FaultKind.TLS, "the upstream's certificate is not trusted"),
        aiohttp.ClientSSLError: (FaultKind.TLS, "no TLS connection to the upstream"),
        aiohttp.ConnectionTimeoutError: (FaultKind.CONNECT, "connecting to the upstream took too long"),
        aiohttp.ClientConnectorError: (FaultKind.CONNECT, "no connection to the upstream"),
        aiohttp.ServerDisconnectedError: (FaultKind.DISCONNECTED, "the upstream closed the connection"),
        aiohttp.ClientPayloadError: (FaultKind.DISCONNECTED, "the upstream broke off its answer"),
        aiohttp.ClientOSError: (FaultKind.DISCONNECTED, "the connection to the upstream broke"),
        aiohttp.ClientConnectionError: (FaultKind.DISCONNECTED, "the connection to the upstream broke"),
        aiohttp.ClientError: (FaultKind.PROTOCOL, "the upstream does not speak HTTP as it should"),
        ConnectionError: (FaultKind.DISCONNECTED, "the connection to the upstream broke"),
        ValueError: (FaultKind.CONNECT, "the upstream's address cannot be used"),
    }
)


@dataclass(slots=True)
class Call:
    """What the session tells of one call: when it ``began``, and whether it went over a connection kept from before."""

    began: float
    over_kept: bool = False


class DirectTransport:
    """Made inside a running loop."""

    def __init__(self, limits: TransportLimits) -> None:
        self._session = open_session(limits)
        self._proxy = limits.proxy or None
        self._lingering: set[asyncio.Task[None]] = set()

    async def send(self, request: UpstreamRequest) -> DirectResponse:
        with _faults():
            return DirectResponse(await self._post(_url(request.url), request), self)

    async def _post(self, url: URL, request: UpstreamRequest) -> aiohttp.ClientResponse:
        """A kept connection that breaks at once without a byte was closed while it lay idle: another one is taken."""
        for _ in range(KEPT_TRIES):
            call = Call(asyncio.get_running_loop().time())
            try:
                return await self._once(url, request, call)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionError):
                if not call.over_kept or asyncio.get_running_loop().time() - call.began > IDLE_CLOSE_S:
                    raise
        return await self._once(url, request, Call(0.0))

    async def _once(self, url: URL, request: UpstreamRequest, call: Call) -> aiohttp.ClientResponse:
        return await self._session.post(
            url,
            data=request.body,
            headers=request.headers,
            allow_redirects=False,
            proxy=self._proxy,
            trace_request_ctx=call,
        )

    def linger(self, response: aiohttp.ClientResponse) -> None:
        task = asyncio.get_running_loop().create_task(_drained(response))
        self._lingering.add(task)
        task.add_done_callback(self._lingering.discard)

    async def close(self) -> None:
        for task in self._lingering:
            task.cancel()
        await self._session.close()


class DirectResponse:
    def __init__(self, response: aiohttp.ClientResponse, transport: DirectTransport) -> None:
        self._response = response
        self._transport = transport
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        with _faults():
            return await self._response.content.readany()

    def finish(self) -> None:
        # The end of the body often comes a moment after the last event; without it the connection cannot be kept.
        if not self._response.content.at_eof():
            self._transport.linger(self._response)

    async def close(self) -> None:
        self._response.close()


def open_session(limits: TransportLimits) -> aiohttp.ClientSession:
    """A session with every limit set; calls are counted before they come here, so the connector does not."""
    connector = aiohttp.TCPConnector(
        limit=0, keepalive_timeout=limits.keepalive_s, ssl=client_context(limits), ttl_dns_cache=30
    )
    trace = aiohttp.TraceConfig()
    trace.on_connection_reuseconn.append(_over_kept)
    return aiohttp.ClientSession(
        connector=connector,
        trace_configs=[trace],
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(connect=limits.connect_timeout_s),
        trust_env=False,
        read_bufsize=READ_BUFFER_BYTES,
        max_line_size=limits.max_header_bytes,
        max_field_size=limits.max_header_bytes,
    )


async def _over_kept(_session: aiohttp.ClientSession, context: Any, _params: object) -> None:
    if isinstance(context.trace_request_ctx, Call):
        context.trace_request_ctx.over_kept = True


async def _drained(response: aiohttp.ClientResponse) -> None:
    with suppress(TimeoutError, aiohttp.ClientError, ConnectionError):
        async with asyncio.timeout(LINGER_S):
            await response.content.readany()
    if not response.content.at_eof():
        response.close()


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, ConnectionError, ValueError) as error:
        raise fault_of(error) from error


def fault_of(error: Exception) -> TransportFault:
    kind, text = next(fault for cls, fault in FAULTS.items() if isinstance(error, cls))
    return TransportFault(kind, text)


@lru_cache(maxsize=1024)
def _url(text: str) -> URL:
    return URL(text)
