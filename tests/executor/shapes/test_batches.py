"""Events that travel together, for a caller who reads that: what, and above all what does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from omniroute.decision.v1 import decision_pb2
from omniroute.executor.v1.executor_pb2 import ExecuteResponse
from tests.executor.conftest import Answer, House, target
from tests.executor.shapes.plans import (
    STREAMED,
    agentic,
    asking,
    fanout,
    fusion,
    pipeline,
    run,
    says,
    says_what,
    single,
)
from tests.executor.upstream import DONE, answer, delta, error_body, event, hang, stream

Kinds = list[list[str]]


def kinds_of(response: ExecuteResponse) -> list[str]:
    events = response.batch.events if response.HasField("batch") else [response]
    return [str(event.WhichOneof("event")) for event in events]


async def batches(house: House, plan: decision_pb2.Plan, body: dict[str, Any]) -> tuple[Kinds, Answer]:
    """The kinds of events by message, and all events."""
    responses = [response async for response in house.stub.Execute(asking(plan, body, batches=True), timeout=20)]
    events = [one for response in responses for one in (response.batch.events or [response])]
    return [kinds_of(response) for response in responses], Answer(list(events))


async def test_a_plain_answer_is_one_message(house: House) -> None:
    kinds, got = await batches(house, single(target(await house.upstream(says("hi")), "1")), {})
    assert kinds == [["outcome", "head", "chunk", "done"]]
    assert says_what(got) == "hi"


async def test_a_refusal_is_one_message(house: House) -> None:
    kinds, got = await batches(house, single(target(await house.upstream(answer(401, error_body())), "1")), {})
    assert kinds == [["outcome", "head", "chunk", "done"]]
    assert got.classes == ["AUTH_FAILED"]


async def test_a_stream_begins_with_its_head_and_ends_with_the_outcome(house: House) -> None:
    pieces = [event(delta("a")), event(delta("b")), event(delta(finish="stop")) + DONE]
    up = await house.upstream(stream(*pieces, pause_s=0.05))
    kinds, got = await batches(house, single(target(up, "1")), STREAMED)
    assert kinds == [["head", "chunk"], ["chunk"], ["outcome", "chunk", "done"]]
    assert got.text == "ab"


async def test_a_stream_that_comes_at_once_is_two_messages(house: House) -> None:
    up = await house.upstream(stream(event(delta("a")) + event(delta(finish="stop")) + DONE))
    kinds, got = await batches(house, single(target(up, "1")), STREAMED)
    assert kinds == [["head", "outcome", "chunk", "done"]]
    assert got.text == "a"


async def test_an_outcome_goes_out_while_its_fallback_is_still_at_work(house: House) -> None:
    broken, late = await house.upstream(answer(500, error_body())), await house.upstream(hang)
    call = house.stub.Execute(asking(single(target(broken, "1"), target(late, "2")), {}, batches=True), timeout=20)
    first = await asyncio.wait_for(call.read(), 2)
    assert isinstance(first, ExecuteResponse)
    assert (kinds_of(first), first.outcome.next_target_id) == (["outcome"], "2")
    call.cancel()


async def test_the_end_of_an_answer_does_not_wait_for_a_summary(house: House) -> None:
    up, summing = await house.upstream(says("hello")), await house.upstream(hang)
    plan = single(target(up, "1"))
    plan.hand_off.CopyFrom(decision_pb2.HandOff(summarize=True, summarizer=target(summing, "summary")))
    call = house.stub.Execute(asking(plan, {}, batches=True), timeout=20)
    first = await asyncio.wait_for(call.read(), 0.6)
    assert isinstance(first, ExecuteResponse)
    assert kinds_of(first) == ["outcome", "head", "chunk"]
    last = await asyncio.wait_for(call.read(), 5)
    assert isinstance(last, ExecuteResponse)
    assert kinds_of(last) == ["done"]


@pytest.mark.parametrize("mode", [{}, STREAMED], ids=["plain", "stream"])
@pytest.mark.parametrize("shape", ["fusion", "pipeline", "agentic", "fanout"])
async def test_every_shape_says_the_same_either_way(house: House, shape: str, mode: dict[str, Any]) -> None:
    up = await house.upstream(says("hello"))
    one, two, three = (target(up, name) for name in "123")
    plan = {
        "fusion": fusion([one, two], three),
        "pipeline": pipeline(one, two, three),
        "agentic": agentic(one, two, three),
        "fanout": fanout(one, two, three),
    }[shape]
    _, together = await batches(house, plan, mode)
    apart = await run(house, plan, mode)
    assert sorted(set(together.kinds)) == sorted(set(apart.kinds))
    assert together.kinds[-1] == "done"
    assert sorted(says_what(together).split("\n")) == sorted(says_what(apart).split("\n")), "members in any order"
    assert sorted(together.classes) == sorted(apart.classes)
