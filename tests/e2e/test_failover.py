"""A target that fails costs the client nothing: the next one answers, and the failure is on record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import openai
import pytest

from tests.e2e.stack import Provided, Stack
from tests.executor.upstream import (
    ROLE,
    Connection,
    Received,
    Script,
    answer,
    close_at_once,
    completion,
    delta,
    error_body,
    event,
    hang,
    head,
    stream,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
TARGET_TIMEOUT_MS = 600
MODES = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])


@dataclass(frozen=True)
class Fault:
    """How a provider fails and what that comes to. ``failures`` is what its breaker has counted afterwards."""

    script: Script
    outcome: str
    failures: int = 1
    rests: str = ""
    rest_ms: tuple[int, int] = (0, 0)


async def half_a_body(_received: Received, connection: Connection) -> None:
    """A plain answer that breaks off."""
    await connection.send(head(200, {"content-type": "application/json", "content-length": "900"}) + b'{"choices": [')
    connection.cut()
    raise ConnectionResetError


async def an_error_inside_success(received: Received, connection: Connection) -> None:
    told = error_body("the engine stalled")
    if received.body.get("stream"):
        await stream(ROLE, event(told))(received, connection)
    else:
        await answer(200, told)(received, connection)


async def nothing_said(received: Received, connection: Connection) -> None:
    if received.body.get("stream"):
        await stream(ROLE, event(delta(finish="stop")), b"data: [DONE]\n\n")(received, connection)
    else:
        await answer(200, completion(""))(received, connection)


async def ends_before_content(received: Received, connection: Connection) -> None:
    if received.body.get("stream"):
        await stream(ROLE, end="cut")(received, connection)
    else:
        await half_a_body(received, connection)


HOUR_MS = 3_600_000
LIMITED = answer(429, error_body("slow down", type="rate_limit_error"), {"retry-after": "90"})
FAULTS = {
    "500": Fault(answer(500, error_body()), "UPSTREAM_ERROR"),
    "502 of a proxy": Fault(answer(502, b"<html>bad gateway</html>", {"content-type": "text/html"}), "UPSTREAM_ERROR"),
    "429": Fault(LIMITED, "RATE_LIMITED", 0, "rate_limited", (60_000, 90_000)),
    "401": Fault(answer(401, error_body("who are you")), "AUTH_FAILED", 0, "auth_failed", (270_000, 300_000)),
    "402": Fault(answer(402, error_body("pay")), "QUOTA_EXHAUSTED", 0, "quota_exhausted", (HOUR_MS - 60_000, HOUR_MS)),
    "404": Fault(answer(404, error_body("no such model")), "MODEL_NOT_FOUND", 0),
    "529": Fault(answer(529, error_body("overloaded")), "OVERLOADED", 0),
    "hangs": Fault(hang, "TIMEOUT"),
    "closes at once": Fault(close_at_once, "NETWORK"),
    "ends before content": Fault(ends_before_content, "NETWORK"),
    "error inside success": Fault(an_error_inside_success, "UPSTREAM_ERROR"),
    "says nothing": Fault(nothing_said, "EMPTY"),
    "is no JSON": Fault(answer(200, b"<html>hello</html>", {"content-type": "text/html"}), "MALFORMED"),
}


async def pair(stack: Stack, script: Script) -> tuple[Provided, Provided, str]:
    """A provider that fails, one that does not, and a combo over both in this order."""
    bad, well = await stack.provider("bad", script), await stack.provider("well")
    return bad, well, await stack.combo(bad, well, targetTimeoutMs=TARGET_TIMEOUT_MS)


@MODES
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
async def test_the_next_target_answers(stack: Stack, fault: Fault, streamed: bool) -> None:
    bad, well, combo = await pair(stack, fault.script)
    served = await stack.chat(combo, stream=streamed)
    assert (served.status, served.text) == (200, "Hello")
    assert (served.provider, served.attempts) == (well.name, 2)
    if streamed:
        assert served.payloads[-1] == "[DONE]"
        assert not any("error" in each for each in served.payloads[:-1])
    assert await stack.settled(served.decision_id) == [fault.outcome, "SUCCESS"]
    assert (len(bad.upstream.requests), len(well.upstream.requests)) == (1, 1)
    breaker = (await stack.client.states("breaker"))[bad.name]
    assert (breaker.state, breaker.count) == ("CLOSED", fault.failures)
    cooldown = (await stack.client.states("cooldown"))[f"{bad.name}/{bad.connection}"]
    assert cooldown.reason == fault.rests
    assert fault.rest_ms[0] <= cooldown.until_ms <= fault.rest_ms[1]
    assert not [lease for lease in (await stack.client.states("lease")).values() if bad.name in lease.reason]


@MODES
async def test_a_limited_connection_is_left_alone_until_its_time(stack: Stack, streamed: bool) -> None:
    limited = answer(429, error_body("slow down", type="rate_limit_error"), {"retry-after": "3"})
    bad, well, combo = await pair(stack, limited)
    first = await stack.chat(combo, stream=streamed)
    assert (first.provider, first.attempts) == (well.name, 2)
    await stack.settled(first.decision_id)
    second = await stack.chat(combo, stream=streamed)
    assert (second.provider, second.attempts) == (well.name, 1)
    assert len(bad.upstream.requests) == 1


async def test_a_short_wait_is_waited_out_at_the_same_target(stack: Stack) -> None:
    hasty = answer(429, error_body("one moment", type="rate_limit_error"), {"retry-after": "0.2"})
    bad, well, combo = await pair(stack, hasty)
    bad.plays(hasty, answer(200, completion("Hello after all")))
    served = await stack.chat(combo)
    assert (served.provider, served.attempts, served.text) == (bad.name, 2, "Hello after all")
    assert await stack.settled(served.decision_id) == ["RATE_LIMITED", "SUCCESS"]
    assert not well.upstream.requests


async def test_what_breaks_after_content_is_told_and_not_tried_again(stack: Stack) -> None:
    bad, well, combo = await pair(stack, stream(ROLE, event(delta("Hel")), end="cut"))
    served = await stack.chat(combo, stream=True)
    assert (served.status, served.provider, served.attempts) == (200, bad.name, 1)
    assert "[DONE]" not in served.payloads
    assert served.payloads[-1]["error"]["message"]
    assert served.text == "Hel"
    assert not well.upstream.requests
    assert await stack.settled(served.decision_id) == ["INTERRUPTED"]
    assert (await stack.client.states("breaker"))[bad.name].count == 1


async def test_the_client_of_openai_raises_at_a_broken_stream(stack: Stack) -> None:
    broken = stream(ROLE, event(delta("Hel")), event(error_body("the engine caught fire")), end="hang")
    _, _, combo = await pair(stack, broken)
    messages: Any = [{"role": "user", "content": "Say hello"}]
    call = await stack.openai().chat.completions.create(model=combo, messages=messages, stream=True)
    said: list[str] = []
    with pytest.raises(openai.APIError):
        await _listen(call, said)
    assert "".join(said) == "Hel"


async def _listen(call: Any, said: list[str]) -> None:
    async for chunk in call:
        said += [choice.delta.content or "" for choice in chunk.choices]


@MODES
async def test_a_request_that_is_wrong_everywhere_is_returned_at_once(stack: Stack, streamed: bool) -> None:
    told = error_body("messages: unknown role", type="invalid_request_error", param="messages[0].role")
    bad, well, combo = await pair(stack, answer(400, told))
    served = await stack.chat(combo, stream=streamed)
    assert served.status == 400
    assert served.error["param"] == "messages[0].role"
    assert not well.upstream.requests
    assert await stack.settled(served.decision_id) == ["INVALID_REQUEST"]
    assert (await stack.client.states("breaker"))[bad.name].count == 0


@MODES
async def test_all_fail(stack: Stack, streamed: bool) -> None:
    first = await stack.provider("first", answer(500, error_body("first is ill")))
    second = await stack.provider("second", close_at_once)
    combo = await stack.combo(first, second, maxRetries=0)
    served = await stack.chat(combo, stream=streamed)
    assert (served.status, served.attempts) == (502, 2)
    shown = served.json["error"]
    assert first.name in str(shown)
    assert second.name in str(shown)
    assert await stack.settled(served.decision_id) == ["UPSTREAM_ERROR", "NETWORK"]


async def test_all_limited_tell_when_to_come_back(stack: Stack) -> None:
    limits = [answer(429, error_body(type="rate_limit_error"), {"retry-after": wait}) for wait in ("200", "100")]
    first, second = [await stack.provider("limited", limit) for limit in limits]
    combo = await stack.combo(first, second)
    served = await stack.chat(combo)
    assert served.status == 429
    assert 90 <= int(served.headers["retry-after"]) <= 100
    await stack.settled(served.decision_id)
    again = await stack.chat(combo)
    assert (again.status, again.error["code"]) == (429, "no_available_target")
    assert 60 <= int(again.headers["retry-after"]) <= 100
    assert len(first.upstream.requests) == len(second.upstream.requests) == 1
