"""The unary methods of DecisionService, in process and with a clock in hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from omniroute.decision.v1 import decision_pb2 as pb
from tests.decision_service.client import outcome
from tests.decision_service.servicers.inprocess import InProcess, Refused, in_process


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[InProcess]:
    with in_process(tmp_path, "ant", "bee", "cat") as desk:
        yield desk


def test_a_decision_names_how_to_call_its_targets(desk: InProcess) -> None:
    decision = desk.decide("bee/m")
    [target] = decision.plan.targets
    assert (target.provider, target.model, target.connection_id) == ("bee", "m", "demo-bee")
    assert (target.dialect, target.base_url) == ("openai", "http://127.0.0.1:9/v1")
    assert target.timeout_ms == 120_000
    assert decision.lease_ms == 150_000
    assert decision.plan.shape == pb.Plan.SHAPE_SINGLE
    assert not decision.HasField("trace")


@pytest.mark.parametrize("set_by_s", [-3_600.0, -365 * 86_400.0])
def test_leases_run_out_and_rests_end_while_the_wall_clock_is_behind(desk: InProcess, set_by_s: float) -> None:
    for _ in range(2):
        desk.report(outcome(desk.decide("bee/m"), "NETWORK"))
    desk.decide("cat/m")
    desk.clock.now_s += set_by_s
    assert not desk.candidates("bee/m")["bee"].reachable
    assert desk.candidates("cat/m")["cat"].in_flight == 1
    desk.clock.pass_s(151.0)
    assert desk.candidates("bee/m")["bee"].reachable
    assert desk.candidates("cat/m")["cat"].in_flight == 0


def test_a_decision_takes_a_lease_and_its_outcome_ends_it(desk: InProcess) -> None:
    decision = desk.decide("bee/m")
    assert desk.candidates("bee/m")["bee"].in_flight == 1
    assert desk.report(outcome(decision, "SUCCESS")).accepted == 1
    assert desk.candidates("bee/m")["bee"].in_flight == 0


def test_a_lease_moves_with_the_attempts(desk: InProcess) -> None:
    decision = desk.decide("auto", seed=1)
    first, second, third = (target.provider for target in decision.plan.targets)
    desk.report(outcome(decision, "UPSTREAM_ERROR", final=False))
    views = desk.candidates("auto")
    assert (views[first].in_flight, views[second].in_flight, views[third].in_flight) == (0, 1, 0)
    desk.report(outcome(decision, "TIMEOUT", place=1, attempt=2, final=False, next_target_id="3"))
    desk.report(outcome(decision, "SUCCESS", place=2, attempt=3))
    assert {view.in_flight for view in desk.candidates("auto").values()} == {0}


def test_a_lease_runs_out_and_a_late_outcome_moves_no_breaker(desk: InProcess) -> None:
    late = [desk.decide("bee/m") for _ in range(3)]
    desk.clock.pass_s(149.9)
    assert desk.candidates("bee/m")["bee"].in_flight == 3
    desk.clock.pass_s(0.2)
    assert desk.candidates("bee/m")["bee"].in_flight == 0
    for decision in late:
        assert desk.report(outcome(decision, "UPSTREAM_ERROR")).accepted == 1
    assert desk.candidates("bee/m")["bee"].breaker == "CLOSED"


def test_two_failures_open_a_local_breaker_and_fifteen_seconds_rest_it(desk: InProcess) -> None:
    for _ in range(2):
        desk.report(outcome(desk.decide("bee/m"), "UPSTREAM_ERROR"))
    view = desk.candidates("bee/m")["bee"]
    assert (view.breaker, view.reachable, view.rejection.filter) == ("OPEN", False, "breaker")
    assert view.rejection.until_ms == 15_000
    with pytest.raises(Refused) as refused:
        desk.decide("bee/m")
    assert refused.value.code is grpc.StatusCode.UNAVAILABLE
    desk.clock.pass_s(15)
    probe = desk.decide("bee/m")
    assert probe.plan.targets[0].probe
    with pytest.raises(Refused):
        desk.decide("bee/m")
    desk.report(outcome(probe, "SUCCESS"))
    assert desk.candidates("bee/m")["bee"].breaker == "CLOSED"


def test_the_same_seed_makes_the_same_decision(desk: InProcess) -> None:
    """Explain has no effect, so that it can be asked twice over and then decided."""
    request = pb.DecideRequest(model="auto", seed=41, include_trace=True)
    explained = desk.call("Explain", pb.ExplainRequest(request=request))
    assert desk.call("Explain", pb.ExplainRequest(request=request)) == explained
    assert not explained.decision.decision_id
    decided = desk.call("Decide", request)
    assert decided.decision_id
    decided.decision_id = ""
    assert decided == explained.decision
    assert decided.seed == 41


def test_explain_always_traces_every_candidate(desk: InProcess) -> None:
    explained = desk.call("Explain", pb.ExplainRequest(request=pb.DecideRequest(model="auto"))).decision
    assert sorted(row.provider for row in explained.trace.candidates) == ["ant", "bee", "cat"]
    for row in explained.trace.candidates:
        assert len(row.factors) == 16
        assert row.score == pytest.approx(sum(row.contributions.values()))
    assert sum(explained.trace.weights.values()) == pytest.approx(1.0)


def test_a_refusal_is_an_answer_of_explain(desk: InProcess) -> None:
    error = desk.call("Explain", pb.ExplainRequest(request=pb.DecideRequest(model="bea/m"))).error
    assert error.reason == "MODEL_NOT_FOUND"
    assert "bee/m" in error.message
    assert error.code == grpc.StatusCode.NOT_FOUND.value[0]


def test_the_decisions_of_the_past_are_found_by_id(desk: InProcess) -> None:
    decision = desk.decide("bee/m", api_key_id="key-1", include_trace=True)
    told = outcome(decision, "SUCCESS", finish_reason="stop")
    desk.report(told)
    record = desk.record(decision.decision_id)
    assert record.decision == decision
    assert (record.model, record.api_key_id) == ("bee/m", "key-1")
    assert list(record.outcomes) == [told]
    with pytest.raises(Refused, match="decision_id") as refused:
        desk.record("dec_of_somebody_else")
    assert refused.value.code is grpc.StatusCode.NOT_FOUND


def test_a_repeated_outcome_is_on_record_once(desk: InProcess) -> None:
    decision = desk.decide("bee/m")
    told = outcome(decision, "UPSTREAM_ERROR")
    answers = [desk.report(told), desk.report(told), desk.report(told, told)]
    assert [(answer.accepted, answer.duplicates) for answer in answers] == [(1, 0), (0, 1), (0, 2)]
    assert list(desk.record(decision.decision_id).outcomes) == [told]
    assert desk.candidates("bee/m")["bee"].breaker == "CLOSED"


def test_decisions_are_listed_newest_first_by_page_and_filter(desk: InProcess) -> None:
    made = [
        desk.decide(model, api_key_id=key).decision_id for model in ("ant/m", "bee/m") for key in ("k1", "k2", "k2")
    ]

    def listed(**fields: Any) -> tuple[list[str], str]:
        answer = desk.call("ListDecisions", pb.ListDecisionsRequest(**fields))
        return [record.decision.decision_id for record in answer.records], answer.next_page_token

    assert listed() == (made[::-1], "")
    first, token = listed(page_size=4)
    second, end = listed(page_size=4, page_token=token)
    assert (first + second, end) == (made[::-1], "")
    assert listed(api_key_id="k1")[0] == [made[3], made[0]]
    assert listed(combo="bee/m", api_key_id="k2")[0] == [made[5], made[4]]
    assert listed(api_key_id="k2", page_size=3)[0] == [made[5], made[4], made[2]]
    assert listed(combo="nobody's") == ([], "")


@pytest.mark.parametrize("size", [-1, 1001])
def test_a_page_has_a_size_within_bounds(desk: InProcess, size: int) -> None:
    with pytest.raises(Refused, match=f"page_size: got {size}; allowed: 1 to 1000"):
        desk.call("ListDecisions", pb.ListDecisionsRequest(page_size=size))


def test_candidates_of_nothing_are_refused(desk: InProcess) -> None:
    with pytest.raises(Refused, match="model: got nothing"):
        desk.call("ListCandidates", pb.ListCandidatesRequest())
    with pytest.raises(Refused, match="near matches: ant/m"):
        desk.call("ListCandidates", pb.ListCandidatesRequest(model="aunt/m"))


def test_a_whole_report_is_answered_outcome_by_outcome(desk: InProcess) -> None:
    first, second = desk.decide("auto"), desk.decide("auto")
    answer = desk.report(
        outcome(first, "SUCCESS"),
        pb.Outcome(decision_id=first.decision_id, attempt=0, outcome_class=pb.OUTCOME_CLASS_SUCCESS),
        outcome(first, "SUCCESS"),
        pb.Outcome(decision_id=second.decision_id, attempt=1, target_id="9", outcome_class=pb.OUTCOME_CLASS_SUCCESS),
        pb.Outcome(decision_id=second.decision_id, attempt=1, target_id="1"),
        outcome(second, "SUCCESS", next_target_id="8", final=False),
        outcome(second, "SUCCESS"),
    )
    assert (answer.accepted, answer.duplicates) == (2, 1)
    fields = {rejected.index: rejected.field for rejected in answer.rejected}
    assert fields == {1: "attempt", 3: "target_id", 4: "outcome_class", 5: "next_target_id"}


def test_a_request_id_is_remembered_for_sixty_seconds(desk: InProcess) -> None:
    first = desk.decide("bee/m", request_id="r")
    desk.clock.pass_s(59.9)
    assert desk.decide("bee/m", request_id="r") == first
    desk.clock.pass_s(0.2)
    assert desk.decide("ant/m", request_id="r").decision_id != first.decision_id
