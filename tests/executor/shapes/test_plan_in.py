"""Plans as they come over the wire: what is read of them, and which are refused, naming the field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc.aio
import pytest

from executor.model import Operation, RetryRules, Shape
from executor.plan import Chain, FusionTuning
from executor.plan_wire import MAX_DEPTH, MAX_PANEL, plan_in
from omniroute.decision.v1 import decision_pb2
from omniroute.decision.v1.decision_pb2 import HandOff, PipelineStep, Plan, Target
from omniroute.decision.v1.decision_pb2 import RetryRules as Rules
from service_kit.errors import Reason, ServiceError, from_rpc_error
from tests.executor.conftest import House, target
from tests.executor.shapes.plans import agentic, asking, fanout, fusion, pipeline, single, with_fallbacks

URL = "http://127.0.0.1:9/v1"


def at(name: str, **fields: Any) -> Target:
    return target(URL, name, **fields)


def nested(plan: Plan, name: str = "n") -> Target:
    return Target(target_id=name, nested=plan)


def ids(chain: Chain) -> list[str]:
    return [each.target_id for each in chain.targets]


def test_a_fusion_is_read() -> None:
    inner = fusion([at("2/1"), at("2/2")], at("2/judge"))
    inner.ClearField("retry")
    plan = fusion([with_fallbacks(at("1"), at("1.1")), nested(inner)], with_fallbacks(at("judge"), at("judge.1")))
    plan.retry.CopyFrom(Rules(max_attempts=7, max_retries=2))
    plan.fusion.straggler_grace_ms = 0
    read = plan_in(plan)
    assert read.shape is Shape.FUSION
    assert [ids(chain) for chain in read.chains] == [["1", "1.1"], []]
    assert ids(read.judge) == ["judge", "judge.1"]
    assert read.tuning == FusionTuning(2, 0.0, 90.0)
    within = read.chains[1].nested
    assert within is not None
    assert (within.shape, within.retry) == (Shape.FUSION, RetryRules(7, 2)), "it has its outer plan's rules"
    assert (read.chains[1].first.target_id, ids(within.judge)) == ("2/1", ["2/judge"])


def test_what_is_left_out_has_its_usual_value() -> None:
    plan = Plan(shape=Plan.SHAPE_FUSION, targets=[at("1")], judge=at("judge"))
    assert plan_in(plan).tuning == FusionTuning(2, 8.0, 90.0)
    assert plan_in(plan).retry == RetryRules(30, 1)
    assert plan_in(Plan(shape=Plan.SHAPE_AGENTIC, targets=[at("1")])).max_tool_rounds == 8


def test_a_pipeline_and_an_agentic_plan_are_read() -> None:
    read = plan_in(pipeline(with_fallbacks(at("1"), at("1.1")), at("2")))
    assert [ids(chain) for chain in read.chains] == [["1", "1.1"], ["2"]]
    read = plan_in(agentic(at("1"), at("2"), with_fallbacks(at("3"), at("3.1")), max_tool_rounds=3))
    assert ([ids(chain) for chain in read.chains], read.max_tool_rounds) == ([["1"], ["2"], ["3", "3.1"]], 3)


def test_a_hand_off_is_read() -> None:
    plan = single(at("1"))
    plan.hand_off.CopyFrom(HandOff(summary="s", summarize=True, summarizer=at("summary")))
    read = plan_in(plan).hand_off
    assert read is not None
    assert (read.summary, read.summarize, read.summarizer and read.summarizer.target_id) == ("s", True, "summary")


def deep(levels: int) -> Plan:
    plan = fusion([at(f"{levels}")], at(f"judge{levels}"))
    for level in range(levels):
        plan = fusion([nested(plan)], at(f"judge-{level}"))
    return plan


def without_judge() -> Plan:
    plan = fusion([at("1")], at("judge"))
    plan.ClearField("judge")
    return plan


def summarized_by_nobody() -> Plan:
    plan = single(at("1"))
    plan.hand_off.CopyFrom(HandOff(summarize=True, summarizer=Target(target_id="summary")))
    return plan


def twice_nested() -> Plan:
    return fusion([at("1"), nested(single(at("1")))], at("judge"))


BAD: dict[str, tuple[Callable[[], Plan], str]] = {
    "an empty panel": (lambda: fusion([], at("judge")), "plan.targets"),
    "a large panel": (lambda: fanout(*(at(str(n)) for n in range(MAX_PANEL + 1))), "plan.targets"),
    "no judge": (without_judge, "plan.judge"),
    "a judge without an address": (lambda: fusion([at("1")], at("judge", base_url="")), "plan.judge.base_url"),
    "no steps": (pipeline, "plan.steps"),
    "a step without a target": (
        lambda: Plan(shape=Plan.SHAPE_PIPELINE, steps=[PipelineStep()]),
        "plan.steps[0].target.target_id",
    ),
    "no planner": (agentic, "plan.targets"),
    "too many rounds": (lambda: agentic(at("1"), max_tool_rounds=33), "plan.agentic.max_tool_rounds"),
    "fallbacks in a chain": (lambda: single(with_fallbacks(at("1"), at("2"))), "plan.targets[0].fallbacks"),
    "fallbacks of fallbacks": (
        lambda: fanout(with_fallbacks(at("1"), with_fallbacks(at("1.1"), at("1.1.1")))),
        "plan.targets[0].fallbacks[0].fallbacks",
    ),
    "a fallback without a connection": (
        lambda: fanout(with_fallbacks(at("1"), at("1.1", connection_id=""))),
        "plan.targets[0].fallbacks[0].connection_id",
    ),
    "a plan in a chain": (lambda: single(nested(single(at("1")))), "plan.targets[0].nested"),
    "a plan as a step": (lambda: pipeline(nested(single(at("1")))), "plan.steps[0].target.nested"),
    "a plan as a judge": (lambda: fusion([at("1")], nested(single(at("2")))), "plan.judge.nested"),
    "a bad plan inside": (lambda: fusion([nested(pipeline())], at("judge")), "plan.targets[0].nested.steps"),
    "a plan without a shape inside": (lambda: fusion([nested(Plan())], at("judge")), "plan.targets[0].nested.shape"),
    "too deep": (lambda: deep(MAX_DEPTH + 1), "plan" + ".targets[0].nested" * (MAX_DEPTH + 1)),
    "one id twice, in a plan inside": (twice_nested, "plan.targets"),
    "one id twice, as a judge": (lambda: fusion([at("1")], at("1")), "plan.targets"),
    "a summarizer without a connection": (summarized_by_nobody, "plan.hand_off.summarizer.connection_id"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_plans(name: str) -> None:
    make, field = BAD[name]
    with pytest.raises(ServiceError) as refused:
        plan_in(make())
    assert (refused.value.reason, refused.value.field) == (Reason.INVALID_FIELD, field)
    assert "allowed" in refused.value.message


def test_the_deepest_plan_is_read() -> None:
    assert plan_in(deep(MAX_DEPTH)).chains[0].nested is not None


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"operation": decision_pb2.OPERATION_EMBEDDINGS}, "operation"),
        ({"body": {"messages": []}}, "body.messages"),
        ({"body": {"messages": "hello"}}, "body.messages"),
    ],
)
async def test_a_body_that_no_plan_of_several_calls_can_use(house: House, fields: dict[str, Any], field: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        async for _ in house.stub.Execute(asking(fanout(at("1")), **fields), timeout=20):
            pass
    assert from_rpc_error(refused.value).field == field
    assert Operation.CHAT in str(refused.value.details()) or "a list" in str(refused.value.details())
