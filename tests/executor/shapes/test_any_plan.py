"""Plans and faults at random: whatever happens, every lease has its call, one outcome is the last, and the answer fits.

`run` checks outcomes against a second, naive account of the leases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from omniroute.decision.v1.decision_pb2 import Plan, Target
from tests.executor.conftest import House, target
from tests.executor.shapes.plans import TOOL, agentic, fanout, fusion, pipeline, run, says, single, with_fallbacks
from tests.executor.shapes.test_matrix import FAULTS
from tests.executor.upstream import DONE, Upstream

SEEDS, PLANS_EACH = 6, 8
SLOW_S = 0.15


@dataclass
class Maker:
    """Makes plans out of upstreams that are well, slow, ill in some way, or of few words."""

    dice: Random
    ups: list[Upstream]
    made: int = 0
    makers: list[Callable[[str, int], Plan]] = field(default_factory=list)

    def plan(self, prefix: str = "", depth: int = 0) -> Plan:
        kinds = [self.fusion, self.pipeline, self.agentic, self.fanout, self.single]
        made: Plan = self.dice.choice(kinds)(prefix, depth)
        made.retry.max_attempts = self.dice.choice([2, 4, 30, 30])
        made.retry.max_retries = self.dice.choice([0, 0, 1])
        return made

    def call(self, name: str) -> Target:
        first = self.one(name)
        return with_fallbacks(first, *(self.one(f"{name}.{n}") for n in range(1, self.dice.randint(1, 3))))

    def one(self, name: str) -> Target:
        return target(self.dice.choice(self.ups), name, timeout_ms=250, model=self.dice.choice("ab"))

    def member(self, name: str, depth: int) -> Target:
        if depth < 2 and self.dice.random() < 0.25:
            return Target(target_id=name, nested=self.plan(f"{name}/", depth + 1))
        return self.call(name)

    def fusion(self, prefix: str, depth: int) -> Plan:
        members = [self.member(f"{prefix}{n}", depth) for n in range(1, self.dice.randint(2, 5))]
        grace = self.dice.choice([0, 100, 8_000])
        return fusion(members, self.call(f"{prefix}judge"), straggler_grace_ms=grace, panel_hard_timeout_ms=700)

    def fanout(self, prefix: str, depth: int) -> Plan:
        return fanout(*(self.member(f"{prefix}{n}", depth) for n in range(1, self.dice.randint(2, 4))))

    def pipeline(self, prefix: str, depth: int) -> Plan:
        return pipeline(*(self.call(f"{prefix}{n}") for n in range(1, self.dice.randint(2, 4))))

    def agentic(self, prefix: str, depth: int) -> Plan:
        return agentic(*(self.call(f"{prefix}{n}") for n in range(1, self.dice.randint(2, 5))))

    def single(self, prefix: str, depth: int) -> Plan:
        return single(*(self.one(f"{prefix}{n}") for n in range(1, self.dice.randint(2, 4))))


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_any_plan_ends_well(house: House, seed: int) -> None:
    scripts = [says("TOOLS\nAct."), says("FINAL"), says("good"), says("slow", SLOW_S), says("slower", 2 * SLOW_S)]
    ups = [await house.upstream(script) for script in (*scripts, *(fault.script for fault in FAULTS.values()))]
    dice = Random(seed)
    maker = Maker(dice, ups[:5] * 3 + ups[5:])
    await asyncio.gather(*(carried_out(house, maker.plan(), dice.random() < 0.5) for _ in range(PLANS_EACH)))


async def carried_out(house: House, plan: Plan, streamed: bool) -> None:
    asked: dict[str, Any] = {"stream": streamed, "tools": [TOOL]}
    got = await run(house, plan, asked, deadline_ms=3_000)
    assert got.kinds.count("head") == got.kinds.count("done") == 1
    assert got.kinds[-1] == "done"
    assert sorted(outcome.attempt for outcome in got.outcomes) == list(range(1, len(got.outcomes) + 1))
    assert got.done.attempts <= plan.retry.max_attempts
    if got.head.status == 200:
        assert got.data.endswith(DONE) is streamed
        assert got.head.model
    else:
        assert got.json["error"]["message"]
        assert 400 <= got.head.status < 600
