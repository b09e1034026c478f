"""Clients that hang up, and the process that ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import pytest

from service_kit.metrics import REGISTRY
from tests.executor.conftest import Answer, Build, House, target
from tests.executor.upstream import DONE, GOOD_STREAM, Connection, Received, Upstream, delta, event, hang, head, stream

LIMIT_S = 0.1


async def cancelled_at(call: Any) -> float:
    call.cancel()
    return asyncio.get_running_loop().time()


async def until_requested(upstream: Upstream) -> None:
    async with asyncio.timeout(5):
        while not upstream.requests:
            await asyncio.sleep(0.005)


async def endless(_received: Received, connection: Connection) -> None:
    await connection.send(head(200, {"content-type": "text/event-stream"}))
    while not connection.gone.is_set():
        await connection.send(event(delta("word ")))
        await asyncio.sleep(0.002)


async def flooded(connection: Connection) -> AsyncIterator[int]:
    """Sends as fast as the client takes it; yields the bytes of each piece."""
    piece = event(delta("x" * 10_000))
    await connection.send(head(200, {"content-type": "text/event-stream"}))
    while not connection.gone.is_set():
        await connection.send(piece)
        yield len(piece)


async def flood(_received: Received, connection: Connection) -> None:
    async for _ in flooded(connection):
        pass


def attempts(provider: str, outcome_class: str) -> float:
    labels = {"provider": provider, "outcome_class": outcome_class}
    return REGISTRY.get_sample_value("omniroute_executor_attempts_total", labels) or 0.0


def in_flight() -> float:
    return REGISTRY.get_sample_value("omniroute_executor_in_flight") or 0.0


@pytest.mark.parametrize("body", [{}, {"stream": True}], ids=["plain", "stream"])
async def test_hanging_up_before_an_answer_closes_the_upstream_at_once(house: House, body: dict[str, Any]) -> None:
    upstream, spare = await house.upstream(hang), await house.upstream(hang)
    before = attempts("p-t0", "CLIENT_CANCELLED")
    call = house.call([target(upstream), target(spare, "t1")], body=body)
    await until_requested(upstream)
    left_at = await cancelled_at(call)
    await asyncio.wait_for(upstream.connections[0].gone.wait(), 2)
    assert upstream.connections[0].gone_at - left_at < LIMIT_S
    assert spare.requests == []
    assert attempts("p-t0", "CLIENT_CANCELLED") == before + 1


async def test_hanging_up_in_mid_stream_closes_the_upstream_at_once(house: House) -> None:
    upstream = await house.upstream(endless)
    call = house.call([target(upstream)], body={"stream": True})
    seen = 0
    async for received in call:
        seen += received.HasField("chunk")
        if seen == 5:
            left_at = await cancelled_at(call)
            break
    await asyncio.wait_for(upstream.connections[0].gone.wait(), 2)
    assert upstream.connections[0].gone_at - left_at < LIMIT_S


async def test_a_client_that_reads_nothing_is_hung_up_on_too(house: House) -> None:
    """The executor then waits in its own write, not for the upstream."""
    sent = 0

    async def counted(_received: Received, connection: Connection) -> None:
        nonlocal sent
        async for size in flooded(connection):
            sent += size

    upstream = await house.upstream(counted)
    call = house.call([target(upstream)], body={"stream": True})
    await call.read()
    before = -1
    async with asyncio.timeout(10):
        while sent != before:
            before = sent
            await asyncio.sleep(0.4)
    assert sent < 16 * 2**20, "a client that does not read holds the upstream back"
    left_at = await cancelled_at(call)
    await asyncio.wait_for(upstream.connections[0].gone.wait(), 2)
    assert upstream.connections[0].gone_at - left_at < LIMIT_S


async def test_a_client_that_stops_reading_is_left_after_the_deadline(house: House) -> None:
    upstream = await house.upstream(flood)
    call = house.call([target(upstream)], body={"stream": True}, deadline_ms=500)
    await call.read()
    await asyncio.wait_for(upstream.connections[0].gone.wait(), 5)
    while in_flight():
        await asyncio.sleep(0.05)
    call.cancel()


async def test_hanging_up_while_waiting_to_retry_ends_the_walk(house: House) -> None:
    async def limited(_received: Received, connection: Connection) -> None:
        await connection.send(head(429, {"retry-after": "1", "content-length": "0"}))

    upstream = await house.upstream(limited)
    call = house.call([target(upstream)])
    outcome = (await call.read()).outcome
    assert (outcome.next_target_id, outcome.final) == ("t0", False), "the attempt that the caller is to report"
    call.cancel()
    await asyncio.sleep(1.2)
    assert len(upstream.requests) == 1


@pytest.mark.parametrize(
    "rounds", [10, pytest.param(1_000, marks=[pytest.mark.full, pytest.mark.timeout(300)])], ids=["few", "many"]
)
async def test_hang_ups_leave_nothing_behind(house: House, rounds: int) -> None:
    upstream = await house.upstream(endless)
    tasks = len(asyncio.all_tasks())

    async def abort() -> None:
        call = house.call([target(upstream)], body={"stream": True})
        async for received in call:
            if received.HasField("chunk"):
                call.cancel()
                return

    for _ in range(rounds):
        await asyncio.gather(*(abort() for _ in range(10)))
    async with asyncio.timeout(5):
        while in_flight() or not all(connection.gone.is_set() for connection in upstream.connections):
            await asyncio.sleep(0.01)
    assert len(upstream.requests) == 10 * rounds
    await asyncio.sleep(0.1)
    assert len(asyncio.all_tasks()) <= tasks + 5


async def test_a_client_that_leaves_at_done_was_served(house: House) -> None:
    upstream = await house.upstream(stream(*GOOD_STREAM, end="hang"))
    call = house.call([target(upstream)], body={"stream": True})
    got = Answer()
    async for received in call:
        got.events.append(received)
        if received.chunk.data.endswith(DONE):
            call.cancel()
            break
    assert got.classes == ["SUCCESS"]


async def test_an_open_stream_may_end_within_the_grace(build: Build) -> None:
    house = await build(executor_grace_s=5.0)
    pieces = [event(delta(str(n))) for n in range(10)]
    upstream = await house.upstream(stream(*pieces, event(delta(finish="stop")), DONE, pause_s=0.05))
    call = house.call([target(upstream)], body={"stream": True})
    got = Answer()
    async for received in call:
        got.events.append(received)
        house.stop.set()
    assert (got.classes, got.data.endswith(DONE)) == (["SUCCESS"], True)


async def test_new_executions_are_refused_while_stopping(build: Build) -> None:
    house = await build(executor_grace_s=1.0)
    upstream = await house.upstream(endless)
    call = house.call([target(upstream)], body={"stream": True})
    await call.read()
    house.stop.set()
    await asyncio.sleep(0.1)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await house.execute([target(upstream)])
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    call.cancel()


@pytest.mark.parametrize("committed", [True, False])
async def test_the_end_of_the_grace_ends_streams_in_order(build: Build, committed: bool) -> None:
    house = await build(executor_grace_s=0.3)
    upstream, spare = await house.upstream(endless if committed else hang), await house.upstream(hang)
    call = house.call([target(upstream), target(spare, "t1")], body={"stream": True})
    await until_requested(upstream)
    await asyncio.sleep(0.1)
    house.stop.set()
    got = Answer()
    async for received in call:
        got.events.append(received)
    assert (got.classes, got.kinds[-1], spare.requests) == (["LOCAL_CANCELLED"], "done", [])
    assert got.outcomes[0].final
    assert "error" in (got.payloads[-1] if committed else got.json)
    assert got.head.status == (200 if committed else 503)


async def test_more_executions_than_the_limit_are_refused(build: Build) -> None:
    house = await build(executor_max_executions=1, executor_grace_s=0.2)
    upstream = await house.upstream(endless)
    call = house.call([target(upstream)], body={"stream": True})
    await call.read()
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await house.execute([target(upstream)])
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    call.cancel()
