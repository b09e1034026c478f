"""Waits that are ended from outside: all of the process's, or those of one part."""

from __future__ import annotations

import asyncio

from executor.drain import SHUTTING_DOWN, Drain


async def ended_by(drain: Drain, limit_s: float = 5.0) -> str:
    """Waits in the drain's scope; why that ended."""
    try:
        async with drain.scope(asyncio.get_running_loop().time() + limit_s):
            await asyncio.sleep(10)
    except TimeoutError:
        return drain.why
    return "nothing"


async def test_a_part_ends_without_the_rest() -> None:
    whole = Drain()
    with whole.child() as part, whole.child() as other:
        waits = [asyncio.create_task(ended_by(each)) for each in (whole, part, other)]
        await asyncio.sleep(0)
        part.end("enough")
        assert await asyncio.wait_for(waits[1], 1) == "enough"
        assert await asyncio.wait_for(ended_by(part), 1) == "enough"
        assert [wait.done() for wait in waits] == [False, True, False]
        assert (whole.why, other.why) == ("", "")
        whole.end()
        assert list(await asyncio.wait_for(asyncio.gather(waits[0], waits[2]), 1)) == [SHUTTING_DOWN] * 2
        assert part.why == "enough"


async def test_a_part_of_what_has_ended_has_ended() -> None:
    whole = Drain()
    whole.end()
    with whole.child() as part:
        assert await asyncio.wait_for(ended_by(part), 1) == SHUTTING_DOWN


async def test_parts_of_parts_end_with_the_whole() -> None:
    whole = Drain()
    with whole.child() as part, part.child() as inner:
        waiting = asyncio.create_task(ended_by(inner))
        await asyncio.sleep(0)
        whole.end()
        assert await asyncio.wait_for(waiting, 1) == SHUTTING_DOWN


async def test_a_scope_that_is_left_in_time_ends_nothing() -> None:
    drain = Drain()
    assert await ended_by(drain, 0.01) == ""
    async with drain.scope(asyncio.get_running_loop().time() + 5):
        pass
    drain.end()
