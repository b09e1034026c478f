"""Walking a chain of targets until one answers. Every plan shape is made of such walks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from executor.attempt import Ended, Means, attempt
from executor.failover import RetrySame, Step, Stop, TryNext, Why, next_step, slice_ms
from executor.model import Attempt, Call, Done, Report, RetryRules, Sink, Target
from executor.timing import Slot


@dataclass(frozen=True, slots=True)
class Run:
    """One execution. ``deadline`` is on the loop's clock; ``attempts`` grows as they end, over all chains."""

    means: Means
    call: Call
    deadline: float
    sink: Sink
    attempts: list[Attempt] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def left_ms(self) -> float:
        return 1000 * (self.deadline - asyncio.get_running_loop().time())

    def done(self, answered: Attempt | None) -> Done:
        """The closing event: usage of the attempt that answered, cost and number of all."""
        cost_usd = sum(attempt.cost_usd for attempt in self.attempts)
        closing = Done(cost_usd=cost_usd, attempts=len(self.attempts))
        return closing if answered is None else Done(answered.usage, closing.cost_usd, closing.attempts)


@dataclass(frozen=True, slots=True)
class Walked:
    """How a chain ended. ``last`` is None when the deadline left no time for even one attempt."""

    why: Why
    attempts: tuple[Attempt, ...]
    last: Ended | None


async def walk(run: Run, targets: Sequence[Target], rules: RetryRules) -> Walked:
    """Try the targets by the rules of failover; each attempt is reported before the next one starts."""
    attempts: list[Attempt] = []
    last: Ended | None = None
    while True:
        step = next_step(targets, attempts, rules, run.left_ms())
        if attempts:
            await run.sink(_report(targets, attempts[-1], step))
        if isinstance(step, Stop):
            return Walked(step.why, tuple(attempts), last)
        if isinstance(step, RetrySame):
            await asyncio.sleep(step.wait_ms / 1000)
        last = await attempt(run.means, run.call, _slot(run, targets, step), run.sink)
        attempts.append(last.attempt)
        run.attempts.append(last.attempt)


def _slot(run: Run, targets: Sequence[Target], step: TryNext | RetrySame) -> Slot:
    target = targets[step.place]
    left_ms = run.left_ms()
    slice_for_it = slice_ms(target, another=step.place + 1 < len(targets), left_ms=left_ms)
    now = asyncio.get_running_loop().time()
    return Slot(
        number=next(run.numbers),
        place=step.place,
        target=target,
        until=now + slice_for_it / 1000,
        is_own=slice_for_it >= 1000 * target.timeout_s,
        deadline=run.deadline,
    )


def _report(targets: Sequence[Target], ended: Attempt, step: Step) -> Report:
    if isinstance(step, Stop):
        return Report(ended)
    return Report(ended, targets[step.place].target_id, final=False)
