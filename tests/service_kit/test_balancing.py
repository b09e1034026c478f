"""One channel over several servers: who gets a call, and what becomes of it when its server goes away."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2

from service_kit import addresses
from service_kit.grpc_client import Balancing, open_channel
from service_kit.grpc_server import GrpcServer, start_server
from service_kit.settings import SettingsError
from service_kit.tls import TlsFiles

NAME = "test.Names"
SETTLE_LIMIT_S = 5.0


class Named:
    """What a server does: it says its name, of a slow call once ``goes_on`` is set."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked = 0
        self.goes_on = asyncio.Event()

    async def who(self, _request: bytes, _context: Any) -> bytes:
        return self.name.encode()

    async def slow(self, request: bytes, context: Any) -> None:
        """With b"speak" it says something before it waits."""
        self.asked += 1
        if request == b"speak":
            await context.write(b"...")
        await self.goes_on.wait()
        await context.write(self.name.encode())

    def register(self, server: grpc.aio.Server) -> None:
        who: Any = grpc.unary_unary_rpc_method_handler(self.who)
        slow: Any = grpc.unary_stream_rpc_method_handler(self.slow)
        server.add_registered_method_handlers(NAME, {"Who": who, "Slow": slow})


class Pair:
    """Two servers and a channel over both."""

    def __init__(self, servers: list[GrpcServer], named: list[Named], channel: grpc.aio.Channel) -> None:
        self.servers, self.named = servers, named
        self._who: Any = channel.unary_unary(f"/{NAME}/Who")
        self._slow: Any = channel.unary_stream(f"/{NAME}/Slow")

    async def tally(self, calls: int = 10) -> Counter[str]:
        return Counter([(await self._who(b"", timeout=5)).decode() for _ in range(calls)])

    async def slow(self, request: bytes = b"") -> list[bytes]:
        return [part async for part in self._slow(request, timeout=10)]

    async def until(self, wanted: Callable[[Counter[str]], bool]) -> None:
        async with asyncio.timeout(SETTLE_LIMIT_S):
            while not wanted(await self.tally()):
                await asyncio.sleep(0.02)

    async def asked(self) -> Named:
        """Who of them carries out a slow call."""
        async with asyncio.timeout(SETTLE_LIMIT_S):
            while not (busy := [each for each in self.named if each.asked]):
                await asyncio.sleep(0.01)
        return busy[0]

    async def stop(self, named: Named) -> Named:
        """End that server with what it does; the other one."""
        await self.servers[self.named.index(named)].stop(0)
        return self.named[1 - self.named.index(named)]


@asynccontextmanager
async def pair(balancing: Balancing = Balancing.SPREAD) -> AsyncIterator[Pair]:
    named = [Named("a"), Named("b")]
    servers = [await start_server("127.0.0.1:0", each.register, [NAME]) for each in named]
    address = ", ".join(f"127.0.0.1:{server.port}" for server in servers)
    try:
        async with open_channel(address, balancing=balancing, again=(NAME,)) as channel:
            yield Pair(servers, named, channel)
    finally:
        for server in servers:
            await server.stop(0)


def half(tally: Counter[str]) -> bool:
    return tally == {"a": 5, "b": 5}


async def test_each_gets_its_share() -> None:
    async with pair() as both:
        await both.until(half)


async def test_a_server_that_does_not_serve_gets_nothing() -> None:
    async with pair() as both:
        await both.until(half)
        await both.servers[0].health.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
        await both.until(lambda tally: tally == {"b": 10})
        await both.servers[0].health.set("", health_pb2.HealthCheckResponse.SERVING)
        await both.until(half)


async def test_no_call_fails_while_a_server_stops() -> None:
    async with pair() as both:
        await both.until(half)
        stopping = asyncio.create_task(both.servers[0].stop(5.0))
        began = asyncio.get_running_loop().time()
        while not stopping.done():
            await both.tally(2)
        assert asyncio.get_running_loop().time() - began < 2.0, "who watches its health does not hold it up"
        assert await both.tally() == {"b": 10}


async def test_in_order_the_second_stands_by() -> None:
    async with pair(Balancing.IN_ORDER) as both:
        assert await both.tally() == {"a": 10}
        await both.servers[0].stop(0)
        assert await both.tally() == {"b": 10}


async def test_a_call_of_which_nothing_is_known_goes_to_another_server() -> None:
    async with pair() as both:
        await both.until(half)
        call = asyncio.create_task(both.slow())
        other = await both.stop(await both.asked())
        other.goes_on.set()
        assert await call == [other.name.encode()]


async def test_a_call_that_was_answered_in_part_ends_with_its_server() -> None:
    async with pair() as both:
        await both.until(half)
        call = asyncio.create_task(both.slow(b"speak"))
        serving = await both.asked()
        await asyncio.sleep(0.1)
        other = await both.stop(serving)
        with pytest.raises(grpc.aio.AioRpcError):
            await call
        assert other.asked == 0


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("127.0.0.1:1", "127.0.0.1:1"),
        ("somewhere:1", "somewhere:1"),
        ("dns:///somewhere:1", "dns:///somewhere:1"),
        ("127.0.0.1:1,10.0.0.2:65535", "ipv4:127.0.0.1:1,10.0.0.2:65535"),
        (" 127.0.0.1:1 , 127.0.0.1:2 ,", "ipv4:127.0.0.1:1,127.0.0.1:2"),
        ("[::1]:1,[fe80::2]:2", "ipv6:[::1]:1,[fe80::2]:2"),
    ],
)
def test_addresses(text: str, target: str) -> None:
    assert addresses.is_address(text)
    assert addresses.target(text) == target


@pytest.mark.parametrize(
    "text",
    [
        "a:1,b:2",
        "127.0.0.1:1,b:2",
        "127.0.0.1,127.0.0.2",
        "127.0.0.1:1,[::1]:2",
        "::1:1,::1:2",
        "[127.0.0.1]:1,1.1.1.1:2",
        "127.0.0.1:x,127.0.0.1:2",
        "127.0.0.1:70000,127.0.0.1:2",
        ",",
        "dns:///a:1,dns:///b:1",
    ],
)
def test_no_addresses(text: str) -> None:
    assert not addresses.is_address(text)


async def test_a_list_has_no_name_for_a_certificate() -> None:
    with pytest.raises(SettingsError, match=r"several addresses and TLS: .*; allowed: dns:///"):
        open_channel("127.0.0.1:1,127.0.0.1:2", TlsFiles())
