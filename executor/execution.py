"""One execution from the plan to the last event."""

from __future__ import annotations

from executor.chain import Run
from executor.delivery import deliver, done
from executor.plan import Plan
from executor.problems import Problem
from executor.shapes import handoff


async def execute(run: Run, plan: Plan) -> None:
    """Carry the plan out: outcomes, the client's answer, a summary where one was asked for, and the end."""
    async with handoff.making(run, plan) as summary:
        result = await run.carry(handoff.handed_over(run, plan.hand_off), plan)
        await deliver(run, result, closing=not summary.is_awaited)
        besides_usd = 0.0 if isinstance(result, Problem) else await summary.send()
    await run.sink(done(run, result, besides_usd))
