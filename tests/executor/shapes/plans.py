"""Plans of several calls, upstreams that play their parts, and what the outcomes of a run say of its leases."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from omniroute.decision.v1 import decision_pb2
from omniroute.decision.v1.decision_pb2 import (
    AgenticTuning,
    FusionTuning,
    Outcome,
    PipelineStep,
    Plan,
    RetryRules,
    Target,
)
from omniroute.executor.v1 import executor_pb2
from tests.executor.conftest import Answer, House, request, target
from tests.executor.upstream import (
    DONE,
    ROLE,
    USAGE,
    Connection,
    Received,
    Script,
    Upstream,
    answer,
    completion,
    delta,
    event,
    stream,
)

NO_RETRIES = RetryRules(max_attempts=30, max_retries=0)
TOOL = {"type": "function", "function": {"name": "look_up", "description": "Looks it up", "parameters": {"a": 1}}}
ASKED = {"stream_options": {"include_usage": True}}
STREAMED = {"stream": True, **ASKED}


def says(text: str, pause_s: float = 0.0) -> Script:
    """Says a text in whichever form it is asked for."""

    async def play(received: Received, connection: Connection) -> None:
        if received.body.get("stream"):
            pieces = [event(delta(text[:2])), event(delta(text[2:])), event(delta(finish="stop")), event(USAGE), DONE]
            await stream(ROLE, *pieces, pause_s=pause_s)(received, connection)
        else:
            await asyncio.sleep(pause_s)
            await answer(200, completion(text))(received, connection)

    return play


def messages_of(upstream: Upstream, number: int = -1) -> list[dict[str, Any]]:
    """What a call was sent."""
    found: list[dict[str, Any]] = upstream.requests[number].body["messages"]
    return found


def priced(upstream: Upstream | str, name: str, **fields: Any) -> Target:
    """A target whose tokens cost one USD each, in and out."""
    return target(upstream, name, **{"input_price": 1e6, "output_price": 1e6, **fields})


def with_fallbacks(first: Target, *fallbacks: Target) -> Target:
    first.fallbacks.extend(fallbacks)
    return first


def fusion(panel: Iterable[Target], judge: Target, **tuning: int) -> Plan:
    told = {"min_panel": 2, "straggler_grace_ms": 8_000, "panel_hard_timeout_ms": 90_000, **tuning}
    return Plan(shape=Plan.SHAPE_FUSION, targets=panel, judge=judge, fusion=FusionTuning(**told), retry=NO_RETRIES)


def pipeline(*steps: Target) -> Plan:
    told = [PipelineStep(target=step) for step in steps]
    return Plan(shape=Plan.SHAPE_PIPELINE, steps=told, retry=NO_RETRIES)


def agentic(*targets: Target, max_tool_rounds: int = 8) -> Plan:
    limits = AgenticTuning(max_tool_rounds=max_tool_rounds)
    return Plan(shape=Plan.SHAPE_AGENTIC, targets=targets, agentic=limits, retry=NO_RETRIES)


def fanout(*targets: Target) -> Plan:
    return Plan(shape=Plan.SHAPE_FANOUT, targets=targets, retry=NO_RETRIES)


def single(*targets: Target) -> Plan:
    return Plan(shape=Plan.SHAPE_SINGLE, targets=targets, retry=NO_RETRIES)


def asking(plan: Plan, body: dict[str, Any] | bytes | None = None, **fields: Any) -> executor_pb2.ExecuteRequest:
    return request([], body=body, plan=plan, **fields)


async def run(house: House, plan: Plan, body: dict[str, Any] | bytes | None = None, **fields: Any) -> Answer:
    """Everything that one Execute of the plan sent; its outcomes are checked against the plan's leases."""
    got = Answer()
    async for response in house.stub.Execute(asking(plan, body, **fields), timeout=20):
        got.events.append(response)
    check_leases(plan, own(got))
    return got


def own(got: Answer) -> list[Outcome]:
    """Outcomes of the decision itself."""
    return [outcome for outcome in got.outcomes if outcome.decision_id == "d1"]


def says_what(got: Answer) -> str:
    """The text that the client got, in either form; a stream is whole."""
    if got.headers["content-type"].startswith("text/event-stream"):
        assert got.data.endswith(DONE)
        return got.text
    return str(got.json["choices"][0]["message"]["content"])


def links(got: Answer) -> dict[str, tuple[str, str, bool]]:
    """By attempt in order of start: target, class, what follows and whether that is the end."""
    told = {}
    for outcome, name in sorted(zip(got.outcomes, got.classes, strict=True), key=lambda pair: pair[0].attempt):
        told[f"{outcome.attempt} {outcome.target_id}"] = (name, outcome.next_target_id, outcome.final)
    return told


def check_leases(plan: Plan, outcomes: list[Outcome]) -> None:
    """The decision service's view of a run: every call has a lease, every lease a call, and one outcome is the last."""
    chains = list(_chains(plan))
    leases = set(_first(plan))
    for outcome in outcomes:
        name = f"attempt {outcome.attempt} of {outcome.target_id}"
        assert outcome.target_id in leases, f"{name} had no lease, there were {leases}"
        leases.remove(outcome.target_id)
        if outcome.final:
            break
        following = outcome.next_target_id
        if not following and outcome.outcome_class != decision_pb2.OUTCOME_CLASS_SUCCESS:
            following = _fallback(chains, outcome.target_id)
        if following:
            leases.add(following)
    assert [outcome.final for outcome in outcomes] == [False] * (len(outcomes) - 1) + [True]
    assert not leases, f"leases without a call: {leases}"
    assert len({outcome.attempt for outcome in outcomes}) == len(outcomes)


def _fallback(chains: list[list[str]], target_id: str) -> str:
    [chain] = [chain for chain in chains if target_id in chain]
    return "".join(chain[chain.index(target_id) + 1 :][:1])


def _chains(plan: Plan) -> Iterable[list[str]]:
    """Ids of the calls that are tried one after the other."""
    if plan.shape == Plan.SHAPE_SINGLE:
        yield [each.target_id for each in plan.targets]
        return
    if plan.shape == Plan.SHAPE_AGENTIC:
        yield [each.target_id for each in _with(plan.targets[0])]
        yield [each.target_id for executor in plan.targets[1:] for each in _with(executor)]
        return
    for each in (*plan.targets, *(step.target for step in plan.steps), plan.judge):
        if each.HasField("nested"):
            yield from _chains(each.nested)
        else:
            yield [one.target_id for one in _with(each)]


def _with(first: Target) -> list[Target]:
    return [first, *first.fallbacks]


def _first(plan: Plan) -> Iterable[str]:
    """Ids of the calls that begin at once."""
    if plan.shape == Plan.SHAPE_PIPELINE:
        yield plan.steps[0].target.target_id
        return
    several = plan.shape in (Plan.SHAPE_FUSION, Plan.SHAPE_FANOUT)
    for each in plan.targets if several else plan.targets[:1]:
        if each.HasField("nested"):
            yield from _first(each.nested)
        else:
            yield each.target_id
