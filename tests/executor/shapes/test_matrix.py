"""Every fault at every place of a plan: the same fault is the same outcome everywhere, and what follows is the place's.

Clients that hang up are in test_abort.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from omniroute.decision.v1.decision_pb2 import Plan, Target
from tests.executor.conftest import Answer, House, target
from tests.executor.shapes.plans import (
    TOOL,
    agentic,
    fanout,
    fusion,
    links,
    pipeline,
    run,
    says,
    says_what,
    single,
    with_fallbacks,
)
from tests.executor.test_walk import half_a_body
from tests.executor.upstream import (
    DONE,
    ROLE,
    Connection,
    Received,
    Script,
    Upstream,
    answer,
    close_at_once,
    completion,
    delta,
    error_body,
    event,
    hang,
    stream,
)

TIMEOUT_MS = 1_000
LATER_S = 2.5  # than every fault shows, so that the bad target's outcome is not the panel's last


def by_mode(plain: Script, streamed: Script) -> Script:
    async def play(received: Received, connection: Connection) -> None:
        await (streamed if received.body.get("stream") else plain)(received, connection)

    return play


@dataclass(frozen=True)
class Fault:
    """``status`` is the client's where this fault decides; ``returned``: no other target is tried."""

    script: Script
    outcome: str
    status: int
    returned: bool = False


TALKS_AND_DIES = stream(ROLE, event(delta("Hel")), end="cut")
OVERFLOW = error_body("This model's maximum context length is 8192 tokens", code="context_length_exceeded")
FLAGGED = error_body("flagged by our filter", code="content_policy_violation")
FAULTS = {
    "500": Fault(answer(500, error_body()), "UPSTREAM_ERROR", 500),
    "429": Fault(answer(429, error_body("slow down"), {"retry-after": "40"}), "RATE_LIMITED", 429),
    "401": Fault(answer(401, error_body("who are you")), "AUTH_FAILED", 502),
    "hangs": Fault(hang, "TIMEOUT", 504),
    "closes": Fault(close_at_once, "NETWORK", 502),
    "closes before content": Fault(by_mode(half_a_body, stream(ROLE, end="cut")), "NETWORK", 502),
    "error inside": Fault(
        by_mode(answer(200, error_body("stalled")), stream(ROLE, event(error_body("stalled")))), "UPSTREAM_ERROR", 502
    ),
    "malformed": Fault(answer(200, b"<html>hello</html>"), "MALFORMED", 502),
    "empty": Fault(by_mode(answer(200, completion("")), stream(ROLE, event(delta(finish="stop")), DONE)), "EMPTY", 502),
    "content policy": Fault(answer(400, FLAGGED), "CONTENT_POLICY", 400, returned=True),
    "overflow": Fault(answer(400, OVERFLOW), "CONTEXT_TOO_LONG", 400),
    "wrong everywhere": Fault(answer(422, error_body("no such role")), "INVALID_REQUEST", 422, returned=True),
}
DIES = Fault(TALKS_AND_DIES, "INTERRUPTED", 200)

# What came of it: the client's status and text or error code, and the bad target's class, next target and final flag.
Row = tuple[int, str, tuple[str, str, bool]]


@dataclass(frozen=True)
class Place:
    """Where a fault strikes: the plan around the bad target ``at``, and what is to come of it."""

    at: str
    plan: Callable[[House, Target], Awaitable[Plan]]
    expected: Callable[[Fault], Row]
    streams: bool  # the call there is streamed when the client asks for a stream


async def good(house: House, text: str = "good") -> Upstream:
    return await house.upstream(says(text))


async def alone(_house: House, bad: Target) -> Plan:
    return single(bad)


async def first_of_two(house: House, bad: Target) -> Plan:
    return single(bad, target(await good(house), "2"))


async def in_a_panel(house: House, bad: Target) -> Plan:
    ant, late, judge = await good(house), await house.upstream(says("good", LATER_S)), await good(house, "judged")
    return fusion([target(ant, "1"), bad, target(late, "3")], target(judge, "judge"))


async def as_judge(house: House, bad: Target) -> Plan:
    ant, spare = await good(house, "ant"), await good(house)
    return fusion([target(ant, "1"), target(ant, "2")], with_fallbacks(bad, target(spare, "judge.1")))


async def as_a_step(house: House, bad: Target) -> Plan:
    up = await good(house)
    return pipeline(target(up, "1"), bad, target(up, "3"))


async def as_planner(house: House, bad: Target) -> Plan:
    return agentic(bad, target(await good(house), "2"))


async def as_executor(house: House, bad: Target) -> Plan:
    planner = await good(house, "TOOLS")
    return agentic(target(planner, "1"), bad, target(await good(house), "3"))


async def in_a_fanout(house: House, bad: Target) -> Plan:
    return fanout(bad, target(await house.upstream(says("good", LATER_S)), "2"))


def ends(fault: Fault) -> Row:
    """Nobody else can be asked."""
    return (fault.status, "Hel" if fault is DIES else "", (fault.outcome, "", True))


def goes_to(following: str, otherwise: str = "") -> Callable[[Fault], Row]:
    """The next one answers, if the fault allows to try it; ``otherwise`` is what then stands in."""

    def expected(fault: Fault) -> Row:
        if fault is DIES:
            return (200, "Hel", (fault.outcome, "", True))
        if fault.returned:
            return (200 if otherwise else fault.status, otherwise, (fault.outcome, "", True))
        return (200, "good", (fault.outcome, following, False))

    return expected


def is_passed_over(text: str) -> Callable[[Fault], Row]:
    return lambda fault: (200, text, (fault.outcome, "", False))


PLACES = {
    "single, alone": Place("1", alone, ends, streams=True),
    "single, first of two": Place("1", first_of_two, goes_to("2"), streams=True),
    "fusion member": Place("2", in_a_panel, is_passed_over("judged"), streams=False),
    "judge": Place("judge", as_judge, goes_to("judge.1", otherwise="ant"), streams=True),
    "pipeline step": Place("2", as_a_step, ends, streams=False),
    "planner": Place("1", as_planner, ends, streams=False),
    "agentic executor": Place("2", as_executor, goes_to("3"), streams=True),
    "fanout member": Place("1", in_a_fanout, is_passed_over("good"), streams=False),
}


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
async def test_every_fault(house: House, place: Place, streamed: bool) -> None:
    faults = {**FAULTS, "dies after content": DIES if streamed and place.streams else FAULTS["closes before content"]}
    rows = await asyncio.gather(*(struck(house, place, fault, streamed) for fault in faults.values()))
    assert dict(zip(faults, rows, strict=True)) == {name: place.expected(fault) for name, fault in faults.items()}


async def struck(house: House, place: Place, fault: Fault, streamed: bool) -> Row:
    bad = target(await house.upstream(fault.script), place.at, timeout_ms=TIMEOUT_MS)
    got = await run(house, await place.plan(house, bad), {"tools": [TOOL], "stream": streamed})
    [link] = [link for name, link in links(got).items() if name.endswith(f" {place.at}")]
    check_form(got, streamed, broken=fault is DIES)
    return (got.head.status, told(got, fault), link)


def told(got: Answer, fault: Fault) -> str:
    """The text of an answer, nothing of an error."""
    if got.head.status != 200:
        assert got.json["error"]["attempts"][-1]["class"] == fault.outcome
        return ""
    if fault is DIES:
        return got.text
    text = says_what(got)
    return text[-4:] if "**" in text else text


def check_form(got: Answer, streamed: bool, *, broken: bool) -> None:
    """An answer has the form that was asked for; an error before it is JSON in either."""
    kind = got.headers["content-type"].partition(";")[0]
    if got.head.status != 200:
        assert (kind, got.head.provider) == ("application/json", "")
        assert got.json["error"].keys() >= {"message", "type", "param", "code"}
    else:
        assert kind == ("text/event-stream" if streamed else "application/json")
        assert bool(streamed and got.data.endswith(DONE)) is (streamed and not broken)


LARGER: dict[str, Any] = {"context_window": 32_768}


async def test_an_overflow_goes_to_a_larger_window_at_every_place(house: House) -> None:
    """A chain that has one; the same rule as for a single call."""
    for place in (as_judge, as_executor, first_of_two):
        at = {"as_judge": "judge", "as_executor": "2", "first_of_two": "1"}[place.__name__]
        bad = target(await house.upstream(answer(400, OVERFLOW)), at, context_window=8_192)
        plan = await place(house, bad)
        chain = {"judge": plan.judge.fallbacks, "2": plan.targets[2:], "1": plan.targets[1:]}[at]
        chain[0].context_window = 8_192
        got = await run(house, plan, {"tools": [TOOL]})
        assert [o.target_id for o in got.outcomes].count(chain[0].target_id) == 0, place.__name__
        assert (got.head.status, says_what(got) if got.head.status == 200 else "") == (
            (200, "ant") if at == "judge" else (400, "")
        )
