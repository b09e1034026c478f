"""A panel: calls that run at once, each with its own fallbacks, and what each of them said."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from math import inf

from executor import answers
from executor.attempt import Ended
from executor.chain import Link, Result, Run, ask
from executor.drain import Drain
from executor.model import RetryRules, Target
from executor.plan import Chain
from executor.problems import Problem, Reason, none_answered

MIB = 2**20

# What follows the panel, of its answers in panel order and the end of its last call.
Over = Callable[[Sequence["Answered"], Ended], Link]


@dataclass(frozen=True, slots=True)
class Answered:
    """A member that said something."""

    ended: Ended
    text: str

    @property
    def target(self) -> Target:
        return self.ended.attempt.target


@dataclass(frozen=True, slots=True)
class Member:
    """A member that ended. ``answered`` is None when it said nothing."""

    place: int
    chain: Chain
    result: Result
    answered: Answered | None

    @property
    def target(self) -> Target:
        """Who ended it, as far as that is known."""
        return self.chain.first if isinstance(self.result, Problem) else self.result.attempt.target

    @property
    def is_returned(self) -> bool:
        """Whoever is asked would refuse the request."""
        return self.result.returned if isinstance(self.result, Problem) else self.result.withheld

    @property
    def reason(self) -> Reason:
        """Why it said nothing."""
        if isinstance(self.result, Problem):
            text = self.result.message
        else:
            text = "a content filter withheld the answer" if self.is_returned else "it answered without a text"
        return Reason(self.target.provider, self.target.model, text)


class Panel:
    """Members that run. ``members`` are those that ended, ``answers`` of those that said something, in panel order."""

    def __init__(self, run: Run, chains: Sequence[Chain], over: Over, leash: Drain) -> None:
        self._run = run
        self._over = over
        self._leash = leash
        self._chains = chains
        self._open = set(range(len(chains)))
        self._answered: dict[int, Answered] = {}
        self._members: dict[int, Member] = {}
        self._tasks: set[asyncio.Task[Member]] = set()

    def start(self, rules: RetryRules, limit_s: float) -> None:
        limits = self._run.means.limits
        share = max(MIB, limits.max_answer_bytes // len(self._chains))
        means = replace(self._run.means, drain=self._leash, limits=replace(limits, max_answer_bytes=share))
        deadline = min(self._run.deadline, asyncio.get_running_loop().time() + limit_s)
        for chain in self._chains:
            self._run.tally.move("", chain.first.target_id)
        for place in range(len(self._chains)):
            part = replace(self._run, means=means, deadline=deadline, ending=self._ending(place))
            self._tasks.add(asyncio.create_task(self._member(place, part, rules)))

    @property
    def is_running(self) -> bool:
        return bool(self._tasks)

    @property
    def members(self) -> list[Member]:
        return [self._members[place] for place in sorted(self._members)]

    @property
    def answers(self) -> list[Answered]:
        return [self._answered[place] for place in sorted(self._answered)]

    async def heard(self, until: float = inf) -> list[Member]:
        """Members that have ended since; none when nothing happened until then (the loop's clock)."""
        left_s = None if until == inf else max(0.0, until - asyncio.get_running_loop().time())
        done, self._tasks = await asyncio.wait(self._tasks, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        ended = [task.result() for task in done]
        self._members |= {member.place: member for member in ended}
        return ended

    def cut(self, why: str) -> None:
        """Nobody waits any longer for those that still run."""
        self._leash.end(why)

    async def stop(self) -> None:
        """Every member's call is over afterwards, whatever happened."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def nobody(self, status: int) -> Result:
        """The answer to the client when nobody said anything."""
        members = self.members
        if all(member.is_returned for member in members):
            return members[0].result
        return none_answered([member.reason for member in members], self._run.tally.ended, status)

    async def _member(self, place: int, part: Run, rules: RetryRules) -> Member:
        chain = self._chains[place]
        result = await ask(part, chain, rules)
        return Member(place, chain, result, self._answered.get(place))

    def _ending(self, place: int) -> Callable[[Ended], Link]:
        def ending(ended: Ended) -> Link:
            self._open.remove(place)
            text = answers.said(ended.answer)
            if text:
                self._answered[place] = Answered(ended, text)
            return Link() if self._open else self._over(self.answers, ended)

        return ending


@asynccontextmanager
async def convened(
    run: Run, chains: Sequence[Chain], rules: RetryRules, over: Over, limit_s: float
) -> AsyncIterator[Panel]:
    """A panel whose calls are over when the block is left. Each has at most ``limit_s``."""
    with run.means.drain.child() as leash:
        panel = Panel(run, chains, over, leash)
        panel.start(rules, limit_s)
        try:
            yield panel
        finally:
            await panel.stop()
