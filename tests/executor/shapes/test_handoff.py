"""Hand-offs of context-relay: a summary that goes in front, and one that is made beside the answer."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import orjson
import pytest

from executor import turns
from executor.shapes import handoff
from executor.shapes.handoff import MAX_BYTES, readable
from omniroute.decision.v1 import decision_pb2
from tests.executor.conftest import House, target
from tests.executor.shapes.plans import STREAMED, messages_of, priced, run, says, says_what, single
from tests.executor.upstream import DONE, Connection, Received, Script, answer, completion, error_body, hang

BOTH = pytest.mark.parametrize("mode", [{}, STREAMED], ids=["plain", "stream"])
MADE = '{"summary": "about ants", "decisions": ["many"], "progress": "half", "entities": ["ant"], "mood": "fine"}'
KEPT = {"summary": "about ants", "decisions": ["many"], "progress": "half", "entities": ["ant"]}
HandOff = decision_pb2.HandOff


def relay(*targets: decision_pb2.Target, **hand_off: Any) -> decision_pb2.Plan:
    plan = single(*targets)
    plan.hand_off.CopyFrom(HandOff(**hand_off))
    return plan


def serves_and_sums_up(summary: Script) -> Script:
    """A server that answers "hello" to the client and plays the other script to who asks for a summary."""

    async def play(received: Received, connection: Connection) -> None:
        is_ours = "JSON object" in str(received.body["messages"][-1]["content"])
        await (summary if is_ours else says("hello"))(received, connection)

    return play


async def test_a_summary_goes_in_front(house: House) -> None:
    up = await house.upstream(says("hello"))
    got = await run(house, relay(target(up, "1", prompt="Be brief."), summary='{"summary": "ants"}'))
    own, handed, user = messages_of(up)
    assert own == {"role": "system", "content": "Be brief."}
    assert (handed["role"], '{"summary": "ants"}' in handed["content"]) == ("system", True)
    assert user == {"role": "user", "content": "say hello"}
    assert "hand_off" not in got.kinds


@BOTH
async def test_a_summary_is_made_beside_the_answer(house: House, mode: dict[str, Any]) -> None:
    up = await house.upstream(says("hello"))
    summing = await house.upstream(says(MADE))
    named = priced(summing, "summary", prompt="Never mind.")
    plan = relay(priced(up, "1"), summarize=True, summarizer=named)
    got = await run(house, plan, {**mode, "tools": [], "messages": [{"role": "user", "content": "on ants"}]})
    assert says_what(got) == "hello"
    [event] = [event for event in got.events if event.HasField("hand_off")]
    assert orjson.loads(event.hand_off.summary) == KEPT
    kinds = got.kinds
    assert kinds.index("chunk") < kinds.index("hand_off") < kinds.index("done") == len(kinds) - 1
    own, beside = got.outcomes
    assert (own.decision_id, own.target_id, own.final, own.attempt) == ("d1", "1", True, 1)
    assert (beside.decision_id, beside.target_id, beside.connection_id) == ("d1.summary", "summary", "c-summary")
    assert (beside.final, beside.next_target_id, beside.output_tokens, beside.cost_usd) == (False, "", 5, 15)
    assert (got.done.attempts, got.done.cost_usd) == (1, (120 if mode else 15) + 15)
    [turn] = messages_of(summing)
    assert turn["role"] == "user"
    assert turn["content"].endswith("user: on ants")
    assert set(summing.requests[0].body) == {"model", "messages"}


@BOTH
async def test_who_serves_makes_it_where_nobody_is_named(house: House, mode: dict[str, Any]) -> None:
    up = await house.upstream(serves_and_sums_up(says(MADE)))
    got = await run(house, relay(target(up, "1"), target(up, "2"), summarize=True), mode)
    assert ("hand_off" in got.kinds, len(up.requests)) == (True, 2)
    assert got.outcomes[-1].target_id == "1"


BAD: dict[str, Script] = {
    "500": answer(500, error_body()),
    "429": answer(429, error_body("slow"), {"retry-after": "0.1"}),
    "hang": hang,
    "no JSON": says("It was about ants."),
    "no summary": says('{"progress": "half"}'),
    "broken JSON": says('{"summary": "ants"'),
    "empty": answer(200, completion("")),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_summary_that_fails_is_silent_and_costs_nothing(
    house: House, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handoff, "PATIENCE_S", 0.2 if name == "hang" else 15)
    up = await house.upstream(serves_and_sums_up(BAD[name]))
    started = time.monotonic()
    got = await run(house, relay(target(up, "1"), summarize=True))
    assert (says_what(got), got.classes, got.done.cost_usd) == ("hello", ["SUCCESS"], 0)
    assert "hand_off" not in got.kinds
    assert len(up.requests) == 2
    assert time.monotonic() - started < 5
    if name == "hang":
        await asyncio.wait_for(up.connections[-1].gone.wait(), 1)


async def test_the_end_of_a_stream_does_not_wait_for_it(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handoff, "PATIENCE_S", 10)
    up = await house.upstream(serves_and_sums_up(says(MADE, pause_s=1.0)))
    started = asyncio.get_running_loop().time()
    at: dict[str, float] = {}
    plan = relay(target(up, "1"), summarize=True)
    call = house.call([], plan=plan, body=STREAMED)
    async for event in call:
        if event.chunk.data.endswith(DONE):
            at["done"] = asyncio.get_running_loop().time() - started
        if event.HasField("hand_off"):
            at["hand_off"] = asyncio.get_running_loop().time() - started
    assert at["done"] < 0.9 < 1.0 <= at["hand_off"]


async def test_no_summary_is_waited_for_when_nobody_answered(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handoff, "PATIENCE_S", 15)
    broken, summing = await house.upstream(answer(500, error_body())), await house.upstream(hang)
    started = time.monotonic()
    got = await run(house, relay(target(broken, "1"), summarize=True, summarizer=target(summing, "summary")))
    assert (got.head.status, got.kinds[-1]) == (500, "done")
    assert time.monotonic() - started < 5
    await asyncio.wait_for(summing.connections[0].gone.wait(), 1)


async def test_hanging_up_ends_the_summary_too(house: House) -> None:
    up, summing = await house.upstream(hang), await house.upstream(hang)
    plan = relay(target(up, "1"), summarize=True, summarizer=target(summing, "summary"))
    call = house.call([], plan=plan)
    reading = asyncio.create_task(call.read())
    async with asyncio.timeout(5):
        while not (up.requests and summing.requests):
            await asyncio.sleep(0.005)
    left_at = asyncio.get_running_loop().time()
    call.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    for each in (up, summing):
        await asyncio.wait_for(each.connections[0].gone.wait(), 2)
        assert each.connections[0].gone_at - left_at < 0.5


# What is read of a reply, and of a conversation

REPLIES = {
    MADE: KEPT,
    f"```json\n{MADE}\n```": KEPT,
    f"Here you are: {MADE} Good luck!": KEPT,
    '{"summary": "x"}': {"summary": "x"},
    '{"summary": ""}': None,
    '{"summary": {"deep": 1}}': None,
    "[1]": None,
    "": None,
}


@pytest.mark.parametrize("reply", REPLIES)
def test_a_reply_is_read_for_its_object(reply: str) -> None:
    assert (orjson.loads(readable(reply)) if readable(reply) else None) == REPLIES[reply]


@pytest.mark.parametrize("text", ["x" * 50_000, "\u0000" * 40_000, "\U0001f41c" * 20_000])
@pytest.mark.parametrize("beside", [{}, {"progress": "half", "entities": ["e" * 40_000]}])
def test_a_summary_is_never_too_large(text: str, beside: dict[str, Any]) -> None:
    made = readable(orjson.dumps({"summary": text, **beside}).decode())
    assert 1_000 < len(made.encode()) <= MAX_BYTES


def test_a_transcript_is_the_end_of_a_conversation() -> None:
    messages = [{"role": "user", "content": f"turn {n}"} for n in range(40)]
    assert turns.transcript(messages, 30, 8_000).splitlines()[0] == "user: turn 10"
    told = turns.transcript([{"role": "user", "content": "old"}, {"role": "user", "content": "ant " * 50}], 30, 20)
    assert (len(told), told.startswith("user: ant")) == (80, True)
    wide = turns.transcript([{"role": "user", "content": "蚁" * 9_000}], 30, 8_000)
    assert 7_900 < turns.tokens(wide) <= 8_000


def test_a_transcript_tells_tool_calls_and_leaves_out_what_is_no_text() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "find", "arguments": '{"q":"ant"}'}}
    messages: list[Any] = [
        {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {}}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "an ant"},
        "odd",
        {"role": "assistant", "content": ""},
    ]
    assert turns.transcript(messages, 30, 8_000).split("\n\n") == [
        "user: look",
        'assistant: [calls find with {"q":"ant"}]',
        "tool: an ant",
    ]
