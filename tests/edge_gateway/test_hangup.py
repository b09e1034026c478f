"""Clients that leave early."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
from collections.abc import AsyncIterator

import orjson
import pytest
from starlette.types import Message

from edge_gateway.hangup import ends_at_hangup
from edge_gateway.http_protocol import BoundedProtocol
from edge_gateway.json_body import Hangup
from edge_gateway.relay import TAIL_S
from omniroute.decision.v1 import decision_pb2
from omniroute.executor.v1 import executor_pb2
from tests.edge_gateway import fakes
from tests.edge_gateway.conftest import House, Open, chat
from tests.edge_gateway.fakes import Event, chunk, done, head, outcome, playing, stream_head, text_chunks, then_hang

CANCEL_LIMIT_S = 0.1


def request(body: dict[str, object]) -> bytes:
    data = orjson.dumps(body)
    return b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(data) + data


async def leave_after(house: House, seen: bytes, *, stream: bool = True) -> float:
    """Send a request, close the connection once ``seen`` came; the loop's time at that moment."""
    reader, writer = await house.connect()
    writer.write(request(chat(stream=stream)))
    async with asyncio.timeout(5):
        if seen:
            await reader.readuntil(seen)
        else:
            while not house.executor.running:
                await asyncio.sleep(0.005)
    writer.close()
    return asyncio.get_running_loop().time()


async def test_hang_up_in_a_stream(open_house: Open) -> None:
    house = await open_house(then_hang(stream_head(), *text_chunks(["Hel"])))
    lags = []
    for _ in range(3):
        left = await leave_after(house, b"Hel")
        lags.append(await house.executor.wait_for_cancel() - left)
        house.executor.cancelled_at.clear()
    assert min(lags) < CANCEL_LIMIT_S, "the best of three, for a machine that does other work as well"
    for closing in await house.decision.wait_for_outcomes(3):
        assert closing.outcome_class == decision_pb2.OUTCOME_CLASS_CLIENT_CANCELLED
        assert (closing.decision_id, closing.attempt, closing.target_id, closing.final) == ("d-1", 1, "t1", True)


async def test_hang_up_with_another_request_behind(open_house: Open) -> None:
    """The one that is being answered ends too, as soon as the connection is known to be gone."""
    house = await open_house(_endless)
    reader, writer = await house.connect()
    writer.write(request(chat(stream=True)) * 2)
    async with asyncio.timeout(5):
        await reader.readuntil(b"Hel")
    writer.transport.abort()
    await house.executor.wait_for_cancel()
    [closing] = await house.decision.wait_for_outcomes(1)
    assert closing.outcome_class == decision_pb2.OUTCOME_CLASS_CLIENT_CANCELLED
    assert len(house.decision.asked) == 1


async def _endless(_request: executor_pb2.ExecuteRequest) -> AsyncIterator[Event]:
    yield stream_head()
    while True:
        for event in text_chunks(["Hel"]):
            yield event
        await asyncio.sleep(0.02)


async def test_hang_up_before_the_first_byte(open_house: Open) -> None:
    house = await open_house(then_hang())
    await leave_after(house, b"", stream=False)
    await house.executor.wait_for_cancel()
    [closing] = await house.decision.wait_for_outcomes(1)
    assert closing.outcome_class == decision_pb2.OUTCOME_CLASS_CLIENT_CANCELLED


async def test_hang_up_during_a_fallback(open_house: Open) -> None:
    failed = outcome(1, decision_pb2.OUTCOME_CLASS_UPSTREAM_ERROR, final=False, next_target_id="t2")
    house = await open_house(then_hang(failed, stream_head(), *text_chunks(["Hel"])))
    await leave_after(house, b"Hel")
    first, closing = await house.decision.wait_for_outcomes(2)
    assert (first.attempt, first.final) == (1, False)
    assert (closing.attempt, closing.target_id, closing.final) == (2, "t2", True)


async def test_final_outcome_that_was_seen_counts(open_house: Open) -> None:
    house = await open_house(then_hang(stream_head(), *text_chunks(["Hel"]), outcome()))
    reader, writer = await house.connect()
    writer.write(request(chat(stream=True)))
    async with asyncio.timeout(5):
        await reader.readuntil(b"Hel")
    await house.decision.wait_for_outcomes(1)
    writer.close()
    await house.executor.wait_for_cancel()
    await asyncio.sleep(0.1)
    assert [reported.outcome_class for reported in house.decision.outcomes] == [decision_pb2.OUTCOME_CLASS_SUCCESS]


async def test_hang_up_at_the_end_marker_is_a_success(open_house: Open) -> None:
    async def late(asked: executor_pb2.ExecuteRequest) -> AsyncIterator[Event]:
        for event in (stream_head(), *text_chunks(["Hel"]), fakes.DONE_LINE):
            yield event
        await asyncio.sleep(0.2)
        real = outcome()
        real.outcome.output_tokens = 7
        yield real
        yield done()

    house = await open_house(late)
    await leave_after(house, b"[DONE]")
    [reported] = await house.decision.wait_for_outcomes(1)
    assert (reported.outcome_class, reported.output_tokens) == (decision_pb2.OUTCOME_CLASS_SUCCESS, 7)
    assert not house.executor.cancelled_at


async def test_end_marker_without_an_outcome_is_a_success(open_house: Open) -> None:
    house = await open_house(then_hang(stream_head(), *text_chunks(["Hel"]), fakes.DONE_LINE))
    await leave_after(house, b"[DONE]")
    [reported] = await house.decision.wait_for_outcomes(1)
    assert (reported.outcome_class, reported.final) == (decision_pb2.OUTCOME_CLASS_SUCCESS, True)
    await house.executor.wait_for_cancel(TAIL_S + 2)


async def test_end_marker_inside_the_text_is_no_end(open_house: Open) -> None:
    house = await open_house(then_hang(stream_head(), *text_chunks(["data: [DONE] is how it ends"])))
    await leave_after(house, b"ends")
    await house.executor.wait_for_cancel()
    [closing] = await house.decision.wait_for_outcomes(1)
    assert closing.outcome_class == decision_pb2.OUTCOME_CLASS_CLIENT_CANCELLED


async def test_stream_ends_for_the_client_at_the_marker(open_house: Open) -> None:
    """The client need not wait for what the executor has to tell afterwards."""
    house = await open_house(then_hang(stream_head(), *text_chunks(["Hel"]), fakes.DONE_LINE))
    answer = await house.post(chat(stream=True))
    assert answer.elapsed.total_seconds() < 0.8
    assert answer.content.endswith(b"data: [DONE]\n\n")


async def test_hang_up_while_the_edge_cannot_write(open_house: Open) -> None:
    async def flood(asked: executor_pb2.ExecuteRequest) -> AsyncIterator[Event]:
        yield stream_head()
        while True:
            yield chunk(b"data: " + b"x" * 65_536 + b"\n\n")

    house = await open_house(flood)
    _reader, writer = await house.connect()
    writer.write(request(chat(stream=True)))
    await asyncio.sleep(0.5)
    writer.transport.abort()
    await house.executor.wait_for_cancel()
    [closing] = await house.decision.wait_for_outcomes(1)
    assert closing.outcome_class == decision_pb2.OUTCOME_CLASS_CLIENT_CANCELLED


async def test_client_that_never_reads_is_cut_off(open_house: Open) -> None:
    async def flood(asked: executor_pb2.ExecuteRequest) -> AsyncIterator[Event]:
        yield stream_head()
        while True:
            yield chunk(b"data: " + b"x" * 65_536 + b"\n\n")

    house = await open_house(flood, edge_write_timeout_ms=300)
    _reader, writer = await house.connect()
    writer.write(request(chat(stream=True)))
    await house.executor.wait_for_cancel(limit_s=5)
    [closing] = await house.decision.wait_for_outcomes(1)
    assert closing.outcome_class == decision_pb2.OUTCOME_CLASS_CLIENT_CANCELLED
    writer.close()


async def test_hang_up_in_the_middle_of_a_body(open_house: Open) -> None:
    house = await open_house()
    _reader, writer = await house.connect()
    writer.write(request(chat())[:-10])
    await asyncio.sleep(0.1)
    writer.close()
    await asyncio.sleep(0.1)
    assert not house.decision.asked
    assert (await house.post(chat())).status_code == 200


async def test_hang_up_is_logged_as_499(open_house: Open) -> None:
    house = await open_house(then_hang(stream_head(), *text_chunks(["Hel"])))
    await leave_after(house, b"Hel")
    await house.executor.wait_for_cancel()
    figures = (await house.get("/metrics")).text
    assert 'omniroute_edge_requests_total{route="/v1/chat/completions",status="499"}' in figures


async def test_nothing_is_kept_of_a_connection_that_is_gone(open_house: Open) -> None:
    """Clients that reset it after the answer, where others would keep it for the next request."""
    house = await open_house(fakes.stream_answer())
    for _ in range(5):
        reader, writer = await house.connect()
        writer.write(request(chat(stream=True)))
        async with asyncio.timeout(5):
            await reader.readuntil(b"0\r\n\r\n")
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    async with asyncio.timeout(5):
        while kept_connections():
            await asyncio.sleep(0.05)


async def test_a_hang_up_ends_the_call_and_not_the_task_that_reads_it(open_house: Open) -> None:
    """What gRPC puts aside for a read is not freed where the task that waits for it is cancelled."""
    house = await open_house(then_hang(stream_head()))
    left = asyncio.Event()

    async def receive() -> Message:
        await left.wait()
        return {"type": "http.disconnect"}

    asked = executor_pb2.ExecuteRequest(decision_id="d-1", plan=fakes.plan(1))
    call = house.edge._services.execute(asked, 5.0)
    task = asyncio.current_task()
    assert task is not None

    async def reads() -> None:
        async with ends_at_hangup(receive, call):
            async for _ in call:
                left.set()

    with pytest.raises(Hangup):
        await reads()
    assert (task.cancelling(), call.cancelled()) == (0, True)


def kept_connections() -> int:
    gc.collect()
    return sum(isinstance(each, BoundedProtocol) for each in gc.get_objects())


@pytest.mark.parametrize("stream", [True, False])
async def test_connection_serves_on_after_an_answer(open_house: Open, stream: bool) -> None:
    """The watch for hang-ups leaves the connection usable for the next request."""
    script = fakes.stream_answer() if stream else playing(head(), chunk(fakes.COMPLETION), outcome(), done())
    house = await open_house(script)
    reader, writer = await house.connect()
    for _ in range(3):
        writer.write(request(chat(stream=stream)))
        async with asyncio.timeout(5):
            await reader.readuntil(b"0\r\n\r\n" if stream else fakes.COMPLETION)
    writer.close()
    assert len(house.executor.asked) == 3
    assert {reported.outcome_class for reported in await house.decision.wait_for_outcomes(3)} == {
        decision_pb2.OUTCOME_CLASS_SUCCESS
    }
