"""Plans of several calls through the whole: fusion, pipeline, agentic and context-relay under OpenAI's own client."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from omniroute.decision.v1 import decision_pb2
from omniroute.registry.v1 import registry_pb2
from tests.e2e.stack import Provided, Stack, until
from tests.executor.shapes.plans import TOOL, says
from tests.executor.upstream import (
    Connection,
    Received,
    Script,
    answer,
    completion,
    delta,
    error_body,
    event,
    hang,
    stream,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
MODES = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])
MESSAGES: Any = [{"role": "user", "content": "Where do ants live?"}]
CALL = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"q":"ants"}'}}
TARGET_TIMEOUT_MS = 600


async def said(stack: Stack, model: str, *, streamed: bool, **fields: Any) -> str:
    """What the client of OpenAI hears."""
    chat = stack.openai().chat.completions
    asked: dict[str, Any] = {"model": model, "messages": MESSAGES, **fields}
    if not streamed:
        whole = await chat.create(**asked)
        return str(whole.choices[0].message.content)
    call = await chat.create(**asked, stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in call]
    assert chunks[-1].usage is not None
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


async def last_decision(stack: Stack, combo: str) -> decision_pb2.DecisionRecord:
    """The newest decision of a combo, once it is over; nothing of it is leased any more."""
    listed = await stack.client.decisions.ListDecisions(decision_pb2.ListDecisionsRequest(combo=combo))
    return await over(stack, listed.records[0].decision.decision_id)


async def over(stack: Stack, decision_id: str) -> decision_pb2.DecisionRecord:
    """A decision that ended once, with all its leases."""
    record = await stack.record(decision_id)
    assert [outcome.final for outcome in record.outcomes].count(True) == 1

    async def no_lease() -> bool:
        return decision_id not in await stack.client.states("lease")

    await until(no_lease)
    return record


def told(record: decision_pb2.DecisionRecord) -> dict[str, str]:
    """Outcome classes by attempt and target."""
    ordered = sorted(record.outcomes, key=lambda outcome: outcome.attempt)
    name = decision_pb2.OutcomeClass.Name
    return {f"{o.attempt} {o.target_id}": name(o.outcome_class).removeprefix("OUTCOME_CLASS_") for o in ordered}


def turns(provided: Provided, number: int = -1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = provided.upstream.requests[number].body["messages"]
    return found


# Every shape, all well


@MODES
async def test_a_fusion(stack: Stack, streamed: bool) -> None:
    panel = [await stack.provider("ant", says(text)) for text in ("in hills", "in trees", "in soil")]
    judge = await stack.provider("judge", says("everywhere"))
    combo = await stack.combo(*panel, strategy="fusion", judgeModel=judge.model)
    assert await said(stack, combo, streamed=streamed) == "everywhere"
    record = await last_decision(stack, combo)
    assert set(told(record).values()) == {"SUCCESS"}
    assert record.outcomes[-1].target_id == "judge"
    sources = turns(judge)[-1]["content"]
    assert sources.index("in hills") < sources.index("in trees") < sources.index("in soil")
    assert not any(ant.name in sources for ant in panel)


async def test_a_fusion_with_tools_is_the_judges_alone(stack: Stack) -> None:
    ant, judge = await stack.provider("ant"), await stack.provider("judge")
    combo = await stack.combo(ant, ant, strategy="fusion", judgeModel=judge.model)
    served = await stack.chat(combo, tools=[TOOL])
    assert (served.status, served.provider, ant.upstream.requests) == (200, judge.name, [])


async def test_a_fusion_of_combos(stack: Stack) -> None:
    draft, polish = await stack.provider("draft", says("draft")), await stack.provider("polish", says("polished"))
    ant, judge = await stack.provider("ant", says("ant")), await stack.provider("judge", says("judged"))
    inner = await stack.combo(draft, polish, strategy="pipeline")
    steps = [registry_pb2.ComboStep(kind="combo-ref", combo_name=inner), registry_pb2.ComboStep(model=ant.model)]
    await stack.client.add_combo("fusion-of-combos", steps, "fusion", {"judgeModel": judge.model})
    assert await said(stack, "fusion-of-combos", streamed=True) == "judged"
    record = await last_decision(stack, "fusion-of-combos")
    assert {name.split()[1] for name in told(record)} == {"1/1", "1/2", "2", "judge"}
    assert "polished" in turns(judge)[-1]["content"]
    assert turns(polish) == [{"role": "user", "content": "draft"}]


@MODES
async def test_a_pipeline(stack: Stack, streamed: bool) -> None:
    first, last = await stack.provider("first", says("draft")), await stack.provider("last", says("best"))
    name = f"pipeline-{streamed}"
    steps = [registry_pb2.ComboStep(model=p.model, prompt=f"You are {p.name}.") for p in (first, last)]
    await stack.client.add_combo(name, steps, "pipeline")
    assert await said(stack, name, streamed=streamed) == "best"
    assert told(await last_decision(stack, name)) == {"1 1": "SUCCESS", "2 2": "SUCCESS"}
    assert turns(first) == [{"role": "system", "content": f"You are {first.name}."}, *MESSAGES]
    assert turns(last)[1:] == [{"role": "user", "content": "draft"}]


def calls_a_tool(received: Received) -> Script:
    if received.body.get("stream"):
        pieces = event(delta(tool_calls=[{"index": 0, **CALL}])), event(delta(finish="tool_calls"))
        return stream(*pieces, b"data: [DONE]\n\n")
    return answer(200, completion("", "tool_calls", tool_calls=[CALL]))


async def acts(received: Received, connection: Connection) -> None:
    await calls_a_tool(received)(received, connection)


@MODES
async def test_an_agentic_conversation(stack: Stack, streamed: bool) -> None:
    planner = await stack.provider("planner", says("TOOLS\nLook ants up."))
    executor = await stack.provider("executor", acts)
    combo = await stack.combo(planner, executor, agenticOrchestration={"enabled": True, "maxToolRounds": 4})
    chat = stack.openai().chat.completions
    asked: Any = {"model": combo, "messages": MESSAGES, "tools": [TOOL]}
    if streamed:
        chunks = [chunk async for chunk in await chat.create(**asked, stream=True)]
        [call] = [call for chunk in chunks for c in chunk.choices for call in c.delta.tool_calls or ()]
    else:
        [call] = (await chat.create(**asked)).choices[0].message.tool_calls or []
    assert (call.id, call.function and call.function.name) == ("call_1", "look_up")
    assert told(await last_decision(stack, combo)) == {"1 1": "SUCCESS", "2 2": "SUCCESS"}
    assert "Look ants up." in str(turns(executor))
    planner.plays(says("FINAL"), says("underground"))
    done: Any = [*MESSAGES, {"role": "assistant", "content": None, "tool_calls": [CALL]}]
    done.append({"role": "tool", "tool_call_id": "call_1", "content": "underground, mostly"})
    assert await said(stack, combo, streamed=streamed, messages=done, tools=[TOOL]) == "underground"
    assert told(await last_decision(stack, combo)) == {"1 1": "SUCCESS", "2 1": "SUCCESS"}
    assert len(executor.upstream.requests) == 1


def low_on_quota() -> Script:
    """The same answers, from an account that has used nine tenths of its requests."""
    told = {"x-ratelimit-limit-requests": "100", "x-ratelimit-remaining-requests": "10"}

    async def play(received: Received, connection: Connection) -> None:
        is_summary = "JSON object" in str(received.body["messages"][-1]["content"])
        text = (
            orjson.dumps({"summary": "They spoke of ants.", "entities": ["ants"]}).decode() if is_summary else "Hello"
        )
        await answer(200, completion(text), told)(received, connection)

    return play


async def test_a_conversation_is_handed_over_with_its_summary(stack: Stack) -> None:
    low, spare = await stack.provider("low", low_on_quota()), await stack.provider("spare")
    combo = await stack.combo(low, spare, strategy="context-relay")
    session = {"x-omniroute-session": "of-ants"}
    for _ in range(2):
        served = await stack.chat(combo, "Where do ants live?", headers=session)
        assert (served.provider, served.attempts) == (low.name, 1)
        record = await last_decision(stack, combo)
    assert record.decision.plan.hand_off.summarize
    assert [outcome.target_id for outcome in record.outcomes] == ["1"]
    assert len(low.upstream.requests) == 3
    low.plays(answer(429, error_body("slow down"), {"retry-after": "90"}))
    moved = await stack.chat(combo, "And bees?", headers=session)
    assert (moved.provider, moved.attempts) == (spare.name, 2)
    await stack.settled(moved.decision_id)
    later = await stack.chat(combo, "And wasps?", headers=session)
    assert (later.provider, later.attempts) == (spare.name, 1)
    first, second = turns(spare)
    assert first["role"] == "system"
    assert "They spoke of ants." in first["content"]
    assert second["content"] == "And wasps?"


# Faults


async def state_of(stack: Stack, provided: Provided) -> dict[tuple[str, str], Any]:
    """What moved of a provider's, its connection's and its model's state, waits in tens of seconds."""
    client, found = stack.client, {}
    for kind in ("breaker", "cooldown", "lockout"):
        for key, state in (await client.states(kind)).items():
            moved = (state.reason, state.count, -(-state.until_ms // 10_000))
            if key.startswith(provided.name) and moved != ("", 0, 0):
                found[kind, key.replace(provided.name, "")] = (state.state, *moved)
    return found


async def test_a_straggler_is_nobodys_fault(stack: Stack) -> None:
    well, late = [await stack.provider("well") for _ in range(2)], await stack.provider("late", hang)
    judge = await stack.provider("judge", says("judged"))
    tuning = {"minPanel": 2, "stragglerGraceMs": 100}
    combo = await stack.combo(*well, late, strategy="fusion", judgeModel=judge.model, fusionTuning=tuning)
    assert await said(stack, combo, streamed=True) == "judged"
    record = await last_decision(stack, combo)
    assert sorted(told(record).values()) == ["LOCAL_CANCELLED", "SUCCESS", "SUCCESS", "SUCCESS"]
    assert await state_of(stack, late) == {}


async def test_a_panel_of_which_nobody_answers(stack: Stack) -> None:
    bad = [await stack.provider("bad", answer(500, error_body(f"ill {n}"))) for n in range(2)]
    served = await stack.chat(await stack.combo(*bad, strategy="fusion", maxRetries=0), stream=True)
    assert (served.status, served.error["code"]) == (503, "all_targets_failed")
    assert [member["provider"] for member in served.error["members"]] == [each.name for each in bad]
    assert sorted(await stack.settled(served.decision_id)) == ["UPSTREAM_ERROR"] * 2


async def test_a_step_that_fails_is_named(stack: Stack) -> None:
    first, bad = await stack.provider("well"), await stack.provider("bad", answer(200, completion("")))
    served = await stack.chat(await stack.combo(first, bad, strategy="pipeline", maxRetries=0), stream=True)
    assert served.status == 502
    assert f"step 2 ({bad.model})" in served.error["message"]


@pytest.mark.parametrize("shape", ["fusion", "pipeline", "agentic"])
async def test_hanging_up_leaves_everybody_and_blames_nobody(stack: Stack, shape: str) -> None:
    late = [await stack.provider("late", hang) for _ in range(2)]
    if shape == "agentic":
        combo = await stack.combo(*late, agenticOrchestration={"enabled": True})
    else:
        combo = await stack.combo(*late, strategy=shape)
    first = late if shape == "fusion" else late[:1]
    asking = asyncio.create_task(stack.chat(combo, stream=True, tools=[TOOL] if shape == "agentic" else []))

    async def asked() -> bool:
        return all(each.upstream.requests for each in first)

    await until(asked)
    asking.cancel()
    for each in first:
        await asyncio.wait_for(each.upstream.connections[-1].gone.wait(), 5)
    record = await last_decision(stack, combo)
    assert set(told(record).values()) == {"CLIENT_CANCELLED"}
    assert [await state_of(stack, each) for each in late] == [{}] * 2
