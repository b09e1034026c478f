"""Both transports by the same tests: what the port promises."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from executor.transport import TRANSPORTS
from executor.transport.port import FaultKind, Transport, TransportFault, TransportLimits, UpstreamRequest
from tests.executor.certificate import certificate
from tests.executor.upstream import (
    Connection,
    Received,
    Script,
    Upstream,
    answer,
    close_at_once,
    completion,
    hang,
    head,
    stream,
)

GOOD = answer(200, completion())
Open = Callable[..., Awaitable[Transport]]


@pytest.fixture(params=sorted(TRANSPORTS))
async def transport(request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    """Opens transports of one kind; keyword arguments are limits."""
    opened: list[Transport] = []

    async def open_one(**limits: Any) -> Transport:
        opened.append(TRANSPORTS[request.param](TransportLimits(**limits)))
        return opened[-1]

    yield open_one
    for one in opened:
        await one.close()


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Awaitable[Upstream]]]:
    upstreams: list[Upstream] = []

    async def start(*scripts: Script, tls: ssl.SSLContext | None = None) -> Upstream:
        upstream = Upstream(*scripts)
        upstream.tls = tls
        upstreams.append(upstream)
        return await upstream.start()

    yield start
    for upstream in upstreams:
        await upstream.stop()


def post(upstream: Upstream | str, body: bytes = b"{}") -> UpstreamRequest:
    url = upstream if isinstance(upstream, str) else f"{upstream.url}/chat/completions"
    return UpstreamRequest(url, {"content-type": "application/json"}, body)


async def whole(transport: Transport, upstream: Upstream) -> bytes:
    response = await transport.send(post(upstream))
    body = b""
    while data := await response.read():
        body += data
    response.finish()
    return body


async def test_status_headers_and_bytes(transport: Open, serve: Any) -> None:
    upstream = await serve(answer(418, b"short and stout", {"X-Odd": "1"}))
    response = await (await transport()).send(post(upstream))
    assert (response.status, response.headers["x-odd"]) == (418, "1")
    assert await response.read() == b"short and stout"
    assert await response.read() == b""
    response.finish()


async def test_redirects_are_not_followed_and_cookies_not_kept(transport: Open, serve: Any) -> None:
    upstream = await serve(answer(302, b"", {"location": "/v1/elsewhere", "set-cookie": "a=b"}), GOOD)
    client = await transport()
    assert await whole(client, upstream) == b""
    await whole(client, upstream)
    assert [received.path for received in upstream.requests] == ["/v1/chat/completions"] * 2
    assert all("cookie" not in received.headers for received in upstream.requests)


async def test_proxies_of_the_environment_are_not_used(
    transport: Open, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert await whole(await transport(), await serve(GOOD))


async def test_a_proxy_that_is_set_is_used(transport: Open, serve: Any) -> None:
    proxy = await serve(GOOD)
    client = await transport(proxy=f"http://127.0.0.1:{proxy.port}")
    response = await client.send(post("http://upstream.invalid/v1/chat/completions"))
    await response.close()
    assert proxy.requests[0].path == "http://upstream.invalid/v1/chat/completions"


async def test_connections_are_used_again_after_plain_answers_and_streams(transport: Open, serve: Any) -> None:
    upstream = await serve(GOOD, stream(b"data: x\n\n"), GOOD)
    client = await transport()
    for _ in range(4):
        await whole(client, upstream)
    assert len(upstream.connections) == 1


async def test_a_closed_answer_drops_its_connection_at_once(transport: Open, serve: Any) -> None:
    upstream = await serve(stream(b"data: x\n\n", end="hang"))
    response = await (await transport()).send(post(upstream))
    assert await response.read()
    await response.close()
    await asyncio.wait_for(upstream.connections[0].gone.wait(), 1)


async def test_cancelling_a_call_drops_its_connection_at_once(transport: Open, serve: Any) -> None:
    upstream = await serve(hang)
    client = await transport()
    call = asyncio.ensure_future(client.send(post(upstream)))
    while not upstream.requests:
        await asyncio.sleep(0.01)
    call.cancel()
    await asyncio.wait_for(upstream.connections[0].gone.wait(), 1)


async def half_a_body(_received: Received, connection: Connection) -> None:
    await connection.send(head(200, {"content-length": "9"}) + b"1234")
    connection.cut()
    raise ConnectionResetError


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (close_at_once, FaultKind.DISCONNECTED),
        (half_a_body, FaultKind.DISCONNECTED),
        (answer(200, b"x", {"x-long": "h" * 100_000}), FaultKind.PROTOCOL),
    ],
    ids=["close", "half a body", "huge header"],
)
async def test_faults(transport: Open, serve: Any, script: Script, kind: FaultKind) -> None:
    with pytest.raises(TransportFault) as raised:
        await whole(await transport(), await serve(script))
    assert raised.value.kind is kind
    assert "127.0.0.1" not in str(raised.value)


NOWHERE = [
    "http://127.0.0.1:9/v1",
    "http://a b/v1",
    "http://a..b/v1",
    "http://${HOST}.example/v1",
    f"http://{'a' * 70}.example/v1",
    "http://127.0.0.1:99999/v1",
]


@pytest.mark.parametrize("url", NOWHERE)
async def test_addresses_that_lead_nowhere(transport: Open, url: str) -> None:
    client = await transport()
    for _ in range(2):
        with pytest.raises(TransportFault) as raised:
            await client.send(post(url))
        assert raised.value.kind is FaultKind.CONNECT


async def test_certificates_are_verified(transport: Open, serve: Any, tmp_path: Path) -> None:
    context, ca_file = certificate(tmp_path)
    upstream = await serve(GOOD, tls=context)
    with pytest.raises(TransportFault) as raised:
        await whole(await transport(), upstream)
    assert raised.value.kind in (FaultKind.TLS, FaultKind.CONNECT)
    assert await whole(await transport(ca_file=ca_file), upstream)


async def test_a_connection_that_was_closed_while_it_lay_idle_fails_no_call() -> None:
    """A server that serves one request a connection, without saying so, and closes at the next one."""
    served: list[int] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(0)
        place = len(served) - 1
        while head_of := await reader.readuntil(b"\r\n\r\n"):
            if served[place]:
                break
            served[place] += 1
            await reader.readexactly(int(head_of.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    one = TRANSPORTS["aiohttp"](TransportLimits())
    try:
        for _ in range(5):
            response = await one.send(UpstreamRequest(url, {"content-type": "application/json"}, b"{}"))
            assert response.status == 200
            assert await response.read() == b"{}"
            assert await response.read() == b""
            response.finish()
    finally:
        await one.close()
        server.close()
    assert served == [1] * 5
