"""AGENTIC over the wire: rounds of planner and executors, and how they end."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from executor.shapes.agentic import Route, route_of
from tests.executor.conftest import House, target
from tests.executor.shapes.plans import (
    STREAMED,
    TOOL,
    agentic,
    links,
    messages_of,
    priced,
    run,
    says,
    says_what,
    with_fallbacks,
)
from tests.executor.upstream import DONE, Script, answer, completion, delta, error_body, event, hang, stream

BROKEN = answer(500, error_body("broken"))
BOTH = pytest.mark.parametrize("mode", [{}, STREAMED], ids=["plain", "stream"])
CALL = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"a":"b"}'}}
TOOLS = {"tools": [TOOL]}
PLANS = says("TOOLS\nLook it up, then tell.")
ENDS = says("FINAL")


def calls_tool() -> Script:
    async def play(received: Any, connection: Any) -> None:
        if received.body.get("stream"):
            pieces = event(delta(tool_calls=[{"index": 0, **CALL}])), event(delta(finish="tool_calls")), DONE
            await stream(*pieces)(received, connection)
        else:
            await answer(200, completion("", "tool_calls", tool_calls=[CALL]))(received, connection)

    return play


def conversation(rounds: int, result: dict[str, Any] | None = None) -> dict[str, Any]:
    """A user's question and so many rounds of tool calls."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "What is b?"}]
    for _ in range(rounds):
        messages.append({"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "call_2"}]})
        messages.append(result or {"role": "tool", "tool_call_id": "call_1", "content": "b is 7"})
    return {"messages": messages, **TOOLS}


@BOTH
async def test_a_fresh_request_is_planned_and_then_tools_are_called(house: House, mode: dict[str, Any]) -> None:
    planner, executor = await house.upstream(PLANS), await house.upstream(calls_tool())
    plan = agentic(priced(planner, "1", prompt="You plan."), priced(executor, "2", prompt="You act."))
    got = await run(house, plan, {**conversation(0), **mode})
    if mode:
        [said] = [p["choices"][0]["delta"] for p in got.payloads if p["choices"] and p["choices"][0]["delta"]]
        assert said["tool_calls"] == [{"index": 0, **CALL}]
        assert got.payloads[-1]["omniroute"]["cost_usd"] == got.done.cost_usd
    else:
        assert got.data == orjson.dumps(completion("", "tool_calls", tool_calls=[CALL]))
    assert links(got) == {"1 1": ("SUCCESS", "2", False), "2 2": ("SUCCESS", "", True)}
    assert got.outcomes[-1].finish_reason == "tool_calls"
    assert got.done.cost_usd > 15
    assert (got.head.model, got.head.attempts, got.done.attempts) == ("model-2", 2, 2)


async def test_what_planner_and_executor_are_sent(house: House) -> None:
    planner, executor = await house.upstream(PLANS), await house.upstream(calls_tool())
    plan = agentic(target(planner, "1", prompt="You plan."), target(executor, "2", prompt="You act."))
    await run(house, plan, {**conversation(0), **STREAMED, "temperature": 0.5, "tool_choice": "auto"})
    asked = planner.requests[0].body
    assert {key for key in asked if key not in ("model", "messages")} == {"temperature"}
    own, routing, user = asked["messages"]
    assert (own["content"], user["content"]) == ("You plan.", "What is b?")
    for word in ("TOOLS", "FINAL", "look_up", "Looks it up", '{"a":1}'):
        assert word in routing["content"]
    told = executor.requests[0].body
    assert (told["tools"], told["tool_choice"], told["stream"], told["temperature"]) == ([TOOL], "auto", True, 0.5)
    own, planned, user = told["messages"]
    assert own == {"role": "system", "content": "You act."}
    assert (planned["role"], "Look it up, then tell." in planned["content"]) == ("system", True)
    assert "TOOLS" not in planned["content"]
    assert user["content"] == "What is b?"


@BOTH
async def test_a_continuation_that_is_enough_is_ended_by_the_planner(house: House, mode: dict[str, Any]) -> None:
    planner, executor = await house.upstream(ENDS, says("b is 7")), await house.upstream(calls_tool())
    asked = {**conversation(1), **mode, "response_format": {"type": "text"}}
    got = await run(house, agentic(priced(planner, "1"), target(executor, "2")), asked)
    assert (says_what(got), executor.requests) == ("b is 7", [])
    assert links(got) == {"1 1": ("SUCCESS", "1", False), "2 1": ("SUCCESS", "", True)}
    body = planner.requests[1].body
    assert (body["messages"], body["response_format"]) == (asked["messages"], {"type": "text"})
    assert "tools" not in body
    assert body.get("stream", False) is bool(mode)
    assert got.done.cost_usd == (15 + (120 if mode else 15))


@pytest.mark.parametrize(
    ("rounds", "text", "who"),
    [(0, "I would look b up.", "2"), (1, "b is 7.", "1"), (1, "TOOLS", "2"), (0, "FINAL", "1"), (7, "TOOLS\nx", "2")],
)
async def test_who_has_the_next_word(house: House, rounds: int, text: str, who: str) -> None:
    planner, executor = await house.upstream(says(text)), await house.upstream(says("acted"))
    got = await run(house, agentic(target(planner, "1"), target(executor, "2")), conversation(rounds))
    assert got.outcomes[-1].target_id == who


@pytest.mark.parametrize(
    "result", [None, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "7"}]}]
)
async def test_at_the_limit_the_planner_answers_at_once(house: House, result: dict[str, Any] | None) -> None:
    planner, executor = await house.upstream(says("it is 7")), await house.upstream(calls_tool())
    plan = agentic(target(planner, "1"), target(executor, "2"), max_tool_rounds=2)
    got = await run(house, plan, conversation(2, result))
    assert (says_what(got), executor.requests, len(planner.requests)) == ("it is 7", [], 1)
    assert "tools" not in planner.requests[0].body
    assert links(got) == {"1 1": ("SUCCESS", "", True)}


async def test_rounds_before_the_last_question_do_not_count(house: House) -> None:
    planner, executor = await house.upstream(PLANS), await house.upstream(calls_tool())
    asked = conversation(2)
    asked["messages"] += [{"role": "assistant", "content": "7"}, {"role": "user", "content": "And c?"}]
    got = await run(house, agentic(target(planner, "1"), target(executor, "2"), max_tool_rounds=2), asked)
    assert got.outcomes[-1].target_id == "2"


@BOTH
@pytest.mark.parametrize("asked", [{}, {**TOOLS, "tool_choice": "none"}, {"tools": []}], ids=["none", "off", "empty"])
async def test_without_tools_the_planner_answers(house: House, asked: dict[str, Any], mode: dict[str, Any]) -> None:
    planner = await house.upstream(says("hello"))
    got = await run(house, agentic(target(planner, "1")), {**asked, **mode})
    assert (says_what(got), len(planner.requests)) == ("hello", 1)
    assert not {"tools", "tool_choice"} & planner.requests[0].body.keys()


async def test_executors_are_tried_in_order(house: House) -> None:
    planner, good = await house.upstream(PLANS), await house.upstream(calls_tool())
    bad = [await house.upstream(BROKEN) for _ in range(2)]
    plan = agentic(target(planner, "1"), with_fallbacks(target(bad[0], "2"), target(bad[1], "2.1")), target(good, "3"))
    got = await run(house, plan, {**conversation(0), **STREAMED})
    assert links(got) == {
        "1 1": ("SUCCESS", "2", False),
        "2 2": ("UPSTREAM_ERROR", "2.1", False),
        "3 2.1": ("UPSTREAM_ERROR", "3", False),
        "4 3": ("SUCCESS", "", True),
    }
    assert got.data.endswith(DONE)


async def test_the_last_executors_failure_speaks_for_all(house: House) -> None:
    planner, broken = await house.upstream(PLANS), await house.upstream(BROKEN)
    limited = await house.upstream(answer(429, error_body("slow down"), {"retry-after": "30"}))
    got = await run(house, agentic(target(planner, "1"), target(broken, "2"), target(limited, "3")), conversation(0))
    assert (got.head.status, got.head.error_code, got.headers["retry-after"]) == (429, "rate_limit_exceeded", "30")
    assert got.json["error"]["message"] == "slow down"
    assert len(got.json["error"]["attempts"]) == 3


@BOTH
async def test_a_planner_that_fails_ends_the_request_as_a_failed_step(house: House, mode: dict[str, Any]) -> None:
    bad = [await house.upstream(BROKEN) for _ in range(2)]
    executor = await house.upstream(calls_tool())
    plan = agentic(with_fallbacks(target(bad[0], "1"), target(bad[1], "1.1")), target(executor, "2"))
    got = await run(house, plan, {**conversation(0), **mode})
    assert (got.head.status, executor.requests) == (500, [])
    assert got.json["error"]["message"].startswith("the planner: No target could answer after 2 attempts")
    assert links(got) == {"1 1": ("UPSTREAM_ERROR", "1.1", False), "2 1.1": ("UPSTREAM_ERROR", "", True)}


async def test_the_planner_that_answered_writes_the_end(house: House) -> None:
    late, spare = await house.upstream(hang), await house.upstream(ENDS, says("b is 7"))
    planner = with_fallbacks(target(late, "1", timeout_ms=200), target(spare, "1.1"))
    got = await run(house, agentic(planner, target(late, "2")), conversation(1))
    assert says_what(got) == "b is 7"
    assert links(got) == {
        "1 1": ("TIMEOUT", "1.1", False),
        "2 1.1": ("SUCCESS", "1.1", False),
        "3 1.1": ("SUCCESS", "", True),
    }


async def test_a_planner_that_is_withheld_is_returned_as_it_is(house: House) -> None:
    told = completion("", finish="content_filter")
    planner, executor = await house.upstream(answer(200, told)), await house.upstream(calls_tool())
    got = await run(house, agentic(target(planner, "1"), target(executor, "2")), conversation(0))
    assert (got.json, links(got)) == (told, {"1 1": ("CONTENT_POLICY", "", True)})


async def test_a_planner_without_a_plan_leaves_the_body_as_it_is(house: House) -> None:
    planner, executor = await house.upstream(says("TOOLS")), await house.upstream(calls_tool())
    await run(house, agentic(target(planner, "1"), target(executor, "2")), conversation(0))
    assert messages_of(executor) == conversation(0)["messages"]


WORDS = {
    "TOOLS": (Route.TOOLS, ""),
    "TOOLS\nlook\nup": (Route.TOOLS, "look\nup"),
    "TOOLS: look up": (Route.TOOLS, "look up"),
    "**TOOLS**\n\n1. look": (Route.TOOLS, "1. look"),
    "\n  Tools\nlook": (Route.TOOLS, "look"),
    "final.": (Route.FINAL, ""),
    "FINAL\nb is 7": (Route.FINAL, "b is 7"),
    "# FINAL": (Route.FINAL, ""),
    "Finally we know.": (None, "Finally we know."),
    "tools are not needed": (None, "tools are not needed"),
    "TOOLSET": (None, "TOOLSET"),
    "I need TOOLS": (None, "I need TOOLS"),
    "": (None, ""),
}


@pytest.mark.parametrize("text", WORDS)
@pytest.mark.parametrize("fresh", [True, False])
def test_the_first_line_says_who_is_next(text: str, fresh: bool) -> None:
    route, plan = WORDS[text]
    assert route_of(text, fresh) == (route or (Route.TOOLS if fresh else Route.FINAL), plan)
