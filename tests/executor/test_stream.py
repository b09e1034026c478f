"""Streams over the wire: when they are committed, what the client gets, and how they end."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import orjson
import pytest

from executor.attempt import Limits, Means, attempt
from executor.credentials import Credentials, Resolved
from executor.drain import Drain
from executor.gate import Gates, QueueLimits
from executor.model import Call, Chunk, Event, OutcomeClass, Target
from executor.timing import Slot
from executor.transport.direct import DirectTransport
from executor.transport.port import TransportLimits
from tests.executor.conftest import Answer, Build, House, target
from tests.executor.upstream import (
    DONE,
    GOOD_STREAM,
    ROLE,
    USAGE,
    Connection,
    Received,
    Script,
    answer,
    chunked,
    close_at_once,
    completion,
    delta,
    error_body,
    event,
    hang,
    head,
    stream,
)

ASKED: dict[str, Any] = {"stream_options": {"include_usage": True}}


async def test_a_stream_passes_event_by_event(house: House) -> None:
    got = await house.stream(stream(*GOOD_STREAM))
    assert got.data == ROLE + event(delta("Hel")) + event(delta("lo")) + event(delta(finish="stop")) + DONE
    assert got.headers["content-type"].startswith("text/event-stream")
    assert (got.head.status, got.head.provider, got.head.cost_usd, got.head.attempts) == (200, "p-t0", 0.25, 1)
    assert got.kinds[0] == "head"
    assert got.kinds[-3:] == ["outcome", "chunk", "done"], "the outcome is known before the client can hang up"
    assert got.chunks[-1].endswith(DONE)


async def test_the_outcome_of_a_stream_is_complete(house: House) -> None:
    upstream = await house.upstream(stream(ROLE, event(delta("x")), event(delta(finish="stop")), event(USAGE), DONE))
    prices: dict[str, Any] = {"input_price": 1.0, "output_price": 2.0, "cached_input_price": 0.5}
    got = await house.execute([target(upstream, **prices)], body={"stream": True})
    (outcome,) = got.outcomes
    assert got.classes == ["SUCCESS"]
    assert (outcome.input_tokens, outcome.output_tokens, outcome.cached_tokens) == (100, 20, 40)
    assert outcome.cost_usd == pytest.approx((60 * 1 + 40 * 0.5 + 20 * 2) / 1e6)
    assert (outcome.finish_reason, outcome.final) == ("stop", True)
    assert 0 < outcome.ttft_ms <= outcome.latency_ms + 1
    assert got.done.usage.cached_tokens == 40


async def test_usage_is_always_asked_of_the_upstream(house: House) -> None:
    upstream = await house.upstream(stream(*GOOD_STREAM))
    options = {"include_usage": False, "other": 1}
    got = await house.execute([target(upstream)], body={"stream": True, "stream_options": options})
    assert upstream.requests[0].body["stream_options"] == {"include_usage": True, "other": 1}
    assert upstream.requests[0].headers["accept"] == "text/event-stream"
    assert b"usage" not in got.data


async def test_usage_asked_for_is_the_last_chunk_and_tells_the_cost(house: House) -> None:
    upstream = await house.upstream(stream(*GOOD_STREAM))
    got = await house.execute([target(upstream, input_price=1.0)], body={"stream": True, **ASKED})
    assert got.data.endswith(DONE)
    last = got.payloads[-1]
    assert last["usage"] == USAGE["usage"]
    assert last["omniroute"]["cost_usd"] == pytest.approx(120 / 1e6)
    assert (last["choices"], last["id"], last["model"]) == ([], "c1", "served")
    assert sum("usage" in payload for payload in got.payloads) == 1


async def test_usage_on_a_content_chunk_moves_to_the_end(house: House) -> None:
    busy = {**delta("hi", finish="stop"), "usage": {"prompt_tokens": 4, "completion_tokens": 2}}
    got = await house.stream(stream(event(busy), DONE), body=ASKED)
    assert got.payloads[0] == delta("hi", finish="stop")
    assert got.payloads[-1]["usage"] == {"prompt_tokens": 4, "completion_tokens": 2}


async def test_usage_that_the_upstream_keeps_to_itself_is_estimated(house: House) -> None:
    got = await house.stream(stream(event(delta("x" * 40)), event(delta(finish="stop")), DONE), body=ASKED)
    last = got.payloads[-1]
    assert (last["usage"]["completion_tokens"], last["omniroute"]["usage_estimated"]) == (10, True)
    assert (got.outcomes[0].output_tokens, got.outcomes[0].usage_estimated) == (10, True)


FIRST_CONTENTS: dict[str, dict[str, Any]] = {
    "text": delta("x"),
    "reasoning": delta(reasoning_content="hm"),
    "refusal": delta(refusal="no"),
    "tool call": delta(tool_calls=[{"index": 0, "id": "a", "type": "function", "function": {"name": "f"}}]),
}


@pytest.mark.parametrize("name", FIRST_CONTENTS)
async def test_content_of_any_kind_commits_the_stream(house: House, name: str) -> None:
    got = await house.stream(stream(ROLE, event(FIRST_CONTENTS[name]), end="cut"), stream(*GOOD_STREAM))
    assert got.classes == ["INTERRUPTED"]
    assert got.payloads[1] == FIRST_CONTENTS[name]


async def slow_error(_received: Received, connection: Connection) -> None:
    await connection.send(head(200, {"content-type": "text/event-stream"}))
    await asyncio.sleep(0.05)
    await connection.send(event(error_body("The server is overloaded")))
    await connection.gone.wait()


BEFORE_CONTENT: dict[str, tuple[Script, str]] = {
    "nothing at all": (close_at_once, "NETWORK"),
    "a clean end after the role": (stream(ROLE), "EMPTY"),
    "a cut after the role": (stream(ROLE, end="cut"), "NETWORK"),
    "[DONE] after the role": (stream(ROLE, DONE), "EMPTY"),
    "[DONE] after a finish reason": (stream(ROLE, event(delta(finish="stop")), DONE), "EMPTY"),
    "an error frame": (stream(ROLE, event(error_body("boom"))), "UPSTREAM_ERROR"),
    "an error frame that says rate limit": (stream(event({"error": {"code": 429}})), "RATE_LIMITED"),
    "a late error frame": (slow_error, "OVERLOADED"),
    "an error event by name": (stream(b'event: error\ndata: {"message":"overloaded"}\n\n'), "OVERLOADED"),
    "an error object": (answer(200, error_body("boom")), "UPSTREAM_ERROR"),
    "an empty body": (answer(200, b"", {"content-type": "text/event-stream"}), "EMPTY"),
    "comments alone": (stream(b": hello\n\n", b": again\n\n"), "EMPTY"),
    "a web page": (answer(200, b"<html>", {"content-type": "text/event-stream"}), "MALFORMED"),
    "half an event": (stream(b'data: {"choices":[{"del\n\n'), "MALFORMED"),
    "no events": (answer(200, b"hello\nworld", {"content-type": "text/event-stream"}), "MALFORMED"),
    "an error status": (answer(500, error_body("boom")), "UPSTREAM_ERROR"),
}


@pytest.mark.parametrize("name", BEFORE_CONTENT)
async def test_a_stream_that_fails_before_content_goes_on_to_the_next_target(house: House, name: str) -> None:
    script, outcome_class = BEFORE_CONTENT[name]
    got = await house.stream(script, stream(*GOOD_STREAM))
    assert (got.text, got.classes) == ("Hello", [outcome_class, "SUCCESS"])
    assert (got.outcomes[0].next_target_id, got.outcomes[0].final) == ("t1", False)
    assert got.kinds[0] == "outcome", "nothing of the failed stream reached the client"
    assert got.data.count(b'"role":"assistant"') == 1


async def stall(_received: Received, connection: Connection) -> None:
    await connection.send(head(200, {"content-type": "text/event-stream"}) + event(delta("Hel")))
    await connection.gone.wait()


AFTER_CONTENT: dict[str, Script] = {
    "a cut": stream(ROLE, event(delta("Hel")), end="cut"),
    "a clean end": stream(ROLE, event(delta("Hel"))),
    "an error frame": stream(ROLE, event(delta("Hel")), event(error_body("boom, key sk-live-abcdefgh12345"))),
    "content and error in one piece": stream(event(delta("Hel")) + event(error_body("boom"))),
    "half an event": stream(event(delta("Hel")), b'data: {"choices":[{"del\n\n'),
    "a stall": stall,
}


@pytest.mark.parametrize("name", AFTER_CONTENT)
async def test_a_stream_that_breaks_after_content_ends_with_an_error_event(build: Build, name: str) -> None:
    house = await build(upstream_stall_s=0.3, executor_grace_s=0.2)
    upstream, spare = await house.upstream(AFTER_CONTENT[name]), await house.upstream(stream(*GOOD_STREAM))
    got = await house.execute([target(upstream), target(spare, "t1")], body={"stream": True, **ASKED})
    assert (got.classes, got.outcomes[0].final, spare.requests) == (["INTERRUPTED"], True, [])
    *_, content, error = got.payloads
    assert content == delta("Hel")
    assert set(error["error"]) >= {"message", "type", "param", "code"}
    assert b"[DONE]" not in got.data
    assert b"sk-live" not in got.data
    assert (got.outcomes[0].output_tokens, got.outcomes[0].usage_estimated) == (1, True)
    assert got.kinds[-3:] == ["outcome", "chunk", "done"]


async def test_a_stall_before_content_is_a_time_out_and_goes_on(build: Build) -> None:
    house = await build(upstream_stall_s=0.2, executor_grace_s=0.2)
    got = await house.stream(stream(ROLE, end="hang"), stream(*GOOD_STREAM))
    assert (got.text, got.classes) == ("Hello", ["TIMEOUT", "SUCCESS"])


async def test_comments_keep_a_stream_alive(build: Build) -> None:
    house = await build(upstream_stall_s=0.3, executor_grace_s=0.2)
    waits = [b": wait\n\n"] * 5
    got = await house.stream(stream(event(delta("Hel")), *waits, event(delta("lo")), DONE, pause_s=0.1))
    assert (got.text, got.classes) == ("Hello", ["SUCCESS"])


async def test_a_stream_that_drips_byte_by_byte_but_never_a_whole_event_stalls(build: Build) -> None:
    house = await build(upstream_stall_s=0.3, executor_grace_s=0.2)

    async def drip(_received: Received, connection: Connection) -> None:
        await connection.send(head(200, {"content-type": "text/event-stream"}) + event(delta("Hel")))
        while not connection.gone.is_set():
            await connection.send(b"d")
            await asyncio.sleep(0.02)

    got = await house.stream(drip)
    assert got.classes == ["INTERRUPTED"]
    assert 250 <= got.outcomes[0].latency_ms <= 1_500


async def test_a_slow_client_is_no_stall_of_the_upstream(house: House) -> None:
    """The client takes the first chunk for 0.6 s; the upstream speaks again 0.2 s later, well within its 0.4 s."""

    class Open:
        async def resolve(self, connection_id: str, *, refresh: bool) -> Resolved:
            return Resolved()

    async def slow(sent: Event) -> None:
        await asyncio.sleep(0.6 if isinstance(sent, Chunk) else 0)

    upstream = await house.upstream(stream(event(delta("a")), event(delta(finish="stop")), DONE, pause_s=0.8))
    clock = asyncio.get_running_loop().time
    transport = DirectTransport(TransportLimits())
    gates = Gates(QueueLimits())
    means = Means(transport, Credentials(Open(), {}, clock), Drain(), time.time, gates, Limits(stall_s=0.4))
    slot = Slot(1, 0, Target("t0", "p", "m", "c", upstream.url), clock() + 5, is_own=True, deadline=clock() + 5)
    ended = await attempt(means, Call("d", {"stream": True}), slot, slow)
    await transport.close()
    assert ended.attempt.outcome_class is OutcomeClass.SUCCESS


async def test_an_end_without_done_is_whole_once_a_finish_reason_has_come(house: House) -> None:
    got = await house.stream(stream(event(delta("Hello")), event(delta(finish="stop"))))
    assert (got.classes, got.data.endswith(DONE)) == (["SUCCESS"], True)


async def test_a_cut_after_a_finish_reason_takes_nothing_from_the_answer(house: House) -> None:
    got = await house.stream(stream(event(delta("Hello")), event(delta(finish="stop")), end="cut", pause_s=0.02))
    assert (got.classes, got.data.endswith(DONE)) == (["SUCCESS"], True)


async def test_nothing_follows_done(house: House) -> None:
    got = await house.stream(stream(event(delta("Hello")), DONE + event(delta("more")), event(USAGE)))
    assert got.data == event(delta("Hello")) + DONE


async def test_a_client_gets_its_done_while_the_upstream_keeps_the_connection(house: House) -> None:
    got = await house.stream(stream(*GOOD_STREAM, end="hang"))
    assert (got.classes, got.outcomes[0].latency_ms < 1_000) == (["SUCCESS"], True)


async def test_a_plain_answer_to_a_stream_becomes_a_stream(house: House) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    got = await house.stream(answer(200, completion("Hello", tool_calls=[call])), body=ASKED)
    first, last, usage = got.payloads
    said = first["choices"][0]
    assert (first["object"], said["delta"]["role"], said["delta"]["content"]) == (
        "chat.completion.chunk",
        "assistant",
        "Hello",
    )
    assert said["delta"]["tool_calls"] == [{"index": 0, **call}]
    assert last["choices"][0]["finish_reason"] == "stop"
    assert usage["usage"]["completion_tokens"] == 5
    assert (got.classes, got.data.endswith(DONE)) == (["SUCCESS"], True)


async def test_events_that_come_in_one_read_travel_in_one_chunk(house: House) -> None:
    many = b"".join(event(delta(str(n))) for n in range(50))
    got = await house.stream(stream(event(delta("x")), many + event(delta(finish="stop")) + DONE, pause_s=0.05))
    assert len(got.chunks) == 2
    assert got.chunks[1].count(b"data: ") == 52, "the end too, with what came with it"


async def test_a_filtered_stream_without_content_is_returned_as_it_is(house: House) -> None:
    got = await house.stream(stream(ROLE, event(delta(finish="content_filter")), DONE), stream(*GOOD_STREAM))
    assert got.classes == ["CONTENT_POLICY"]
    assert got.data == ROLE + event(delta(finish="content_filter")) + DONE


async def test_utf8_survives_a_cut_at_every_byte(house: House) -> None:
    text = "añb€c😀 日本"
    whole = b"".join(b"data: %s\n\n" % orjson.dumps(delta(text)) for _ in range(2)) + DONE

    async def drip(_received: Received, connection: Connection) -> None:
        await connection.send(head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"}))
        for place in range(len(whole)):
            await connection.send(chunked(whole[place : place + 1]))
        await connection.send(b"0\r\n\r\n")

    got = await house.stream(drip)
    assert got.data == whole
    assert got.text == text * 2


async def test_an_event_over_the_limit_ends_the_attempt(build: Build) -> None:
    house = await build(upstream_max_event_mb=1, executor_grace_s=0.2)
    huge = stream(b"data: " + b"x" * 1_200_000)
    got = await house.stream(huge, stream(*GOOD_STREAM))
    assert got.classes == ["MALFORMED", "SUCCESS"]
    interrupted = await house.stream(stream(event(delta("x")), b"data: " + b"x" * 1_200_000))
    assert interrupted.classes == ["INTERRUPTED"]


async def test_a_hanging_first_target_leaves_time_for_the_second(house: House) -> None:
    got = await house.stream(hang, stream(*GOOD_STREAM), deadline_ms=1_000)
    assert (got.text, got.classes) == ("Hello", ["LOCAL_CANCELLED", "SUCCESS"])


async def test_a_stream_outlives_its_targets_time_out_but_not_the_deadline(house: House) -> None:
    slowly = stream(*(event(delta(str(n))) for n in range(40)), pause_s=0.05)
    upstream = await house.upstream(slowly)
    got: Answer = await house.execute([target(upstream, timeout_ms=200)], body={"stream": True}, deadline_ms=900)
    assert got.classes == ["LOCAL_CANCELLED"]
    assert 8 < len(got.payloads) < 30
    assert "error" in got.payloads[-1]
