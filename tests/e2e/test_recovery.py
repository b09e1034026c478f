"""A provider that dies costs clients nothing, and is used again when it is back."""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.stack import Stack, until

pytestmark = pytest.mark.asyncio(loop_scope="module")
LOCAL_FAILURES = 2  # of a local provider's breaker
LOCAL_REST_S = 15


async def test_a_killed_provider_costs_its_breakers_threshold_and_comes_back(stack: Stack) -> None:
    dying, well = await stack.provider("dying"), await stack.provider("well")
    combo = await stack.combo(dying, well)
    assert (await stack.chat(combo)).provider == dying.name
    await dying.upstream.stop()
    loop = asyncio.get_running_loop()
    wasted = 0
    for number in range(12):
        served = await stack.chat(combo, stream=bool(number % 2))
        assert (served.status, served.provider, served.text) == (200, well.name, "Hello")
        wasted += served.attempts - 1
        await stack.settled(served.decision_id)
    assert wasted == LOCAL_FAILURES
    opened = loop.time()
    breaker = (await stack.client.states("breaker"))[dying.name]
    assert (breaker.state, breaker.count) == ("OPEN", 1)
    assert 0 < breaker.until_ms <= 1000 * LOCAL_REST_S

    await dying.upstream.start()

    async def served_by_the_dead() -> bool:
        served = await stack.chat(combo)
        assert (served.status, served.attempts) == (200, 1)
        await stack.settled(served.decision_id)
        return served.provider == dying.name

    await until(served_by_the_dead, limit_s=LOCAL_REST_S + 15)
    assert loop.time() - opened > LOCAL_REST_S - 5
    assert (await stack.client.states("breaker"))[dying.name].state == "CLOSED"
    assert (await stack.chat(combo)).provider == dying.name


@pytest.mark.full
async def test_a_probe_that_fails_costs_the_client_nothing_either(stack: Stack) -> None:
    """Nobody else is sent to the provider while its probe is out."""
    dying, well = await stack.provider("dying"), await stack.provider("well")
    combo = await stack.combo(dying, well)
    await dying.upstream.stop()
    while (await stack.chat(combo)).attempts > 1:
        await asyncio.sleep(0.05)

    async def probed() -> bool:
        at_once = await asyncio.gather(*(stack.chat(combo) for _ in range(4)))
        assert {(served.status, served.provider) for served in at_once} == {(200, well.name)}
        for served in at_once:
            await stack.settled(served.decision_id)
        wasted = [served for served in at_once if served.attempts > 1]
        assert len(wasted) <= 1
        return bool(wasted)

    await until(probed, limit_s=LOCAL_REST_S + 15)
    breaker = (await stack.client.states("breaker"))[dying.name]
    assert (breaker.state, breaker.count) == ("OPEN", 2)


@pytest.mark.full
async def test_all_down_and_back(stack: Stack) -> None:
    """With nobody left clients hear 503 and when to come back; that promise holds."""
    dying = await stack.provider("dying")
    combo = await stack.combo(dying)
    await dying.upstream.stop()
    served = await until(lambda: _refused(stack, combo))
    assert served.error["code"] == "no_available_target"
    wait_s = int(served.headers["retry-after"])
    assert 0 < wait_s <= LOCAL_REST_S
    await dying.upstream.start()
    await asyncio.sleep(wait_s)
    assert (await stack.chat(combo)).status == 200


async def _refused(stack: Stack, combo: str) -> object:
    served = await stack.chat(combo)
    assert served.status in (502, 503)
    return served if served.status == 503 else None
