"""Several reasons at once: which one is told, how long a caller is to wait, and what passes by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from omniroute.decision.v1 import decision_pb2 as pb
from omniroute.registry.v1 import registry_pb2
from tests.decision_service.client import refused
from tests.matrix.conftest import Running
from tests.matrix.gates import INCAPABLE, LIMITED, UNAVAILABLE, Refusal, models, outcome, quota
from tests.matrix.policies import POLICIES, SINGLE_SHAPE, Policy
from tests.matrix.test_gates import ask, rejections
from tests.matrix.world import CANDIDATES, FAVOURITE, HOUR_S, World, only, planned

pytestmark = pytest.mark.asyncio(loop_scope="module")
policies = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
chains = pytest.mark.parametrize("policy", [p for p in POLICIES if not p.shaped], ids=lambda policy: policy.name)
SECOND, ACCOUNTS = CANDIDATES[1], CANDIDATES[2:]
TOOLS = pb.RequestFeatures(has_tools=True)


async def told(world: World, policy: Policy, **fields: Any) -> tuple[Refusal, int]:
    """The refusal, and its wait in seconds, rounded up."""
    refusal = await refused(ask(world, policy, **fields))
    assert refusal.retry_after_ms is not None
    return Refusal(refusal.reason, refusal.code), -(-refusal.retry_after_ms // 1_000)


# Every candidate for a reason of its own


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mixed(running: Running) -> AsyncIterator[World]:
    """The favourite may not come in, the second comes soon, the accounts have used up what they had."""
    async with running() as world:
        await outcome("AUTH_FAILED")(world, (FAVOURITE,))
        await outcome("RATE_LIMITED", retry_after_ms=90_000)(world, (SECOND,))
        await quota("weekly", 0.0, HOUR_S)(world, ACCOUNTS)
        yield world


@policies
async def test_it_is_no_rate_limit_unless_every_reason_is_one(mixed: World, policy: Policy) -> None:
    refusal, wait_s = await told(mixed, policy)
    assert refusal == UNAVAILABLE
    assert 30 < wait_s <= 90, "the earliest of all"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def limited(running: Running) -> AsyncIterator[World]:
    """Limits of three kinds; the soonest to come back cannot call tools."""
    async with running() as world:
        await models({"capabilities": ["-tools"]})(world, (FAVOURITE,))
        await outcome("RATE_LIMITED", retry_after_ms=90_000)(world, (FAVOURITE,))
        await outcome("RATE_LIMITED", retry_after_ms=900_000, model_scoped=True)(world, (SECOND,))
        await outcome("QUOTA_EXHAUSTED")(world, ACCOUNTS)
        yield world


@policies
async def test_limits_of_several_kinds_are_a_rate_limit(limited: World, policy: Policy) -> None:
    refusal, wait_s = await told(limited, policy)
    assert refusal == LIMITED
    assert 30 < wait_s <= 90


@chains
async def test_who_cannot_do_it_is_not_waited_for(limited: World, policy: Policy) -> None:
    refusal, wait_s = await told(limited, policy, features=TOOLS)
    assert refusal == LIMITED
    assert 840 < wait_s <= 900


@chains
async def test_what_nobody_can_do_is_not_waited_for(limited: World, policy: Policy) -> None:
    refusal = await refused(ask(limited, policy, features=pb.RequestFeatures(needs_vision=True)))
    assert (refusal.reason, refusal.code) == (INCAPABLE.reason, INCAPABLE.code)
    assert refusal.retry_after_ms is None


# One candidate for several reasons


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def beset(running: Running) -> AsyncIterator[World]:
    """The favourite rests thrice: 90 s, five minutes, an hour."""
    async with running() as world:
        decisions = [await world.client.decide(only(FAVOURITE)) for _ in range(3)]
        await world.end(decisions[:1], "RATE_LIMITED", retry_after_ms=90_000)
        await world.end(decisions[1:2], "AUTH_FAILED")
        await world.end(decisions[2:], "MODEL_NOT_FOUND")
        yield world


@policies
async def test_it_is_told_once_by_the_first_gate_with_the_latest_end(beset: World, policy: Policy) -> None:
    decision = await ask(beset, policy)
    assert FAVOURITE not in planned(decision)
    (stop,) = rejections(decision).values()
    assert (stop.filter, stop.reason) == ("cooldown", "rate_limited")
    assert 1_000 * (HOUR_S - 60) < stop.until_ms <= 1_000 * HOUR_S


async def test_policy_goes_before_what_will_pass(beset: World) -> None:
    await beset.model("p", hidden=True)
    decision = await ask(beset, POLICIES[0])
    (stop,) = rejections(decision).values()
    assert (stop.filter, stop.HasField("until_ms")) == ("hidden", False)


# What passes by itself

SOON_MS = 400
PASSING = {
    "429": outcome("RATE_LIMITED", retry_after_ms=SOON_MS),
    "402": outcome("QUOTA_EXHAUSTED", retry_after_ms=SOON_MS),
    "529": outcome("OVERLOADED", retry_after_ms=SOON_MS),
    "quota": quota("session", 0.0, SOON_MS / 1_000),
}


@pytest.mark.parametrize("reason", PASSING)
async def test_it_is_back_at_the_end_of_its_rest(running: Running, reason: str) -> None:
    """Under every policy, and nothing has to happen for it."""
    async with running() as world:
        await PASSING[reason](world, CANDIDATES)
        refusal = await refused(ask(world, POLICIES[0]))
        assert refusal.reason == UNAVAILABLE.reason
        assert refusal.retry_after_ms is not None
        await asyncio.sleep(refusal.retry_after_ms / 1_000 + SOON_MS / 1_000)
        for policy in POLICIES:
            assert planned(await ask(world, policy)) == set(CANDIDATES) or not policy.whole


async def test_a_changed_credential_ends_what_the_old_one_brought(running: Running) -> None:
    async with running() as world:
        await outcome("AUTH_FAILED")(world, (FAVOURITE,))
        assert FAVOURITE not in planned(await ask(world, POLICIES[0]))
        await world.connection(FAVOURITE, credential=registry_pb2.CredentialInput(api_key="a-new-one"))
        assert FAVOURITE in planned(await ask(world, POLICIES[0]))


# Excluded by score

SCORED = {"auto": {"weights": {"taskFit": 1.0}}, "explorationRate": 0.0}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def excluding(running: Running) -> AsyncIterator[World]:
    """The favourite fits no task, but nobody else can call tools."""
    async with running() as world:
        await world.model("p", fitness={"default": 0.1})
        await models({}, {"capabilities": ["-tools"]})(world, (FAVOURITE,))
        yield world


@pytest.mark.parametrize("strategy", SINGLE_SHAPE)
async def test_who_is_excluded_by_score_is_out_but_empties_no_pool(excluding: World, strategy: str) -> None:
    """Only the `auto` strategy excludes; who is out stays out while the policy lives, whatever becomes of it."""
    policy = next(policy for policy in POLICIES if policy.name == f"by-{strategy}")
    await excluding.change(policy.name, "auto", SCORED)
    low = rejections(await ask(excluding, policy))[FAVOURITE]
    assert (low.filter, low.reason) == ("exclusion", "score 0.1000 < 0.2")
    await excluding.change(policy.name, strategy, SCORED)
    decision = await ask(excluding, policy)
    assert planned(decision) == set(CANDIDATES) - {FAVOURITE}
    out = rejections(decision)[FAVOURITE]
    assert (out.filter, out.reason) == ("exclusion", "excluded by score")
    assert 240_000 < out.until_ms <= 300_000
    assert planned(await ask(excluding, policy, features=TOOLS)) == {FAVOURITE}
