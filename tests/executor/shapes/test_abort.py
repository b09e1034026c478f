"""A client that hangs up stops every call of a plan at once, wherever it stands; so does the end of the process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from omniroute.decision.v1.decision_pb2 import Plan, Target
from tests.executor.conftest import Answer, Build, House, target
from tests.executor.shapes.plans import STREAMED, TOOL, agentic, asking, fanout, fusion, pipeline, says
from tests.executor.test_hangup import in_flight
from tests.executor.upstream import ROLE, Upstream, delta, event, hang, stream

USUAL_S, WORST_S = 0.1, 1.0  # the worst is for a machine that is busy with other things
TRIES = 5
TALKS = stream(ROLE, event(delta("Hel")), end="hang")
Make = Callable[[House], Awaitable[tuple[Plan, list[Upstream]]]]


async def a_panel(house: House) -> tuple[Plan, list[Upstream]]:
    late = [await house.upstream(hang) for _ in range(3)]
    return fusion([target(up, str(n)) for n, up in enumerate(late)], target(late[0], "judge")), late


async def a_judge(house: House) -> tuple[Plan, list[Upstream]]:
    ant, late = await house.upstream(says("ant")), await house.upstream(TALKS)
    return fusion([target(ant, "1"), target(ant, "2")], target(late, "judge")), [late]


async def a_nested_member(house: House) -> tuple[Plan, list[Upstream]]:
    ant, late = await house.upstream(says("ant")), await house.upstream(hang)
    inner = fusion([target(ant, "1/1"), target(ant, "1/2")], target(late, "1/judge"))
    other = await house.upstream(hang)
    nested = Target(target_id="1", nested=inner)
    return fusion([nested, target(other, "2")], target(ant, "judge")), [late, other]


async def a_step(house: House) -> tuple[Plan, list[Upstream]]:
    ant, late = await house.upstream(says("ant")), await house.upstream(hang)
    return pipeline(target(ant, "1"), target(late, "2"), target(ant, "3")), [late]


async def a_planner(house: House) -> tuple[Plan, list[Upstream]]:
    late = await house.upstream(hang)
    return agentic(target(late, "1"), target(late, "2")), [late]


async def an_executor(house: House) -> tuple[Plan, list[Upstream]]:
    ant, late = await house.upstream(says("TOOLS")), await house.upstream(TALKS)
    return agentic(target(ant, "1"), target(late, "2")), [late]


async def a_fanout(house: House) -> tuple[Plan, list[Upstream]]:
    ant = await house.upstream(says("ant"))
    late = [await house.upstream(hang) for _ in range(2)]
    return fanout(*(target(up, str(n)) for n, up in enumerate([ant, *late]))), late


PLACES = [a_panel, a_judge, a_nested_member, a_step, a_planner, an_executor, a_fanout]


async def until_asked(ups: list[Upstream], count: int) -> None:
    async with asyncio.timeout(10):
        while not all(len(up.requests) >= count for up in ups):
            await asyncio.sleep(0.002)


@pytest.mark.parametrize("make", PLACES)
async def test_hanging_up_stops_everything_at_once(house: House, make: Make) -> None:
    plan, ups = await make(house)
    taken = []
    for number in range(1, TRIES + 1):
        call = house.stub.Execute(asking(plan, {**STREAMED, "tools": [TOOL]}), timeout=20)
        reading = asyncio.create_task(read_on(call))
        await until_asked(ups, number)
        await asyncio.sleep(0.02)
        left_at = asyncio.get_running_loop().time()
        call.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        for up in ups:
            await asyncio.wait_for(up.connections[-1].gone.wait(), 5)
            taken.append(up.connections[-1].gone_at - left_at)
    taken.sort()
    assert taken[len(taken) // 2] < USUAL_S
    assert taken[-1] < WORST_S
    async with asyncio.timeout(5):
        while in_flight():
            await asyncio.sleep(0.01)
    assert [len(up.requests) for up in ups] == [TRIES] * len(ups)


async def read_on(call: Any) -> Answer:
    got = Answer()
    async for response in call:
        got.events.append(response)
    return got


@pytest.mark.parametrize("make", PLACES)
async def test_the_end_of_the_process_ends_a_plan_in_order(build: Build, make: Make) -> None:
    house = await build(executor_grace_s=0.1)
    plan, ups = await make(house)
    call = house.stub.Execute(asking(plan, {**STREAMED, "tools": [TOOL]}), timeout=20)
    reading = asyncio.create_task(read_on(call))
    await until_asked(ups, 1)
    await asyncio.sleep(0.02)
    house.stop.set()
    got = await asyncio.wait_for(reading, 5)
    assert got.kinds[-1] == "done"
    assert [outcome.final for outcome in got.outcomes].count(True) == 1
    assert got.outcomes[-1].final
    assert "LOCAL_CANCELLED" in got.classes
    if got.head.status != 200:
        assert "the gateway is shutting down" in got.json["error"]["message"]


async def test_many_abandoned_panels_leave_nothing_behind(house: House) -> None:
    plan, _ = await a_panel(house)
    tasks = len(asyncio.all_tasks())

    async def abandon() -> None:
        call = house.stub.Execute(asking(plan), timeout=20)
        await asyncio.sleep(0.03)
        call.cancel()

    for _ in range(5):
        await asyncio.gather(*(abandon() for _ in range(10)))
    async with asyncio.timeout(10):
        while in_flight() or len(asyncio.all_tasks()) > tasks + 5:
            await asyncio.sleep(0.01)
