"""Plans of several calls as Decide answers them: who has which part, what is leased, and how leases move."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import grpc
import pytest
import pytest_asyncio

from omniroute.decision.v1 import decision_pb2 as pb
from omniroute.registry.v1 import registry_pb2
from tests.decision_service.client import LIMIT_S, refused
from tests.matrix.conftest import Running
from tests.matrix.gates import models, outcome
from tests.matrix.policies import ALL_PROVIDERS, EACH_PROVIDER
from tests.matrix.test_gates import rejections
from tests.matrix.world import CANDIDATES, FAVOURITE, World, calls, candidate_of, only, planned, step, window

pytestmark = pytest.mark.asyncio(loop_scope="module")
SECOND, ACCOUNTS = CANDIDATES[1], CANDIDATES[2:]
FUSION, PIPELINE = pb.Plan.SHAPE_FUSION, pb.Plan.SHAPE_PIPELINE
AGENTIC, FANOUT, SINGLE = pb.Plan.SHAPE_AGENTIC, pb.Plan.SHAPE_FANOUT, pb.Plan.SHAPE_SINGLE
TOOLS = pb.RequestFeatures(has_tools=True)
ROLES = {"agenticOrchestration": {"enabled": True, "maxToolRounds": 3}}
NUMBERS = count(1)


@pytest_asyncio.fixture(loop_scope="module")
async def world(running: Running) -> AsyncIterator[World]:
    async with running() as world:
        yield world


async def combo(world: World, strategy: str, *steps: registry_pb2.ComboStep, **config: Any) -> str:
    name = f"combo-{next(NUMBERS)}"
    await world.store(name, steps or EACH_PROVIDER, strategy, config)
    return name


def ref(name: str, **fields: Any) -> registry_pb2.ComboStep:
    return registry_pb2.ComboStep(combo_name=name, **fields)


async def decide(world: World, model: str, **features: Any) -> pb.DecideResponse:
    asked = pb.RequestFeatures(**features)
    return await world.client.decide(model, features=asked, include_trace=True)


async def leased(world: World, decision: pb.DecideResponse) -> list[str]:
    """The candidates that a decision holds leases on, sorted."""
    request = registry_pb2.ListStatesRequest(kind="lease", page_size=1000)
    answer = await world.client.machines.ListStates(request, timeout=LIMIT_S)
    return sorted(state.reason for state in answer.states if state.key == decision.decision_id)


async def report(world: World, decision: pb.DecideResponse, outcome_class: str, target: str, **fields: Any) -> None:
    told = pb.Outcome(
        decision_id=decision.decision_id,
        target_id=target,
        outcome_class=pb.OutcomeClass.Value(f"OUTCOME_CLASS_{outcome_class}"),
        **{"attempt": 1, **fields},
    )
    answer = await world.client.report(told)
    assert answer.accepted == 1, answer


async def over(world: World, decision: pb.DecideResponse, attempt: int = 99) -> None:
    """The last outcome ends everything."""
    await report(world, decision, "LOCAL_CANCELLED", calls(decision.plan)[0].target_id, attempt=attempt, final=True)
    assert await leased(world, decision) == []


def chain(target: pb.Target) -> list[str]:
    """A call with its fallbacks."""
    return [candidate_of(target), *map(candidate_of, target.fallbacks)]


def assert_ids_differ(plan: pb.Plan) -> None:
    repeated = [name for name, times in Counter(call.target_id for call in calls(plan)).items() if times > 1]
    assert not repeated


# Fusion


async def test_a_fusion_asks_everybody_at_once_and_has_a_judge(world: World) -> None:
    decision = await decide(world, await combo(world, "fusion"))
    plan = decision.plan
    assert plan.shape == FUSION
    assert_ids_differ(plan)
    assert [chain(member) for member in plan.targets] == [[FAVOURITE], [SECOND], [*ACCOUNTS]]
    assert chain(plan.judge) == [*CANDIDATES], "the first of the panel, then the others"
    tuning = plan.fusion
    assert (tuning.min_panel, tuning.straggler_grace_ms, tuning.panel_hard_timeout_ms) == (2, 8_000, 90_000)
    assert await leased(world, decision) == sorted([FAVOURITE, SECOND, ACCOUNTS[0]])
    await over(world, decision)


async def test_leases_of_a_panel_end_one_by_one_and_the_judge_has_one_when_it_begins(world: World) -> None:
    decision = await decide(world, await combo(world, "fusion"))
    await report(world, decision, "SUCCESS", "1")
    assert await leased(world, decision) == sorted([SECOND, ACCOUNTS[0]])
    await report(world, decision, "NETWORK", "3", attempt=2)
    assert await leased(world, decision) == sorted([SECOND, ACCOUNTS[1]]), "its fallback"
    await report(world, decision, "SUCCESS", "2", attempt=3, next_target_id="judge")
    assert await leased(world, decision) == sorted([FAVOURITE, ACCOUNTS[1]])
    await report(world, decision, "TIMEOUT", "judge", attempt=4)
    assert await leased(world, decision) == sorted([SECOND, ACCOUNTS[1]]), "the next judge"
    await report(world, decision, "SUCCESS", "judge.1", attempt=5, final=True)
    assert await leased(world, decision) == []


async def test_the_judge_may_be_named_and_falls_back_on_the_panel(world: World) -> None:
    named = await combo(world, "fusion", step(FAVOURITE), step(SECOND), judgeModel="a/m")
    decision = await decide(world, named)
    assert [chain(member) for member in decision.plan.targets] == [[FAVOURITE], [SECOND]]
    assert chain(decision.plan.judge) == [*ACCOUNTS, FAVOURITE, SECOND]
    await over(world, decision)


async def test_tools_go_to_the_judge_alone(world: World) -> None:
    named = await combo(world, "fusion", step(FAVOURITE), step(SECOND), judgeModel="a/m")
    decision = await decide(world, named, has_tools=True)
    assert decision.plan.shape == SINGLE
    assert [candidate_of(target) for target in decision.plan.targets] == [*ACCOUNTS, FAVOURITE, SECOND]
    await over(world, decision)


async def test_tools_that_may_not_be_called_are_none(world: World) -> None:
    decision = await decide(world, await combo(world, "fusion"), has_tools=True, tool_choice_none=True)
    assert decision.plan.shape == FUSION
    await over(world, decision)


async def test_a_panel_of_one_answers_directly(world: World) -> None:
    decision = await decide(world, await combo(world, "fusion", step(SECOND)))
    assert decision.plan.shape == SINGLE
    assert [candidate_of(target) for target in decision.plan.targets] == [SECOND]
    await over(world, decision)


async def test_a_combo_in_a_panel_is_a_plan_of_its_own(world: World) -> None:
    inner = await combo(world, "fusion", step(SECOND), ref(ALL_PROVIDERS))
    decision = await decide(world, await combo(world, "fusion", step(FAVOURITE), ref(inner)))
    plan = decision.plan
    assert_ids_differ(plan)
    nested = plan.targets[1].nested
    assert (plan.targets[1].target_id, nested.shape) == ("2", FUSION)
    assert [member.target_id for member in nested.targets] == ["2/1", "2/2"]
    innermost = nested.targets[1].nested
    assert innermost.shape == SINGLE
    assert [candidate_of(target) for target in innermost.targets] == [*CANDIDATES]
    assert await leased(world, decision) == sorted([FAVOURITE, SECOND, FAVOURITE])
    await report(world, decision, "NETWORK", innermost.targets[0].target_id)
    assert await leased(world, decision) == sorted([FAVOURITE, SECOND, SECOND]), "the next of the innermost chain"
    await over(world, decision)


async def test_a_panel_of_combos_alone_has_a_judge_too(world: World) -> None:
    decision = await decide(world, await combo(world, "fusion", ref(only(SECOND)), ref(only(FAVOURITE))))
    assert decision.plan.shape == FUSION
    assert chain(decision.plan.judge) == [SECOND, FAVOURITE]
    assert_ids_differ(decision.plan)
    await over(world, decision)


async def test_tools_at_a_panel_of_combos_go_to_the_first_of_them(world: World) -> None:
    decision = await decide(world, await combo(world, "fusion", ref(only(SECOND)), ref(ALL_PROVIDERS)), has_tools=True)
    assert decision.plan.shape == SINGLE
    assert planned(decision) == {SECOND}
    await over(world, decision)


async def test_a_panel_of_one_combo_is_that_combo(world: World) -> None:
    inner = await combo(world, "fusion", step(SECOND), step(FAVOURITE))
    decision = await decide(world, await combo(world, "fusion", ref(inner)))
    assert decision.plan.shape == FUSION
    assert [target.target_id for target in decision.plan.targets] == ["1", "2"]
    await over(world, decision)


async def test_a_panel_of_combos_that_all_rest_says_how_long(world: World) -> None:
    await outcome("RATE_LIMITED", retry_after_ms=90_000)(world, (FAVOURITE,))
    await outcome("RATE_LIMITED", retry_after_ms=60_000)(world, (SECOND,))
    panel = await combo(world, "fusion", ref(only(FAVOURITE)), ref(only(SECOND)))
    refusal = await refused(decide(world, panel))
    assert (refusal.reason, refusal.code) == ("NO_AVAILABLE_TARGET", grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert refusal.retry_after_ms is not None
    assert 0 < refusal.retry_after_ms <= 60_000
    assert planned(await decide(world, await combo(world, "fusion", ref(only(FAVOURITE)), ref(ALL_PROVIDERS)))) == {
        *ACCOUNTS
    }


# Pipeline


async def test_a_pipeline_has_its_steps_in_order_each_with_fallbacks_and_prompt(world: World) -> None:
    prompted = registry_pb2.ComboStep(model="a/m", prompt="Be brief.", step_id="second")
    decision = await decide(world, await combo(world, "pipeline", step(FAVOURITE), prompted, step(SECOND)))
    plan = decision.plan
    assert plan.shape == PIPELINE
    assert [chain(each.target) for each in plan.steps] == [[FAVOURITE], [*ACCOUNTS], [SECOND]]
    assert [each.target.prompt for each in plan.steps] == ["", "Be brief.", ""]
    assert {call.step_id for call in calls(plan) if call.provider == "a"} == {"second"}
    assert_ids_differ(plan)
    assert await leased(world, decision) == [FAVOURITE], "the first step alone"
    await report(world, decision, "SUCCESS", "1", next_target_id="2")
    assert await leased(world, decision) == [ACCOUNTS[0]]
    await report(world, decision, "OVERLOADED", "2", attempt=2, retry_after_ms=1)
    assert await leased(world, decision) == [ACCOUNTS[1]]
    await report(world, decision, "SUCCESS", "2.1", attempt=3, next_target_id="3")
    assert await leased(world, decision) == [SECOND]
    await report(world, decision, "SUCCESS", "3", attempt=4, final=True)
    assert await leased(world, decision) == []


@pytest.mark.parametrize(
    ("need", "first", "last"),
    [
        ("has_tools", {FAVOURITE, SECOND}, {SECOND}),
        ("needs_structured_output", {FAVOURITE, SECOND}, {SECOND}),
        ("needs_vision", {SECOND}, {FAVOURITE, SECOND}),
        ("needs_audio", {SECOND}, {FAVOURITE, SECOND}),
    ],
)
async def test_a_step_is_screened_for_what_it_is_sent(world: World, need: str, first: set[str], last: set[str]) -> None:
    """The first gets the conversation, the last the tools and the format."""
    able = ["tools", "structured_output", "vision", "audio"]
    await models({"capabilities": [f"-{name}" for name in able]}, {"capabilities": able})(world, (FAVOURITE,))
    both = await combo(world, "priority", step(FAVOURITE), step(SECOND))
    decision = await decide(world, await combo(world, "pipeline", ref(both), ref(both)), **{need: True})
    assert [set(chain(each.target)) for each in decision.plan.steps] == [first, last]


@pytest.mark.parametrize("strategy", ["pipeline", "priority"])
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("gone", ["hidden", "disconnected", "resting"])
async def test_a_role_that_nobody_can_take_refuses_the_plan(world: World, strategy: str, place: int, gone: str) -> None:
    """It is neither left out nor given to the next step."""
    model = await world.client.add_target("brief", api_key="a-key", provider_class="api_key")
    steps = [step(FAVOURITE)]
    steps.insert(place, registry_pb2.ComboStep(model=model))
    name = await combo(world, strategy, *steps, **({} if strategy == "pipeline" else ROLES))
    await lose(world, model, gone)
    refusal = await refused(decide(world, name, has_tools=True))
    assert refusal.reason == "NO_AVAILABLE_TARGET"
    roles = ("step 1", "step 2") if strategy == "pipeline" else ("the planner", "the executor")
    assert roles[place] in refusal.message
    limited = refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert limited == (gone == "resting") == (refusal.retry_after_ms is not None)


async def lose(world: World, model: str, how: str) -> None:
    """The one connection of a model serves nobody any more."""
    if how == "hidden":
        await world.client.add_model("brief", "brief-model", hidden=True)
    elif how == "resting":
        await world.client.attempt(model, "RATE_LIMITED", retry_after_ms=90_000)
    else:
        request = registry_pb2.DeleteConnectionRequest(id="brief-1")
        await world.client.connections.DeleteConnection(request, timeout=LIMIT_S)


# Agentic


async def test_an_agentic_plan_has_a_planner_and_executors(world: World) -> None:
    decision = await decide(world, await combo(world, "priority", **ROLES), has_tools=True)
    plan = decision.plan
    assert plan.shape == AGENTIC
    assert [chain(target) for target in plan.targets] == [[FAVOURITE], [SECOND], [*ACCOUNTS]]
    assert plan.agentic.max_tool_rounds == 3
    assert_ids_differ(plan)
    assert await leased(world, decision) == [FAVOURITE], "the planner alone"
    await report(world, decision, "SUCCESS", "1", next_target_id="2")
    assert await leased(world, decision) == [SECOND]
    await report(world, decision, "NETWORK", "2", attempt=2)
    assert await leased(world, decision) == [ACCOUNTS[0]]
    await report(world, decision, "SUCCESS", "3", attempt=3, next_target_id="1")
    assert await leased(world, decision) == [FAVOURITE], "the planner again"
    await report(world, decision, "SUCCESS", "1", attempt=4, final=True)
    assert await leased(world, decision) == []


async def test_without_tools_the_planner_answers(world: World) -> None:
    decision = await decide(world, await combo(world, "priority", **ROLES))
    assert [chain(target) for target in decision.plan.targets] == [[FAVOURITE]]
    await over(world, decision)


async def test_one_target_is_no_orchestra(world: World) -> None:
    decision = await decide(world, await combo(world, "priority", step(FAVOURITE), **ROLES), has_tools=True)
    assert decision.plan.shape == SINGLE
    await over(world, decision)


@pytest.mark.parametrize("strategy", ["auto", "headroom", "random"])
async def test_roles_belong_to_steps_whatever_the_strategy(world: World, strategy: str) -> None:
    accounts = registry_pb2.ComboStep(model="a/m")
    decision = await decide(world, await combo(world, strategy, accounts, step(SECOND), **ROLES), has_tools=True)
    assert [chain(target) for target in decision.plan.targets] == [[*ACCOUNTS], [SECOND]]
    await over(world, decision)


async def test_the_planner_needs_no_tools_but_the_format_of_the_answer(world: World) -> None:
    await models({"capabilities": ["-tools", "-structured_output"]})(world, (FAVOURITE,))
    both = await combo(world, "priority", step(FAVOURITE), step(SECOND))
    name = await combo(world, "priority", ref(both), ref(both), **ROLES)
    tools = await decide(world, name, has_tools=True)
    assert [chain(target) for target in tools.plan.targets] == [[FAVOURITE, SECOND], [SECOND]]
    formatted = await decide(world, name, needs_structured_output=True)
    assert [chain(target) for target in formatted.plan.targets] == [[SECOND]]
    assert FAVOURITE in rejections(formatted)


# Fan-out


async def test_a_fanout_asks_one_model_of_each_provider(world: World) -> None:
    decision = await decide(world, "auto/chaos")
    plan = decision.plan
    assert plan.shape == FANOUT
    assert [candidate_of(target) for target in plan.targets] == [ACCOUNTS[0], FAVOURITE, SECOND], "in pool order"
    assert {target.timeout_ms for target in plan.targets} == {120_000}
    assert (decision.exploration, decision.propensity) == (False, 1.0)
    assert_ids_differ(plan)
    assert await leased(world, decision) == sorted([ACCOUNTS[0], FAVOURITE, SECOND])
    await report(world, decision, "SUCCESS", "2")
    assert await leased(world, decision) == sorted([ACCOUNTS[0], SECOND])
    await report(world, decision, "NETWORK", "1", attempt=2)
    assert await leased(world, decision) == [SECOND]
    await report(world, decision, "SUCCESS", "3", attempt=3, final=True)
    assert await leased(world, decision) == []


@pytest.mark.parametrize("features", [{"has_tools": True}, {"needs_structured_output": True}])
async def test_what_a_panel_cannot_answer_goes_to_its_first_alone(world: World, features: dict[str, bool]) -> None:
    decision = await decide(world, "auto/chaos", **features)
    assert decision.plan.shape == SINGLE
    assert [candidate_of(target) for target in decision.plan.targets] == [ACCOUNTS[0], FAVOURITE, SECOND]
    await over(world, decision)


async def test_a_fanout_has_at_most_five(world: World) -> None:
    for number in range(4):
        await world.client.add_target(f"more-{number}", api_key="a-key", provider_class="api_key")
    assert len((await decide(world, "auto/chaos")).plan.targets) == 5


async def test_a_fanout_that_nothing_is_cheap_enough_for_begins_with_the_cheapest(world: World) -> None:
    controls = pb.RequestControls(budget_usd=1e-9)
    decision = await world.client.decide("auto/chaos", controls=controls)
    assert [candidate_of(target) for target in decision.plan.targets] == [FAVOURITE, SECOND, ACCOUNTS[0]]
    assert list(decision.opened_filters) == ["budget"]
    await over(world, decision)


# Context-relay


async def test_a_summary_is_made_by_who_is_there(world: World) -> None:
    config = {"handoffModel": "a/m"}
    name = await combo(world, "context-relay", step(FAVOURITE), step(SECOND), **config)
    await world.happen(FAVOURITE, "SUCCESS", quota=[window("weekly", 0.1, 3_600)])

    async def summarizer() -> str:
        decision = await world.client.decide(name, session_id="s")
        assert decision.plan.hand_off.summarize
        assert not decision.reusable, "an edge may not hand over by itself"
        assert planned(decision) == {FAVOURITE, SECOND}
        given = decision.plan.hand_off
        return candidate_of(given.summarizer) if given.HasField("summarizer") else ""

    assert await summarizer() == ACCOUNTS[0]
    await outcome("AUTH_FAILED")(world, ACCOUNTS[:2])
    assert await summarizer() == ACCOUNTS[2]
    await world.model("a", hidden=True)
    assert await summarizer() == "", "the serving model"


async def test_who_makes_summaries_serves_nobody(world: World) -> None:
    """Neither does its return end a wait, nor does it stand in the pool."""
    name = await combo(world, "context-relay", step(FAVOURITE), step(SECOND), handoffModel="a/m")
    await outcome("RATE_LIMITED", retry_after_ms=90_000)(world, (FAVOURITE, SECOND))
    await outcome("RATE_LIMITED", retry_after_ms=10_000)(world, ACCOUNTS)
    refusal = await refused(world.client.decide(name))
    assert refusal.retry_after_ms is not None
    assert refusal.retry_after_ms > 30_000
    views = await world.client.decisions.ListCandidates(pb.ListCandidatesRequest(model=name), timeout=LIMIT_S)
    assert {view.candidate for view in views.candidates} == {FAVOURITE, SECOND}
