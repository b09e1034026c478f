"""PIPELINE: steps one after the other, each going on with the text of the one before; the last answers the client."""

from __future__ import annotations

from executor import answers, bodies
from executor.attempt import Ended
from executor.chain import Ending, Link, Result, Run, ask
from executor.plan import Chain, Plan
from executor.problems import Problem, without_text


async def pipeline(run: Run, plan: Plan) -> Result:
    body = run.call.body
    for number, step in enumerate(plan.chains[:-1], 1):
        part = run.asking(bodies.plain(body), _onward(run, plan.chains[number]))
        result = await ask(part, step, plan.retry, _role(number, step))
        if isinstance(result, Problem) or result.withheld:
            return result
        text = answers.said(result.answer)
        if not text:
            return without_text(result.attempt.target, run.tally.ended, _role(number, step))
        body = bodies.instead(run.call.body, text)
    return await ask(run.asking(body), plan.chains[-1], plan.retry, _role(len(plan.chains), plan.chains[-1]))


def _onward(run: Run, following: Chain) -> Ending:
    """To the next step if there is a text to go on with."""

    def ending(ended: Ended) -> Link:
        return Link(following.first.target_id) if answers.said(ended.answer) else run.ending(ended)

    return ending


def _role(number: int, step: Chain) -> str:
    return f"step {number} ({step.first.provider}/{step.first.model})"
