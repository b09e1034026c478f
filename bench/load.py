"""A closed loop of calls: so many at once, each slot beginning its next when its last has ended."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.figures import Samples
from bench.processes import Process

FAILED = -1.0
SLACK_S = 20.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to measure: rounds of so many seconds after a warm-up, and seconds for each pool of the kernel."""

    rounds: int = 3
    round_s: float = 1.0
    warm_s: float = 1.0
    kernel_s: float = 1.5


QUICK = Pace(rounds=1, round_s=0.1, warm_s=0.1, kernel_s=0.1)
"""Shows that everything works; its figures say little."""

Ended = Callable[[float], None]
"""Takes the seconds that a call took, or FAILED."""
Work = Callable[[int, Ended], None]
"""Begins one call of a slot."""


class _Loop:
    def __init__(self, work: Work, concurrency: int, seconds: float) -> None:
        self._work = work
        self._running = concurrency
        self._until = time.perf_counter() + seconds
        self.latencies: list[float] = []
        self.failures = 0
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for slot in range(concurrency):
            self._begin(slot)

    def _begin(self, slot: int) -> None:
        self._work(slot, lambda taken: self._ended(slot, taken))

    def _ended(self, slot: int, taken: float) -> None:
        self.latencies.append(taken)
        self.failures += taken == FAILED
        if time.perf_counter() < self._until and not self.failures:
            self._begin(slot)
            return
        self._running -= 1
        if not self._running and not self.over.done():
            self.over.set_result(None)


async def measure(
    work: Work, concurrency: int, seconds: float, into: Samples, processes: Mapping[str, Process]
) -> None:
    """One round, added to ``into`` with the CPU that this client and the processes used. Raises RuntimeError when a
    call fails: a figure with failures in it says nothing.
    """
    before = {name: process.cpu_s() for name, process in processes.items()}
    own, started = _own_cpu_s(), time.perf_counter()
    loop = _Loop(work, concurrency, seconds)
    async with asyncio.timeout(seconds + SLACK_S):
        await loop.over
    taken = time.perf_counter() - started
    used = {"client": _own_cpu_s() - own}
    used |= {name: process.cpu_s() - before[name] for name, process in processes.items()}
    if loop.failures:
        said = "\n".join(process.last_words() for process in processes.values())
        raise RuntimeError(f"{loop.failures} of {len(loop.latencies)} calls failed\n{said}")
    into.add_round(loop.latencies, taken, used)


def _own_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
