"""An edge is lost under load: what it had reported stays, what it held ends by itself, and the others go on."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from omniroute.decision.v1 import decision_pb2
from tests.e2e.load import shooting
from tests.e2e.open_streams import DIALECTS, Tap, open_stream
from tests.e2e.stack import Provided, Stack, running, until

pytestmark = pytest.mark.asyncio(loop_scope="module")
CALLED_OFF_S = 2.0
TARGET_TIMEOUT_MS = 1_000
LEASE_S = TARGET_TIMEOUT_MS / 1000 + 30
BUDGET_USD, RESERVED_USD = 10.0, 2.0
DEAR = {"input_price": 1.0, "output_price": 10_000.0}  # a token of output is a cent


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    async with running(tmp_path_factory.mktemp("lost"), edges=2) as stack:
        yield stack


async def running_executions(stack: Stack) -> float:
    return await stack.figure(stack.executor, "omniroute_executor_in_flight")


def outcomes_of(database: Path, *providers: Provided) -> int:
    places = ",".join("?" * len(providers))
    with closing(sqlite3.connect(database)) as connection:
        query = f"SELECT count(*) FROM outcomes WHERE provider IN ({places})"
        [count] = connection.execute(query, [each.name for each in providers]).fetchone()
    return int(count)


async def test_a_lost_edge_loses_no_acknowledged_report(stack: Stack) -> None:
    """Its executions are called off, and the other edge serves on."""
    tap = Tap()
    slow, ant, bee = await stack.provider("tap", tap), await stack.provider("ant"), await stack.provider("bee")
    dying, other = stack, stack.through(1)
    async with (
        AsyncExitStack() as opened,
        shooting(other, bee.model, rate=15.0) as whole,
        shooting(dying, ant.model, rate=15.0) as cut,
    ):
        for dialect in DIALECTS:
            await opened.enter_async_context(open_stream(dying, dialect, slow.model))
        await asyncio.sleep(1.5)
        accepted = await stack.figure(dying.edge, "omniroute_edge_reported_total", result="accepted")
        await dying.edge.kill()
        await until(lambda: _none_but_the_others(stack), CALLED_OFF_S)
        await asyncio.sleep(0.5)
        cut.over.set()
        await asyncio.sleep(0.5)
        await dying.edge.start()
    tap.opened.set()
    assert whole.shots
    assert all(shot.served for shot in whole.shots)
    assert accepted > 0
    assert outcomes_of(stack.database, ant) >= accepted
    assert outcomes_of(stack.database, ant) <= len(cut.shots)
    assert (await dying.chat(ant.model)).status == 200
    await until(lambda: _all_of(stack, bee, len(whole.shots)))


async def _none_but_the_others(stack: Stack) -> bool:
    """The load of the other edge has one in flight now and then; the streams of the lost one are over."""
    return await running_executions(stack) < len(DIALECTS)


async def _all_of(stack: Stack, provided: Provided, count: int) -> bool:
    found = outcomes_of(stack.database, provided)
    assert found <= count
    return found == count


@pytest.mark.full
@pytest.mark.timeout(180)
async def test_what_a_lost_edge_held_comes_back_by_itself(stack: Stack) -> None:
    """Leases, and the money that they reserve."""
    tap = Tap()
    slow, ant = await stack.provider("tap", tap, **DEAR), await stack.provider("ant", **DEAR)
    combo = await stack.combo(slow, targetTimeoutMs=TARGET_TIMEOUT_MS)
    made = await stack.client.add_key("spender", scopes=["inference"], limits={"usd_per_day": BUDGET_USD})
    key = {"authorization": f"Bearer {made.secret}"}
    other = stack.through(1)
    count = int(BUDGET_USD / RESERVED_USD) - 1
    body: dict[str, Any] = {"stream": True, "max_tokens": round(100 * RESERVED_USD), "headers": key}
    asked = [asyncio.create_task(stack.chat(combo, **body)) for _ in range(count)]
    await until(lambda: _in_flight(stack, slow, count))
    abandoned = await stack.figure(stack.decision, "omniroute_abandoned_total")
    await stack.edge.kill()
    killed = asyncio.get_running_loop().time()
    await asyncio.gather(*asked, return_exceptions=True)
    await stack.edge.start()
    big: dict[str, Any] = {"max_tokens": round(100 * RESERVED_USD * count), "headers": key}
    assert (await other.chat(ant.model, **big)).status == 402, "it is still reserved"
    await until(lambda: _in_flight(stack, slow, 0), LEASE_S + 10)
    took_s = asyncio.get_running_loop().time() - killed
    print(f"leases ended {took_s:.1f} s after their edge was lost")
    assert took_s <= LEASE_S + 2
    assert not [lease for lease in (await stack.client.states("lease")).values() if slow.name in lease.reason]
    assert await stack.figure(stack.decision, "omniroute_abandoned_total") == abandoned + count
    served = await other.chat(ant.model, **big)
    assert served.status == 200, "nothing was spent"
    await stack.settled(served.decision_id)
    breaker = (await stack.client.states("breaker"))[slow.name]
    assert (breaker.state, breaker.count) == ("CLOSED", 0), "an abandoned decision says nothing of its target"
    tap.opened.set()
    assert (await stack.chat(combo, **body)).status == 200


async def _in_flight(stack: Stack, provided: Provided, count: int) -> bool:
    request = decision_pb2.ListCandidatesRequest(model=provided.model)
    [view] = (await stack.client.decisions.ListCandidates(request)).candidates
    return view.in_flight == count
