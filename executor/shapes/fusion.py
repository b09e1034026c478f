"""FUSION: a panel answers at once, and a judge makes one answer of theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import inf

from executor import bodies
from executor.attempt import Ended
from executor.chain import Link, Result, Run, ask
from executor.model import Target
from executor.plan import Chain, FusionTuning, Plan
from executor.problems import Problem
from executor.shapes.panel import Answered, Panel, convened

NO_ANSWER = 503
NOT_WAITED_FOR = "the panel did not wait for it"


async def fusion(run: Run, plan: Plan) -> Result:
    """One answer of the panel is the answer itself; with two or more the judge is asked."""

    def over(answers: Sequence[Answered], last: Ended) -> Link:
        if len(answers) > 1:
            return Link(judges(plan, answers)[0].target_id)
        return run.ending(answers[0].ended if answers else last)

    part = run.asking(bodies.plain(run.call.body))
    async with convened(part, plan.chains, plan.retry, over, plan.tuning.limit_s) as panel:
        await _hear(panel, plan.tuning, len(plan.chains))
    answers = panel.answers
    if len(answers) > 1:
        return await _judged(run, plan, answers)
    return answers[0].ended if answers else panel.nobody(NO_ANSWER)


async def _hear(panel: Panel, tuning: FusionTuning, size: int) -> None:
    """Until all have ended, the panel's limit included, or the grace is over that begins with enough answers."""
    clock = asyncio.get_running_loop().time
    enough = min(max(2, tuning.min_panel), size)
    until, in_grace = inf, False
    while panel.is_running:
        await panel.heard(until)
        if not in_grace and len(panel.answers) >= enough:
            until, in_grace = clock() + tuning.grace_s, True
        if clock() >= until:
            panel.cut(NOT_WAITED_FOR)
            until = inf


async def _judged(run: Run, plan: Plan, answers: Sequence[Answered]) -> Result:
    """The judge's answer; if no judge comes to one, the first of the panel's."""
    first = answers[0].ended

    def ending(ended: Ended) -> Link:
        return run.ending(ended if ended.answer is not None else first)

    body = bodies.judging(run.call.body, [answered.text for answered in answers])
    result = await ask(run.asking(body, ending), Chain(judges(plan, answers)), plan.retry)
    return first if isinstance(result, Problem) else result


def judges(plan: Plan, answers: Sequence[Answered]) -> tuple[Target, ...]:
    """Who may judge, in order: the judge's own model, then who answered in panel order, then the rest.

    The panel's first model judges where no other was named; if it has just failed to answer, those who did go first.
    """
    head, leader = plan.judge.targets[0], plan.chains[0].first
    order = {_who(answered.target): place for place, answered in enumerate(answers)}
    named = _model(head) != _model(leader) or any(_model(answered.target) == _model(head) for answered in answers)

    def rank(target: Target) -> tuple[int, int]:
        place = order.get(_who(target), len(order))
        if named and _model(target) == _model(head):
            return (0, place)
        return (1 if place < len(order) else 2, place)

    return tuple(sorted(plan.judge.targets, key=rank))


def _model(target: Target) -> tuple[str, str]:
    return (target.provider, target.model)


def _who(target: Target) -> tuple[str, str, str]:
    return (target.provider, target.model, target.connection_id)
