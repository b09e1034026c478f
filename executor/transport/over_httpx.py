"""The transport on httpx: over aiohttp's connections, or over its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from http.cookiejar import DefaultCookiePolicy
from types import MappingProxyType

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from executor.transport.direct import fault_of, open_session
from executor.transport.port import FaultKind, TransportFault, TransportLimits, UpstreamRequest
from executor.transport.tls import client_context

# In order: the first that fits.
FAULTS: Mapping[type[Exception], tuple[FaultKind, str]] = MappingProxyType(
    {
        httpx.ConnectTimeout: (FaultKind.CONNECT, "connecting to the upstream took too long"),
        httpx.ConnectError: (FaultKind.CONNECT, "no connection to the upstream"),
        httpx.ProxyError: (FaultKind.CONNECT, "no connection through the proxy"),
        httpx.UnsupportedProtocol: (FaultKind.CONNECT, "the upstream's address is neither http nor https"),
        httpx.NetworkError: (FaultKind.DISCONNECTED, "the connection to the upstream broke"),
        httpx.RemoteProtocolError: (FaultKind.DISCONNECTED, "the upstream broke off its answer"),
        httpx.HTTPError: (FaultKind.PROTOCOL, "the upstream does not speak HTTP as it should"),
    }
)


class HttpxTransport:
    """Made inside a running loop. ``inner`` is the httpx transport to use; unset: one over aiohttp."""

    def __init__(self, limits: TransportLimits, inner: httpx.AsyncBaseTransport | None = None) -> None:
        self._client = httpx.AsyncClient(
            transport=inner or _over_aiohttp(limits),
            timeout=httpx.Timeout(None, connect=limits.connect_timeout_s),
            trust_env=False,
            follow_redirects=False,
        )
        self._client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    async def send(self, request: UpstreamRequest) -> HttpxResponse:
        with _faults():
            built = self._client.build_request("POST", request.url, headers=dict(request.headers), content=request.body)
            return HttpxResponse(await self._client.send(built, stream=True))

    async def close(self) -> None:
        await self._client.aclose()


class HttpxResponse:
    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._pieces: AsyncIterator[bytes] = response.aiter_bytes()
        self._closing: asyncio.Task[None] | None = None
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        with _faults():
            async for piece in self._pieces:
                if piece:
                    return piece
        return b""

    def finish(self) -> None:
        self._closing = asyncio.get_running_loop().create_task(self.close())

    async def close(self) -> None:
        await self._response.aclose()


def plain_httpx(limits: TransportLimits) -> HttpxTransport:
    """httpx on its own connection pool."""
    pool = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=limits.keepalive_s)
    inner = httpx.AsyncHTTPTransport(
        verify=client_context(limits), trust_env=False, limits=pool, proxy=limits.proxy or None
    )
    return HttpxTransport(limits, inner)


def _over_aiohttp(limits: TransportLimits) -> AiohttpTransport:
    proxy = httpx.Proxy(limits.proxy) if limits.proxy else None
    return AiohttpTransport(client=open_session(limits), proxy=proxy, trust_env=False)


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except httpx.HTTPError as error:
        # httpx-aiohttp calls every lost connection a ConnectTimeout; what it made that of says more.
        cause = error.__cause__
        raise (fault_of(cause) if isinstance(cause, aiohttp.ClientError) else _fault_of(error)) from error
    except httpx.InvalidURL as error:
        raise TransportFault(FaultKind.CONNECT, "the upstream's address cannot be used") from error
    except (aiohttp.ClientError, ConnectionError, ValueError) as error:
        raise fault_of(error) from error


def _fault_of(error: httpx.HTTPError) -> TransportFault:
    kind, text = next(fault for cls, fault in FAULTS.items() if isinstance(error, cls))
    return TransportFault(kind, text)
