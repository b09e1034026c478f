"""SINGLE: one call, the targets in order until one answers."""

from __future__ import annotations

from executor.chain import Result, Run, ask
from executor.plan import Plan


async def single(run: Run, plan: Plan) -> Result:
    return await ask(run, plan.chains[0], plan.retry)
