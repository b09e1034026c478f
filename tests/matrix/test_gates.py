"""Every policy against every gate: what is stopped is never chosen, and where all are stopped the refusal says why."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from omniroute.decision.v1 import decision_pb2 as pb
from tests.decision_service.client import Refusal, refused
from tests.matrix.conftest import Running
from tests.matrix.gates import GATES, Gate
from tests.matrix.policies import POLICIES, Policy
from tests.matrix.world import CANDIDATES, DAY_S, FAVOURITE, SESSION, World, calls, candidate_of, planned, window

pytestmark = pytest.mark.asyncio(loop_scope="module")
# How a trace lists those whom the plan has no call for, though nothing stops them.
NO_PART = "plan"
policies = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)


@pytest.fixture(scope="module", params=GATES, ids=lambda gate: gate.name)
def gate(request: pytest.FixtureRequest) -> Gate:
    chosen: Gate = request.param
    return chosen


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def some_stopped(gate: Gate, running: Running) -> AsyncIterator[World]:
    """The favourite has served everybody, under every policy. Then it is stopped, others are not."""
    async with running() as world:
        for policy in POLICIES:
            await serve_by_favourite(world, policy)
        await gate.block(world, gate.some)
        yield world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def all_stopped(gate: Gate, running: Running) -> AsyncIterator[World]:
    async with running() as world:
        await gate.block(world, CANDIDATES)
        yield world


async def ask(world: World, policy: Policy, gate: Gate | None = None, **fields: object) -> pb.DecideResponse:
    asks = dict(gate.asks) if gate else {}
    return await world.client.decide(policy.model, api_key_id=policy.key, include_trace=True, **asks, **fields)


async def serve_by_favourite(world: World, policy: Policy) -> None:
    """A conversation that the favourite serves: it is pinned, last known good, and in a batch of its own."""
    decision = await ask(world, policy, session_id=SESSION, session_explicit=True)
    served = next(call for call in calls(decision.plan) if candidate_of(call) == FAVOURITE)
    outcome = pb.Outcome(
        decision_id=decision.decision_id,
        attempt=1,
        target_id=served.target_id,
        outcome_class=pb.OUTCOME_CLASS_SUCCESS,
        latency_ms=50,
        output_tokens=10,
        final=True,
        quota=[window("weekly", 0.9, DAY_S)],
    )
    assert (await world.client.report(outcome)).accepted == 1


def rejections(decision: pb.DecideResponse) -> dict[str, pb.Rejection]:
    """What a trace tells of the gates, by candidate; it lists each candidate once."""
    rows = {row.candidate: row for row in decision.trace.candidates}
    assert len(rows) == len(decision.trace.candidates)
    assert all(row.HasField("rank") != row.HasField("rejection") for row in rows.values())
    stopped = {name: row.rejection for name, row in rows.items() if row.HasField("rejection")}
    return {name: rejection for name, rejection in stopped.items() if rejection.filter != NO_PART}


@policies
async def test_what_is_stopped_is_never_chosen(some_stopped: World, gate: Gate, policy: Policy) -> None:
    stopped = set(gate.some) if gate.acts(policy) else set()
    if policy.name in gate.in_part:
        stopped = set()
    told = set() if gate.keeps_out(policy) else stopped
    left = set(CANDIDATES) - stopped
    decisions = []
    for seed in range(policy.draws):
        in_conversation = {"session_id": SESSION, "session_explicit": True} if seed % 2 else {}
        decisions.append(await ask(some_stopped, policy, gate, seed=seed, **in_conversation))
    await some_stopped.end(decisions, "LOCAL_CANCELLED")
    for decision in decisions:
        assert decision.strategy == ("quota-share" if policy.name == "quota-share" else policy.strategy)
        assert planned(decision) <= left
        assert planned(decision) == left or not policy.whole
        assert planned(decision)
        assert rejections(decision).keys() == told
        for rejection in rejections(decision).values():
            assert (rejection.filter, rejection.reason) == (gate.filter, gate.reason)
            assert_rest(gate, rejection.until_ms if rejection.HasField("until_ms") else None)


def assert_rest(gate: Gate, rest_ms: int | None) -> None:
    """What is left of the gate's rest: some of it has passed, but not more than the test can have taken."""
    if gate.rest_s is None:
        assert rest_ms is None
    else:
        assert rest_ms is not None
        assert 1000 * (gate.rest_s - 60) < rest_ms <= 1000 * gate.rest_s


@policies
async def test_where_all_are_stopped_the_refusal_says_why(all_stopped: World, gate: Gate, policy: Policy) -> None:
    if not gate.acts(policy):
        decision = await ask(all_stopped, policy, gate)
        assert not rejections(decision)
        return
    refusal: Refusal = await refused(ask(all_stopped, policy, gate))
    assert (refusal.reason, refusal.code) == (gate.refusal.reason, gate.refusal.code), refusal.message
    assert_rest(gate, refusal.retry_after_ms)


async def test_the_pool_shows_what_is_stopped(some_stopped: World, gate: Gate) -> None:
    """Whatever the request does not decide."""
    if gate.asks:
        return
    policy = next(policy for policy in POLICIES if gate.acts(policy) and not gate.keeps_out(policy))
    request = pb.ListCandidatesRequest(model=policy.model, api_key_id=policy.key)
    views = (await some_stopped.client.decisions.ListCandidates(request, timeout=10.0)).candidates
    assert {view.candidate for view in views} == set(CANDIDATES)
    for view in views:
        assert view.reachable == (view.candidate not in gate.some)
        assert view.reachable or (view.rejection.filter, view.rejection.reason) == (gate.filter, gate.reason)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def untouched(running: Running) -> AsyncIterator[World]:
    async with running() as world:
        yield world


@policies
async def test_where_nothing_is_stopped_all_are_in_the_plan(untouched: World, policy: Policy) -> None:
    decision = await ask(untouched, policy)
    assert planned(decision) == set(CANDIDATES) or not policy.whole
    assert not rejections(decision)
