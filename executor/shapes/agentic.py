"""AGENTIC: a planner decides whether tools are called next, and executors call them; the planner writes the end."""

from __future__ import annotations

import re
from enum import StrEnum
from itertools import chain

from executor import answers, bodies, turns
from executor.attempt import Ended
from executor.chain import Link, Result, Run, ask, walk
from executor.model import Target
from executor.plan import Chain, Plan
from executor.problems import Problem, last_failed

PLANNER, EXECUTOR = "the planner", "the executor"

_ROUTE = re.compile(r"\W*(?:(TOOLS|FINAL)\b[^\w\n]*|((?i:tools|final))[^\w\n]*(?:\n|\Z))")


class Route(StrEnum):
    """Who has the next word."""

    TOOLS = "TOOLS"
    FINAL = "FINAL"


async def agentic(run: Run, plan: Plan) -> Result:
    planner = tuple(plan.chains[0].targets)
    executors = tuple(chain.from_iterable(executor.targets for executor in plan.chains[1:]))
    body = run.call.body
    at_limit = turns.rounds(body["messages"]) >= plan.max_tool_rounds
    if not executors or not bodies.wants_tools(body) or at_limit:
        return await _final(run, plan, planner)
    fresh = not turns.continues(body["messages"])

    def ending(ended: Ended) -> Link:
        if ended.answer is None or ended.withheld:
            return run.ending(ended)
        route, _ = route_of(answers.said(ended.answer), fresh)
        return Link((executors[0] if route is Route.TOOLS else ended.attempt.target).target_id)

    routed = await ask(run.asking(bodies.routing(body), ending), Chain(planner), plan.retry, PLANNER)
    if isinstance(routed, Problem) or routed.withheld:
        return routed
    route, planned = route_of(answers.said(routed.answer), fresh)
    if route is Route.FINAL:
        return await _final(run, plan, _from(planner, routed.attempt.target))
    return await _tools(run.asking(bodies.planned(body, planned)), plan, executors)


def route_of(text: str, fresh: bool) -> tuple[Route, str]:
    """The planner's word and the plan below it; without a word, tools come first and an answer after their results."""
    found = _ROUTE.match(text)
    if found is None:
        return (Route.TOOLS if fresh else Route.FINAL), text.strip()
    return Route((found[1] or found[2]).upper()), text[found.end() :].strip()


async def _final(run: Run, plan: Plan, planner: tuple[Target, ...]) -> Result:
    return await ask(run.asking(bodies.without_tools(run.call.body)), Chain(planner), plan.retry, PLANNER)


async def _tools(run: Run, plan: Plan, executors: tuple[Target, ...]) -> Result:
    walked = await walk(run, executors, plan.retry)
    if walked.answered:
        return walked.last
    return last_failed(walked.attempts, walked.why, run.tally.ended, EXECUTOR)


def _from(planner: tuple[Target, ...], target: Target) -> tuple[Target, ...]:
    """The same targets, beginning with the one that has just answered."""
    return (target, *(other for other in planner if other is not target))
