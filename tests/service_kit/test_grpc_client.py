"""Channels to servers that are slow to take a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2

from service_kit.grpc_client import open_channel
from service_kit.grpc_server import start_server

BUSY_S = 0.4


@asynccontextmanager
async def slow_door(port: int) -> AsyncIterator[int]:
    """A port that leads to another one, where nothing is read for a while after a connection is taken."""

    async def copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(BUSY_S)
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copied(reader, inner_writer), copied(inner_reader, writer), return_exceptions=True)

    door = await asyncio.start_server(lead, "127.0.0.1", 0)
    try:
        yield door.sockets[0].getsockname()[1]
    finally:
        door.close()


async def check(channel: grpc.aio.Channel) -> health_pb2.HealthCheckResponse:
    method = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )
    answer: health_pb2.HealthCheckResponse = await method(health_pb2.HealthCheckRequest(), timeout=10)
    return answer


async def test_a_busy_server_is_not_taken_for_an_absent_one() -> None:
    server = await start_server("127.0.0.1:0", lambda _server: None, ())
    async with slow_door(server.port) as port:
        channel = open_channel(f"127.0.0.1:{port}")
        try:
            assert (await check(channel)).status == health_pb2.HealthCheckResponse.SERVING
        finally:
            await channel.close()
            await server.stop(0)


async def test_an_absent_server_is_told_at_once() -> None:
    channel = open_channel("127.0.0.1:1")
    began = asyncio.get_running_loop().time()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await check(channel)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert asyncio.get_running_loop().time() - began < 5
    await channel.close()
