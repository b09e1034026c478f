"""Walking a chain of targets until one answers. Every plan shape is made of such walks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from executor import failures
from executor.attempt import Ended, Means, attempt, uncalled
from executor.failover import RetrySame, Step, Stop, TryNext, Why, next_step
from executor.model import MAX_ATTEMPTS, Attempt, Call, OutcomeClass, Report, RetryRules, Sink, Target
from executor.plan import Chain, Plan
from executor.problems import Problem, failed
from executor.timing import Slot


@dataclass(slots=True)
class Tally:
    """The attempts of a request over all its chains: those that may begin, that have begun, and that ended in turn.

    ``standing`` holds the ids of the targets whose calls are under way, oldest first.
    """

    granted: int = 0
    begun: int = 0
    ended: list[Attempt] = field(default_factory=list)
    standing: dict[str, None] = field(default_factory=dict)

    @property
    def cost_usd(self) -> float:
        return sum(attempt.cost_usd for attempt in self.ended)

    def move(self, ended: str, following: str) -> None:
        """A call to one target is over, the one to the next begins; empty: none does."""
        self.standing.pop(ended, None)
        if following:
            self.standing[following] = None

    @property
    def oldest(self) -> str:
        """A call that is under way; empty when none is."""
        return next(iter(self.standing), "")


@dataclass(frozen=True, slots=True)
class Link:
    """What follows the end of a call: the call that begins next, or the end of the request, or neither yet."""

    next_target_id: str = ""
    final: bool = False


Result = Ended | Problem
Ending = Callable[[Ended], Link]
Carry = Callable[["Run", Plan], Awaitable[Result]]


def closing(_ended: Ended) -> Link:
    """The end of the last call is the end of the request."""
    return Link(final=True)


@dataclass(frozen=True, slots=True)
class Run:
    """One execution, or a part of it with a call of its own. ``deadline`` is on the loop's clock.

    ``carry`` carries out a plan inside the plan. ``ending`` is asked once, with what the part came to, before its last
    attempt is reported.
    """

    means: Means
    call: Call
    deadline: float
    sink: Sink
    carry: Carry
    tally: Tally = field(default_factory=Tally)
    ending: Ending = closing

    def asking(self, body: Mapping[str, Any], ending: Ending | None = None) -> Run:
        """The part that makes a call with this body."""
        return replace(self, call=replace(self.call, body=body), ending=ending or self.ending)

    def left_ms(self) -> float:
        return 1000 * (self.deadline - asyncio.get_running_loop().time())


@dataclass(frozen=True, slots=True)
class Walked:
    """How a chain ended. ``attempts`` is empty when nobody could be called any more; ``last`` says why even then."""

    why: Why
    attempts: tuple[Attempt, ...]
    last: Ended

    @property
    def answered(self) -> bool:
        return self.last.attempt.committed or self.last.answer is not None


async def ask(run: Run, chain: Chain, rules: RetryRules, role: str = "") -> Result:
    """What answered, or the answer to the client if that is the end. ``role`` is the call's in a plan of several."""
    if chain.nested is not None:
        return await run.carry(run, chain.nested)
    walked = await walk(run, chain.targets, rules)
    return walked.last if walked.answered else failed(walked.attempts, walked.why, run.tally.ended, role)


async def walk(run: Run, targets: Sequence[Target], rules: RetryRules) -> Walked:
    """Try the targets by the rules of failover; each attempt is reported before the next one starts."""
    attempts: list[Attempt] = []
    last: Ended | None = None
    run.tally.move("", targets[0].target_id)
    while True:
        step = next_step(targets, attempts, _rules_left(run, rules, len(attempts)), run.left_ms())
        if isinstance(step, Stop):
            last = last or _unstarted(run, targets[0], step)
            await run.sink(_report(run, targets, last, step))
            return Walked(step.why, tuple(attempts), last)
        run.tally.granted += 1
        if last is not None:
            await run.sink(_report(run, targets, last, step))
        if isinstance(step, RetrySame):
            await _wait(run, step.wait_ms / 1000)
        last = await attempt(run.means, run.call, _slot(run, targets, step), run.sink)
        attempts.append(last.attempt)
        run.tally.ended.append(last.attempt)


def _rules_left(run: Run, rules: RetryRules, made: int) -> RetryRules:
    """The rules for one chain, when others of the request take from the same number of attempts."""
    elsewhere = run.tally.granted - made
    return replace(rules, max_attempts=min(rules.max_attempts, MAX_ATTEMPTS) - elsewhere)


def _unstarted(run: Run, target: Target, step: Stop) -> Ended:
    why = "the request's deadline passed" if step.why is Why.DEADLINE else "the limit of attempts was reached"
    run.tally.begun += 1
    slot = Slot(run.tally.begun, 0, target, 0.0, is_own=False, deadline=run.deadline)
    return uncalled(run.means, slot, failures.failure(OutcomeClass.LOCAL_CANCELLED, why))


async def _wait(run: Run, seconds: float) -> None:
    """It ends early when nobody waits for the call any more; the attempt that follows then says so."""
    try:
        async with run.means.drain.scope(run.deadline):
            await asyncio.sleep(seconds)
    except TimeoutError:
        return


def _slot(run: Run, targets: Sequence[Target], step: TryNext | RetrySame) -> Slot:
    run.tally.begun += 1
    slot = Slot(
        number=run.tally.begun,
        place=step.place,
        target=targets[step.place],
        until=run.deadline,
        is_own=False,
        deadline=run.deadline,
        spent_usd=run.tally.cost_usd,
        another=step.place + 1 < len(targets),
    )
    return slot.begun(asyncio.get_running_loop().time())


def _report(run: Run, targets: Sequence[Target], ended: Ended, step: Step) -> Report:
    """The outcome with what follows it.

    Where a call is over before its fallbacks while others run, one of those is named: an outcome that names nothing
    would be read as the beginning of the next fallback, and lease what nobody calls.
    """
    attempt, tally = ended.attempt, run.tally
    tally.move(attempt.target.target_id, "")
    if not isinstance(step, Stop):
        link = Link(targets[step.place].target_id)
    else:
        link = run.ending(ended)
        skips = attempt.outcome_class is not OutcomeClass.SUCCESS and attempt.place + 1 < len(targets)
        if skips and not (link.final or link.next_target_id):
            link = Link(tally.oldest)
    tally.move("", link.next_target_id)
    return Report(attempt, link.next_target_id, link.final)
