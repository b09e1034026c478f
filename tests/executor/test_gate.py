"""Turns with a host or a connection: first come, first served, bounded, and none is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.gate import Gate, Gates, NoTurn, QueueLimits, host_of


async def waits(task: asyncio.Task[None]) -> bool:
    """Whether it still does, when everything that could happen has."""
    for _ in range(5):
        await asyncio.sleep(0)
    return not task.done()


async def test_turns_come_in_order_of_arrival() -> None:
    gate, order = Gate("host", 10, 5), list[int]()

    async def call(number: int) -> None:
        await gate.enter("h", 2)
        order.append(number)

    tasks = [asyncio.create_task(call(number)) for number in range(5)]
    assert await waits(tasks[2])
    assert order == [0, 1]
    for _ in range(3):
        gate.leave("h")
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4]


async def test_names_do_not_share_turns() -> None:
    gate = Gate("host", 0, 5)
    await gate.enter("a", 1)
    await gate.enter("b", 1)
    with pytest.raises(NoTurn):
        await gate.enter("a", 1)


async def test_a_full_queue_refuses_at_once_and_a_long_wait_ends() -> None:
    gate = Gate("connection", 1, 0.1)
    await gate.enter("c", 1)
    waiter = asyncio.create_task(gate.enter("c", 1))
    assert await waits(waiter)
    with pytest.raises(NoTurn, match="too many calls wait for this connection"):
        await gate.enter("c", 1)
    with pytest.raises(NoTurn, match="waited too long for a turn with this connection"):
        await waiter
    gate.leave("c")
    await gate.enter("c", 1)


async def test_who_is_cancelled_ends_also_in_the_moment_when_the_wait_is_over() -> None:
    gate, loop = Gate("connection", 1, 0.05), asyncio.get_running_loop()
    await gate.enter("c", 1)
    waiter = asyncio.create_task(gate.enter("c", 1))
    loop.call_at(loop.time() + 0.06, waiter.cancel)
    loop.call_later(0.01, time.sleep, 0.1)  # both timers are over when the loop looks again
    with pytest.raises(asyncio.CancelledError):
        await waiter
    gate.leave("c")
    await gate.enter("c", 1)


async def test_a_limit_that_changes_holds_from_the_next_call_on() -> None:
    gate = Gate("connection", 9, 5)
    await gate.enter("c", 1)
    waiters = [asyncio.create_task(gate.enter("c", most)) for most in (1, 3)]
    assert await waits(waiters[1])
    gate.leave("c")  # two more may be inside than before
    await asyncio.gather(*waiters)
    third = asyncio.create_task(gate.enter("c", 1))
    gate.leave("c")
    assert await waits(third), "one is inside, and one is the limit now"
    gate.leave("c")
    await third


async def test_a_call_that_finds_no_turn_with_the_host_gives_back_the_connections() -> None:
    gates = Gates(QueueLimits(calls_per_host=1, queue_per_host=0))
    leave = await gates.enter("one", 1, "http://h/v1")
    with pytest.raises(NoTurn, match="host"):
        await gates.enter("two", 1, "http://h/v2")
    leave()
    (await gates.enter("two", 1, "http://h/v1"))()


@pytest.mark.parametrize(
    ("url", "host"),
    [("http://A.example:8080/v1", "a.example:8080"), ("https://u:p@b/v1", "b"), ("http://[::1]:9/", "[::1]:9")],
)
def test_hosts(url: str, host: str) -> None:
    assert host_of(url) == host


STEPS = st.lists(st.sampled_from(["enter", "leave", "give up", "give up as it is let in", "turn"]), max_size=60)


@given(steps=STEPS, most=st.integers(1, 3))
def test_no_turn_is_lost_and_none_is_there_twice(steps: list[str], most: int) -> None:
    """Whatever the order of arrivals, ends and calls that are given up: the limit holds, and in the end all is free."""

    async def play() -> None:
        gate, tasks, inside = Gate("host", 4, 60), list[asyncio.Task[None]](), list[int]()

        async def call(number: int) -> None:
            await gate.enter("h", most)
            inside.append(number)

        def leave() -> None:
            if inside:
                inside.pop(0)
                gate.leave("h")

        def give_up() -> None:
            waiting = [task for task in tasks if not task.done()]
            if waiting:
                waiting[0].cancel()

        def give_up_as_it_is_let_in() -> None:
            leave()
            give_up()

        acts: dict[str, Callable[[], None]] = {
            "enter": lambda: tasks.append(asyncio.create_task(call(len(tasks)))),
            "leave": leave,
            "give up": give_up,
            "give up as it is let in": give_up_as_it_is_let_in,
        }
        for step in steps:
            if step == "turn":
                await asyncio.sleep(0)
            else:
                acts[step]()
            assert len(inside) <= most
        while inside or not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            leave()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(end) for end in ends} <= {type(None), NoTurn, asyncio.CancelledError}
        assert not gate._places

    asyncio.run(play())
