"""Two executors behind one edge: losing one costs what was open at it, and nothing that comes after."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from statistics import median

import pytest
import pytest_asyncio

from service_kit.grpc_client import KEEPALIVE_MS, KEEPALIVE_TIMEOUT_MS
from tests.decision_service.process import Service
from tests.e2e.load import Load, kept_outcomes, shooting
from tests.e2e.open_streams import DIALECTS, OpenStream, Tap, open_stream
from tests.e2e.stack import Stack, good, running, until
from tests.executor.upstream import Connection, Received

pytestmark = pytest.mark.asyncio(loop_scope="module")
EXECUTE = "omniroute.executor.v1.ExecutorService/Execute"
GIVEN_UP_S = (KEEPALIVE_MS + KEEPALIVE_TIMEOUT_MS) / 1000
# Of each dialect; that all of them are at one executor is then no chance.
STREAMS = DIALECTS * 4


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    async with running(tmp_path_factory.mktemp("executors"), executors=2) as stack:
        yield stack


async def executed(stack: Stack, executor: Service) -> float:
    """Executions that it has ended."""
    return await stack.figure(executor, "omniroute_grpc_server_seconds_count", method=EXECUTE)


async def balanced(stack: Stack, model: str, calls: int = 20) -> bool:
    """Whether each executor gets its half of these, give or take a few."""
    before = [await executed(stack, each) for each in stack.executors]
    for _ in range(calls):
        assert (await stack.chat(model)).status == 200
    shares = [await executed(stack, each) - was for each, was in zip(stack.executors, before, strict=True)]
    return min(shares) >= 0.4 * sum(shares) > 0


async def ended(streams: Sequence[OpenStream], count: int, limit_s: float) -> list[OpenStream]:
    """The streams that have ended once there are ``count`` of them."""
    async with asyncio.timeout(limit_s):
        while ((found := [stream for stream in streams if stream.reading.done()]) and len(found) < count) or not found:
            await asyncio.sleep(0.01)
    return found


async def no_lease(stack: Stack) -> bool:
    return not await stack.client.states("lease")


async def pensive(received: Received, connection: Connection) -> None:
    """Good after a while, so that there is always a call under way."""
    await asyncio.sleep(0.3)
    await good(received, connection)


def all_served(load: Load) -> None:
    assert Counter(shot.status for shot in load.shots) == {200: len(load.shots)}
    assert all(shot.whole for shot in load.shots)


async def test_executions_go_to_each_in_turn(stack: Stack) -> None:
    ant = await stack.provider("ant")
    await until(lambda: balanced(stack, ant.model))


@pytest.mark.parametrize("rate", [20.0, pytest.param(50.0, marks=[pytest.mark.full, pytest.mark.timeout(180)])])
async def test_a_killed_executor_breaks_its_open_streams_alone(stack: Stack, rate: float) -> None:
    """Calls that were under way and not answered are carried out by the other, too."""
    tap, ant = Tap(), await stack.provider("ant")
    slow, cow = await stack.provider("tap", tap), await stack.provider("cow", pensive)
    await until(lambda: balanced(stack, ant.model))
    dying = stack.executors[0]
    async with AsyncExitStack() as opened:
        streams = [await opened.enter_async_context(open_stream(stack, each, slow.model)) for each in STREAMS]
        lost = round(await stack.figure(dying, "omniroute_executor_in_flight"))
        assert 0 < lost < len(streams), "each executor has some of them"
        async with shooting(stack, ant.model, cow.model, rate=rate) as load:
            await asyncio.sleep(1.0)
            await dying.kill()
            broken = await ended(streams, lost, 5.0)
            await asyncio.sleep(1.0)
            assert len(await ended(streams, lost, 0.1)) == lost
            await dying.start()
            await asyncio.sleep(1.0)
        tap.opened.set()
        await ended(streams, len(streams), 5.0)
    for stream in broken:
        assert stream.error["message"]
    for stream in set(streams) - set(broken):
        assert stream.last.startswith(stream.dialect.end)
    all_served(load)
    assert set((await kept_outcomes(stack, load.shots)).values()) == {1}
    for stream in streams:
        assert await stack.settled(stream.decision_id) == ["LOCAL_CANCELLED" if stream in broken else "SUCCESS"]
    await until(lambda: balanced(stack, ant.model))
    await until(lambda: no_lease(stack))


async def test_executors_are_renewed_one_by_one_without_a_failure(stack: Stack) -> None:
    ant = await stack.provider("ant")
    async with shooting(stack, ant.model, rate=20.0) as load:
        for executor in stack.executors:
            await until(lambda: balanced(stack, ant.model))
            assert await executor.terminate() == 0
            await executor.start()
    all_served(load)
    assert set((await kept_outcomes(stack, load.shots)).values()) == {1}


@pytest.mark.full
@pytest.mark.timeout(180)
async def test_a_silent_executor_is_given_up_after_a_bounded_time(stack: Stack) -> None:
    """What was sent to it waits until then, and is then carried out by the other."""
    tap, ant = Tap(), await stack.provider("ant")
    slow = await stack.provider("tap", tap)
    await until(lambda: balanced(stack, ant.model))
    silent, loop = stack.executors[0], asyncio.get_running_loop()
    async with AsyncExitStack() as opened:
        streams = [await opened.enter_async_context(open_stream(stack, each, slow.model)) for each in STREAMS]
        lost = round(await stack.figure(silent, "omniroute_executor_in_flight"))
        async with shooting(stack, ant.model, rate=20.0) as load:
            await asyncio.sleep(1.0)
            silent.freeze()
            frozen = loop.time()
            broken = await ended(streams, lost, GIVEN_UP_S + 3.0)
            took_s = loop.time() - frozen
            await asyncio.sleep(1.0)
            after = loop.time()
            await asyncio.sleep(3.0)
            silent.thaw()
            thawed = loop.time()
            await asyncio.sleep(2.0)
        calm = median(shot.took_s for shot in load.between(after, thawed))
        tap.opened.set()
        await ended(streams, len(streams), 5.0)
    all_served(load)
    waited = [shot.took_s for shot in load.between(frozen, after) if shot.took_s > 1.0]
    print(
        f"given up after {took_s:.1f} s; {len(waited)} of {len(load.between(frozen, after))} requests waited, "
        f"the longest {max(waited):.1f} s; afterwards median {calm:.3f} s"
    )
    assert took_s <= GIVEN_UP_S + 1.0
    assert max(shot.took_s for shot in load.shots) <= GIVEN_UP_S + 1.0
    assert max(shot.took_s for shot in load.between(after, thawed)) < 1.0
    assert all(stream.error["message"] for stream in broken)
    assert set((await kept_outcomes(stack, load.shots)).values()) == {1}
    await until(lambda: balanced(stack, ant.model))
