"""Clients by the thousand that leave at any moment: nobody is blamed, and nothing of their requests is left behind."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from decision_service.persistence import STORED_SEPARATOR
from omniroute.decision.v1 import decision_pb2
from tests.e2e.footprint import Figures, Footprint, figures, footprints
from tests.e2e.leaving import SURFACES, Endless, Leaver
from tests.e2e.stack import Provided, Stack, running, until
from tests.executor.shapes.plans import says

AT_ONCE = 64
CALLS_PER_HOST = 4
WARM_UP = 200
KEPT_IDLE_S = 1
MIB = 2**20
# A decision is remembered for late outcomes and for those who ask about it.
REMEMBERED_BYTES = 8 * 1024
OVER_LIMIT_S = 60.0
NEXT_LIMIT_S = 5.0
KINDS = ("breaker", "cooldown", "lockout", "exclusion")


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[Stack]:
    """One of the test's own, in which calls queue for a provider, and idle connections do not live long."""
    async with running(
        tmp_path,
        OMNIROUTE_UPSTREAM_CALLS_PER_HOST=str(CALLS_PER_HOST),
        OMNIROUTE_UPSTREAM_KEEPALIVE_S=str(KEPT_IDLE_S),
    ) as stack:
        yield stack


@dataclass(frozen=True)
class Shape:
    """A policy, and whether its requests offer tools."""

    model: str
    tools: bool = False


@dataclass
class Zoo:
    """Providers that answer and providers that never end, and policies of every shape over them.

    ``alone`` are policies of which each has one of those that never end.
    """

    ends: list[Provided]
    endless: list[Provided]
    scripts: list[Endless]
    alone: list[str]
    shapes: dict[str, Shape]


async def zoo_of(stack: Stack, dice: random.Random) -> Zoo:
    """Every provider has served a few requests, so that there is something that could change."""
    plans = await stack.provider("planner", says("TOOLS\nLook it up."))
    ends = [plans, *[await stack.provider("well", says("well", 0.002)) for _ in range(2)]]
    endless = [await stack.provider("endless", says("well")) for _ in range(6)]
    for each in (*ends, *endless):
        for _ in range(3):
            served = await stack.chat(each.model)
            assert served.status == 200
            await stack.settled(served.decision_id)
    scripts = [Endless(random.Random(dice.random())) for _ in endless]
    for each, script in zip(endless, scripts, strict=True):
        each.upstream.scripts = [script]
    first, second, third, fourth, fifth, sixth = endless
    _, ant, bee = ends
    alone = [await stack.combo(each, strategy="auto") for each in endless]
    acts: dict[str, Any] = {"agenticOrchestration": {"enabled": True}}
    shapes = {
        "single": Shape(await stack.combo(first, second)),
        "fusion, in the panel": Shape(await stack.combo(ant, third, strategy="fusion", judgeModel=bee.model)),
        "fusion, at the judge": Shape(await stack.combo(ant, bee, strategy="fusion", judgeModel=second.model)),
        "pipeline": Shape(await stack.combo(ant, bee, fourth, strategy="pipeline")),
        "agentic": Shape(await stack.combo(plans, fifth, sixth, **acts), tools=True),
        "agentic, at the planner": Shape(await stack.combo(sixth, bee, **acts), tools=True),
        "fanout": Shape("auto/chaos"),
    }
    return Zoo(ends, endless, scripts, alone, shapes)


async def abandoned(stack: Stack, zoo: Zoo, dice: random.Random, count: int) -> Counter[str]:
    """So many requests over all shapes and surfaces, each left before its end; how much their clients heard."""
    kinds = [(shape, surface) for shape in zoo.shapes.values() for surface in SURFACES]
    left = iter(range(count))
    leaver = Leaver(stack.edge_port, dice)

    async def leave_on() -> None:
        for number in left:
            shape, surface = kinds[number % len(kinds)]
            await leaver.call(shape.model, surface, tools=shape.tools)

    await asyncio.gather(*(leave_on() for _ in range(AT_ONCE)))
    return leaver.heard


async def all_is_over(stack: Stack, zoo: Zoo) -> dict[str, Figures]:
    """What the metrics say once no service has anything under way."""

    async def over() -> dict[str, Figures] | None:
        told = {service.module: await figures(stack.http, service) for service in stack.services}
        quiet = (
            not told["edge_gateway"]["omniroute_edge_in_flight",]
            and not told["edge_gateway"]["omniroute_edge_report_queued",]
            and not told["executor"]["omniroute_executor_in_flight",]
            and not await stack.client.states("lease")
            and all(c.gone.is_set() for each in zoo.endless for c in each.upstream.connections)
        )
        return told if quiet else None

    found: dict[str, Figures] = await until(over, OVER_LIMIT_S)
    return found


async def machines(stack: Stack) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Everything that stops or slows a candidate."""
    found = {}
    for kind in KINDS:
        for key, state in (await stack.client.states(kind)).items():
            found[kind, key] = (state.state, state.reason, state.count, state.generation, state.until_ms)
    return found


async def factors(stack: Stack, zoo: Zoo) -> dict[str, dict[str, float]]:
    """What scoring makes of each provider that never ends, in a pool of its own."""
    found = {}
    for each, alone in zip(zoo.endless, zoo.alone, strict=True):
        request = decision_pb2.DecideRequest(model=alone, seed=1)
        explained = await stack.client.decisions.Explain(decision_pb2.ExplainRequest(request=request))
        [row] = explained.decision.trace.candidates
        found[each.name] = dict(row.factors)
    return found


async def samples(stack: Stack, zoo: Zoo) -> dict[str, str]:
    """The statistics of those that never end, as they are on disk."""
    query = "SELECT key, state FROM health_states WHERE kind = 'statistics'"
    await asyncio.sleep(1.5)  # they are stored every second
    with closing(sqlite3.connect(stack.edge.log.parent / "data" / "omniroute.db")) as connection:
        rows = connection.execute(query).fetchall()
    names = {each.name for each in zoo.endless}
    return {key: str(state) for key, state in rows if key.split(STORED_SEPARATOR)[0] in names}


async def known(stack: Stack, zoo: Zoo) -> tuple[object, ...]:
    """All that routing knows of those that never end, and the machines of everybody."""
    told = await samples(stack, zoo)
    assert len(told) == len(zoo.endless)
    return await machines(stack), await factors(stack, zoo), told


async def back(stack: Stack, held: dict[str, Footprint]) -> dict[str, Footprint] | None:
    """What each service holds, once that is no more than before."""
    now = await footprints(stack)
    return now if all(now[module].within(held[module]) for module in held) else None


def outcomes(told: dict[str, Figures]) -> dict[str, float]:
    """Outcomes that the decision service took in, by class."""
    return {key[1]: n for key, n in told["decision_service"].items() if key[0] == "omniroute_outcomes_total"}


def only_the_callers_doing(told: dict[str, Figures]) -> None:
    """Nothing failed, nothing was refused, nothing was lost on its way."""
    assert outcomes(told).keys() == {"SUCCESS", "CLIENT_CANCELLED"}
    assert not told["decision_service"]["omniroute_abandoned_total",]
    figured = [(key, n) for each in told.values() for key, n in each.items()]
    lost = ("omniroute_odd_outcomes_total", "omniroute_edge_report_dropped_total", "omniroute_refusals_total")
    assert not [(key, n) for key, n in figured if key[0] in lost and n]
    attempts = {key[1] for key, _ in figured if key[0] == "omniroute_executor_attempts_total"}
    assert attempts == {"SUCCESS", "CLIENT_CANCELLED"}
    statuses = {key[2] for key, _ in figured if key[0] == "omniroute_edge_requests_total"}
    assert statuses == {"200", "499"}


async def every_decision_ended_once(stack: Stack) -> None:
    request = decision_pb2.ListDecisionsRequest(page_size=1_000)
    records = (await stack.client.decisions.ListDecisions(request)).records
    assert len(records) > WARM_UP
    for record in records:
        assert [outcome.final for outcome in record.outcomes].count(True) == 1, record


def left_at_every_moment(zoo: Zoo, heard: Counter[str], told: dict[str, Figures], count: int) -> None:
    """By what clients had heard, by what providers had done, and while a call waited for its turn."""
    assert heard.keys() == {"nothing", "the head", "words"}
    done = sum((script.left for script in zoo.scripts), Counter[str]())
    assert done.keys() == {"nothing", "half an answer", "the head", "no content", "words"}
    assert min(*heard.values(), *done.values()) > count / 500, (heard, done)
    names = {each.name for each in zoo.endless}
    ended = {key: n for key, n in told["executor"].items() if key[0] == "omniroute_executor_attempts_total"}
    cancelled = sum(n for (_, outcome, provider), n in ended.items() if outcome != "SUCCESS" and provider in names)
    assert cancelled - done.total() > count / 500, "calls were left in the queue for a provider"


async def the_next_is_served(stack: Stack, zoo: Zoo) -> None:
    """A request of every kind, once the providers are well."""
    for each in zoo.endless:
        each.upstream.scripts = [says("well")]
    async with asyncio.timeout(NEXT_LIMIT_S):
        for shape in zoo.shapes.values():
            for path, fields, offered in SURFACES.values():
                body = {"model": shape.model, **fields, **({"tools": offered} if shape.tools else {})}
                served = await stack.http.post(f"{stack.url}{path}", json=body)
                assert served.status_code == 200, served.text


# A process takes memory until its collector has come round once; what it takes after that is lost for good.
@pytest.mark.parametrize(
    ("count", "warm_up", "growth_bytes"),
    [
        pytest.param(1_000, WARM_UP, 16 * MIB, marks=pytest.mark.timeout(120), id="1000"),
        pytest.param(10_000, 6_000, 8 * MIB, marks=[pytest.mark.full, pytest.mark.timeout(600)], id="10000"),
    ],
)
async def test_nothing_is_left_of_clients_who_left(stack: Stack, count: int, warm_up: int, growth_bytes: int) -> None:
    dice = random.Random(count)
    zoo = await zoo_of(stack, dice)
    await abandoned(stack, zoo, dice, warm_up)
    await all_is_over(stack, zoo)
    await asyncio.sleep(2 * KEPT_IDLE_S)
    before, held = await known(stack, zoo), await footprints(stack)
    began = time.monotonic()
    heard = await abandoned(stack, zoo, dice, count)
    took_s = time.monotonic() - began
    told = await all_is_over(stack, zoo)
    now = await until(lambda: back(stack, held))
    grown = {module: footprint.resident - held[module].resident for module, footprint in now.items()}
    print(f"{count} clients left in {took_s:.1f} s: {dict(heard)}; bytes more than before: {grown}")
    only_the_callers_doing(told)
    await every_decision_ended_once(stack)
    left_at_every_moment(zoo, heard, told, count)
    for module, more in grown.items():
        assert more < growth_bytes + (count * REMEMBERED_BYTES if module == "decision_service" else 0), module
    assert await known(stack, zoo) == before
    await the_next_is_served(stack, zoo)
    assert not [service.module for service in stack.services if "Traceback" in service.said]
