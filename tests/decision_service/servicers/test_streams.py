"""DecideStream and WatchDecisions over loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from decision_service.assembly import TICK_S
from omniroute.decision.v1 import decision_pb2 as pb
from tests.decision_service.client import Client, Refusal, outcome

LIMIT_S = 10.0
MOST_WATCHERS = 64


async def streamed(service: Client, *requests: pb.DecideRequest) -> Sequence[pb.DecideStreamResponse]:
    """The answers to requests that are sent all at once."""
    messages = [pb.DecideStreamRequest(request=request) for request in requests]
    return [answer async for answer in service.decisions.DecideStream(iter(messages), timeout=LIMIT_S)]


def asked(model: str, request_id: str, **fields: Any) -> pb.DecideRequest:
    return pb.DecideRequest(model=model, request_id=request_id, **fields)


async def test_answers_come_in_order_with_the_ids_of_their_requests(service: Client) -> None:
    model = await service.add_target("ant")
    ids = [f"r-{number}" for number in range(200)]
    answers = await streamed(service, *(asked(model, request_id) for request_id in ids))
    assert [answer.request_id for answer in answers] == ids
    assert len({answer.response.decision_id for answer in answers}) == 200
    assert len(await service.states("lease")) == 200


async def test_an_error_is_an_answer_and_the_stream_goes_on(service: Client) -> None:
    model = await service.add_target("ant")
    answers = await streamed(
        service,
        asked(model, "r-1"),
        asked("nobody/nothing", "r-2"),
        asked(model, ""),
        asked(model, "r-4", session_id="x" * 257),
        asked("auto", "r-1"),
        asked(model, "r-6"),
    )
    kinds = [answer.WhichOneof("result") for answer in answers]
    assert kinds == ["response", "error", "error", "error", "error", "response"]
    errors = [(answer.request_id, answer.error.reason) for answer in answers if answer.HasField("error")]
    assert errors == [
        ("r-2", "MODEL_NOT_FOUND"),
        ("", "INVALID_FIELD"),
        ("r-4", "INVALID_FIELD"),
        ("r-1", "INVALID_FIELD"),
    ]
    assert answers[1].error.code == grpc.StatusCode.NOT_FOUND.value[0]
    assert "request.request_id" in answers[2].error.message
    assert "session_id" in answers[3].error.message


async def test_an_error_of_a_stream_tells_how_long_to_wait(service: Client) -> None:
    model = await service.add_target("ant")
    await service.attempt(model, "RATE_LIMITED", retry_after_ms=60_000)
    [answer] = await streamed(service, asked(model, "r-1"))
    assert answer.error.code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
    assert 50_000 < answer.error.retry_after_ms <= 60_000


async def test_an_answer_does_not_wait_for_the_next_request(service: Client) -> None:
    model = await service.add_target("ant")
    call = service.decisions.DecideStream(timeout=LIMIT_S)
    for number in range(3):
        await call.write(pb.DecideStreamRequest(request=asked(model, f"r-{number}")))
        answer = await call.read()
        assert isinstance(answer, pb.DecideStreamResponse)
        assert answer.request_id == f"r-{number}"
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF


@asynccontextmanager
async def watching(service: Client, **filters: str) -> AsyncIterator[Any]:
    """A watch that has begun: its first metadata is here."""
    call = service.decisions.WatchDecisions(pb.WatchDecisionsRequest(**filters), timeout=LIMIT_S)
    await call.initial_metadata()
    try:
        yield call
    finally:
        call.cancel()


async def next_record(call: Any) -> pb.DecisionRecord:
    record: pb.DecisionRecord = (await call.read()).record
    return record


async def test_a_watcher_sees_decisions_and_outcomes(service: Client) -> None:
    model = await service.add_target("ant")
    async with watching(service) as call:
        decision = await service.decide(model, api_key_id="k")
        record = await next_record(call)
        assert (record.decision, record.model, record.api_key_id) == (decision, model, "k")
        assert not record.outcomes
        told = outcome(decision, "UPSTREAM_ERROR")
        await service.report(told)
        record = await next_record(call)
        assert record.decision.decision_id == decision.decision_id
        assert list(record.outcomes) == [told]


async def test_a_watcher_sees_refusals_and_machines_that_move(service: Client) -> None:
    model = await service.add_target("ant")
    async with watching(service) as call:
        with pytest.raises(grpc.aio.AioRpcError):
            await service.decide("nobody/knows")
        record = await next_record(call)
        assert (record.error.reason, record.model) == ("MODEL_NOT_FOUND", "nobody/knows")
        await asyncio.sleep(3 * TICK_S)  # the first look of a watch
        decision = await service.decide(model)
        await service.report(outcome(decision, "RATE_LIMITED", retry_after_ms=60_000))
        moved = (await next_record(call)).transition
        while not moved.kind:
            moved = (await next_record(call)).transition
        assert (moved.kind, moved.from_state, moved.to_state, moved.reason) == (
            "cooldown",
            "CLEAR",
            "RESTING",
            "rate_limited",
        )
        assert 0 < moved.until_ms <= 60_000


async def test_a_watcher_sees_what_it_asked_for(service: Client) -> None:
    model = await service.add_target("ant")
    await service.add_combo("mine", [model])
    async with watching(service, combo="mine", api_key_id="k1") as call:
        await service.decide("mine", api_key_id="k2")
        await service.decide(model, api_key_id="k1")
        wanted = await service.decide("mine", api_key_id="k1")
        assert (await next_record(call)).decision == wanted


async def test_watchers_are_limited_and_make_room_when_they_leave(service: Client) -> None:
    async def watch() -> Any:
        call = service.decisions.WatchDecisions(pb.WatchDecisionsRequest(), timeout=LIMIT_S)
        await call.initial_metadata()
        return call

    calls = [await watch() for _ in range(MOST_WATCHERS)]
    with pytest.raises(grpc.aio.AioRpcError) as crowded:
        await (await watch()).read()
    told = Refusal(crowded.value)
    assert (told.code, told.reason) == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
    assert told.retry_after_ms
    calls.pop().cancel()
    await service.add_target("ant")
    async with asyncio.timeout(LIMIT_S):
        while True:
            newcomer = await watch()
            try:
                await service.decide("auto")
                assert await newcomer.read()
                break
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.02)
    for call in [*calls, newcomer]:
        call.cancel()
