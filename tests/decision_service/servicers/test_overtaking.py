"""Answers that overtake others on one stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field

import pytest

from decision_service.servicers.overtaking import as_ready

LIMIT_S = 5.0


@dataclass
class Stage:
    """Requests are names; those that begin with ``slow`` are answered when the test says so."""

    read: list[str] = field(default_factory=list)
    tasks: dict[str, asyncio.Task[str]] = field(default_factory=dict)
    events: dict[str, asyncio.Event] = field(default_factory=dict)

    async def requests(self, names: Iterable[str], *, endless: bool = False) -> AsyncIterator[str]:
        for name in names:
            self.read.append(name)
            yield name
            await asyncio.sleep(0)
        if endless:
            await asyncio.Event().wait()

    def answer(self, name: str) -> str | asyncio.Task[str]:
        if not name.startswith("slow"):
            return name.upper()
        self.events[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._later(name))
        return self.tasks[name]

    async def _later(self, name: str) -> str:
        await self.events[name].wait()
        if name.endswith("bad"):
            raise ValueError(name)
        return name.upper()

    async def has_read(self, count: int) -> None:
        async with asyncio.timeout(LIMIT_S):
            while len(self.read) < count:
                await asyncio.sleep(0)


async def test_quick_answers_come_in_order() -> None:
    stage = Stage()
    names = [f"n{number}" for number in range(50)]
    assert [told async for told in as_ready(stage.requests(names), stage.answer, 4)] == [name.upper() for name in names]


async def test_a_slow_answer_is_overtaken_and_comes_when_it_is_ready() -> None:
    stage = Stage()
    told: list[str] = []
    async with asyncio.timeout(LIMIT_S):
        async for answer in as_ready(stage.requests(["a", "slow-1", "b", "slow-2", "c", "d"]), stage.answer, 4):
            told.append(answer)
            if answer == "C":
                stage.events["slow-2"].set()
            if answer == "SLOW-2":
                stage.events["slow-1"].set()
    assert told[:3] == ["A", "B", "C"]
    assert sorted(told) == ["A", "B", "C", "D", "SLOW-1", "SLOW-2"]
    assert told.index("SLOW-2") < told.index("SLOW-1")


async def test_no_more_are_read_while_too_many_wait() -> None:
    stage = Stage()
    names = [f"slow-{number}" for number in range(6)]
    told = asyncio.create_task(_all(stage, names, 3))
    await stage.has_read(3)
    for _ in range(20):
        await asyncio.sleep(0)
    assert stage.read == names[:3]
    stage.events["slow-1"].set()
    await stage.has_read(4)
    for _ in range(20):
        await asyncio.sleep(0)
    assert stage.read == names[:4]
    await _open_all(stage, told)
    assert sorted(await told) == [name.upper() for name in names]


async def _all(stage: Stage, names: Iterable[str], most: int) -> list[str]:
    return [told async for told in as_ready(stage.requests(names), stage.answer, most)]


async def _open_all(stage: Stage, told: asyncio.Task[list[str]]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not told.done():
            for event in stage.events.values():
                event.set()
            await asyncio.sleep(0)


@pytest.mark.parametrize("names", [["slow-1", "slow-2"], ["slow-1", "slow-2", "a"]])
async def test_who_leaves_cancels_what_waits(names: list[str]) -> None:
    stage = Stage()
    before = asyncio.all_tasks()
    reading = asyncio.create_task(_all_but_endless(stage, names))
    await stage.has_read(len(names))
    for _ in range(20):
        await asyncio.sleep(0)
    reading.cancel()
    async with asyncio.timeout(LIMIT_S):
        await asyncio.wait({reading, *stage.tasks.values()})
        while asyncio.all_tasks() != before:
            await asyncio.sleep(0)
    assert all(task.cancelled() for task in stage.tasks.values())


async def _all_but_endless(stage: Stage, names: Iterable[str]) -> None:
    async with aclosing(as_ready(stage.requests(names, endless=True), stage.answer, 4)) as answers:
        async for _ in answers:
            pass


async def test_an_unexpected_error_ends_the_stream_and_the_others() -> None:
    stage = Stage()
    told = asyncio.create_task(_all(stage, ["slow-1", "slow-bad"], 4))
    await stage.has_read(2)
    for _ in range(20):
        await asyncio.sleep(0)
    stage.events["slow-bad"].set()
    with pytest.raises(ValueError, match="slow-bad"):
        await asyncio.wait_for(told, LIMIT_S)
    async with asyncio.timeout(LIMIT_S):
        await asyncio.wait({stage.tasks["slow-1"]})
    assert stage.tasks["slow-1"].cancelled()
