"""An edge that goes on while the decision service is away: earlier plans, for a while, for the like."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from edge_gateway.fallback import (
    PLAN_TTL_S,
    Decider,
    LastPlans,
)
from edge_gateway.patience import FAILURES_TO_SKIP, FIRST_SKIP_S, LONGEST_SKIP_S, Patience
from omniroute.decision.v1.decision_pb2 import DecideRequest, DecideResponse, Plan, RequestFeatures, Target
from service_kit.errors import Reason, ServiceError
from tests.edge_gateway.conftest import Open, chat
from tests.edge_gateway.fakes import decision

DEADLINE_S = 0.25
AWAY = ServiceError(Reason.UNAVAILABLE, "away")


class Watch:
    """A clock that stands until it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def asked(model: str = "auto", *, budget: str = "", **features: Any) -> DecideRequest:
    request = DecideRequest(model=model, api_key_id="k", features=RequestFeatures(**{"input_tokens": 100, **features}))
    if budget:
        request.controls.budget_usd, request.controls.budget_fallback = 0.01, budget
    return request


def answered(*, reusable: bool = True) -> DecideResponse:
    nested = Plan(targets=[Target(target_id="2/1", probe=True)])
    plan = Plan(targets=[Target(target_id="1", probe=True), Target(target_id="2", nested=nested)])
    return DecideResponse(decision_id="d", reusable=reusable, plan=plan)


def test_a_plan_serves_the_like_again_under_an_id_of_its_own() -> None:
    plans = LastPlans(Watch())
    plans.keep(asked(), answered())
    first, second = plans.find(asked(input_tokens=99)), plans.find(asked())
    assert first is not None
    assert second is not None
    assert len({first.decision_id, second.decision_id, "d"}) == 3
    assert not first.plan.targets[0].probe
    assert not first.plan.targets[1].nested.targets[0].probe


@pytest.mark.parametrize(
    "other",
    [
        asked(input_tokens=101),
        asked("auto/fast"),
        asked(has_tools=True),
        asked(needs_vision=True),
        asked(needs_audio=True),
        asked(needs_structured_output=True),
        asked(operation=2),
        asked(budget=" Hard "),
        DecideRequest(model="auto", api_key_id="other", features=RequestFeatures(input_tokens=1)),
    ],
)
def test_nothing_else_is_the_like(other: DecideRequest) -> None:
    plans = LastPlans(Watch())
    plans.keep(asked(), answered())
    assert plans.find(other) is None


def test_tools_that_may_not_be_called_are_none() -> None:
    plans = LastPlans(Watch())
    plans.keep(asked(), answered())
    assert plans.find(asked(has_tools=True, tool_choice_none=True)) is not None


def test_only_reusable_plans_are_kept_and_for_a_while() -> None:
    watch = Watch()
    plans = LastPlans(watch)
    plans.keep(asked(), answered(reusable=False))
    assert plans.find(asked()) is None
    plans.keep(asked(), answered())
    watch.now = PLAN_TTL_S - 1
    assert plans.find(asked()) is not None
    watch.now = PLAN_TTL_S
    assert plans.find(asked()) is None


def test_patience_runs_out_and_one_call_at_a_time_looks_again() -> None:
    watch = Watch()
    patience = Patience(watch)
    for _ in range(FAILURES_TO_SKIP):
        assert patience.allows()
        patience.failed()
    assert not patience.allows()
    watch.now += FIRST_SKIP_S
    assert patience.allows(), "the one that looks"
    assert not patience.allows(), "the others meanwhile"
    patience.failed()
    watch.now += FIRST_SKIP_S
    assert not patience.allows(), "longer each time"
    watch.now += LONGEST_SKIP_S
    assert patience.allows()
    patience.succeeded()
    assert patience.allows()
    assert patience.allows()


async def test_a_refusal_is_an_answer() -> None:
    async def refuse(_request: DecideRequest, _limit_s: float) -> DecideResponse:
        raise ServiceError(Reason.MODEL_NOT_FOUND, "no such model")

    decider = Decider(refuse, DEADLINE_S, Patience(Watch()), Watch())
    for _ in range(2 * FAILURES_TO_SKIP):
        with pytest.raises(ServiceError, match="no such model"):
            await decider.decide(asked())


async def test_a_policy_with_a_remote_router_gets_its_time_once_it_is_known() -> None:
    given: list[float] = []

    async def decide(_request: DecideRequest, limit_s: float) -> DecideResponse:
        given.append(limit_s)
        return DecideResponse(router_timeout_ms=2_000)

    decider = Decider(decide, DEADLINE_S, Patience(Watch()), Watch())
    for model in ("far", "far", "near"):
        await decider.decide(asked(model))
    assert given == [DEADLINE_S, DEADLINE_S + 2.0, DEADLINE_S]


async def test_a_request_waits_for_the_decision_service_once() -> None:
    """What the check of its key took is part of the deadline, as long as an earlier plan can do."""
    given: list[float] = []

    async def decide(_request: DecideRequest, limit_s: float) -> DecideResponse:
        given.append(limit_s)
        return answered()

    decider = Decider(decide, DEADLINE_S, Patience(Watch()), Watch())
    assert not (await decider.decide(asked(), waited_s=1.0)).degraded
    assert not (await decider.decide(asked(), waited_s=0.1)).degraded
    assert (await decider.decide(asked(), waited_s=DEADLINE_S)).degraded
    assert not (await decider.decide(asked("another"), waited_s=DEADLINE_S)).degraded
    assert given == pytest.approx([DEADLINE_S, DEADLINE_S - 0.1, DEADLINE_S])


async def test_an_edge_without_its_decision_service(open_house: Open) -> None:
    house = await open_house(edge_decide_timeout_ms=200)
    house.decision.answer = decision(reusable=True)
    first = await house.post(chat())
    assert "x-omniroute-degraded" not in first.headers
    await house.decision.wait_for_outcomes(1)
    house.decision.refusal = AWAY
    answer = await house.post(chat())
    assert answer.status_code == 200
    assert answer.headers["x-omniroute-degraded"] == "true"
    assert answer.headers["x-omniroute-decision-id"].startswith("edge_")
    assert house.executor.asked[-1].decision_id == answer.headers["x-omniroute-decision-id"]
    await house.decision.wait_for_outcomes(2)
    strict = {"x-omniroute-budget": "0.01", "x-omniroute-budget-fallback": "strict"}
    assert (await house.post(chat(), strict)).status_code == 503
    other = await house.post(chat() | {"model": "auto/fast"})
    assert (other.status_code, other.headers["retry-after"]) == (503, "1")


async def test_a_slow_decision_service_costs_its_deadline_a_few_times_then_nothing(open_house: Open) -> None:
    house = await open_house(edge_decide_timeout_ms=150)
    house.decision.answer = decision(reusable=True)
    for _ in range(2):
        assert (await house.post(chat())).status_code == 200
    house.decision.delay_s = 2.0
    took = []
    for _ in range(FAILURES_TO_SKIP + 2):
        began = asyncio.get_running_loop().time()
        answer = await house.post(chat())
        took.append(asyncio.get_running_loop().time() - began)
        assert (answer.status_code, answer.headers["x-omniroute-degraded"]) == (200, "true")
    assert min(took[:FAILURES_TO_SKIP]) >= 0.15
    assert min(took[FAILURES_TO_SKIP:]) < 0.15, "the wait is skipped"
