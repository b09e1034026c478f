"""``decide``, ``explain`` and ``candidates`` against a running decision service."""

from __future__ import annotations

import json
import re
from typing import Any

import grpc
import pytest

from omniroute.decision.v1 import decision_pb2 as pb
from omniroute.decision.v1 import decision_pb2_grpc
from tests.omnictl.commands.conftest import Omnictl

BIG, SMALL, OTHER = "openai/gpt-4o@oa1", "openai/gpt-4o-mini@oa1", "anthropic/claude-sonnet-4-6@an1"
POOL = {BIG, SMALL, OTHER}


def leases(omnictl: Omnictl) -> list[str]:
    return [state["key"] for state in omnictl("state", "list", "--kind", "lease", "--json").json]


def test_a_decision_is_shown_and_its_lease_given_back(omnictl: Omnictl) -> None:
    ran = omnictl("decide", "openai/gpt-4o")
    assert ran.status == 0, ran.err
    assert BIG in ran.out
    assert "propensity" in ran.out
    assert "reason" in ran.out
    assert "the lease was given back" in ran.out
    assert leases(omnictl) == []


def test_a_lease_is_kept_when_asked(omnictl: Omnictl, address: str) -> None:
    decision = omnictl("decide", "openai/gpt-4o", "--keep-lease", "--json").json
    assert leases(omnictl) == [decision["decision_id"]]
    outcome = pb.Outcome(
        decision_id=decision["decision_id"],
        attempt=1,
        target_id=decision["plan"]["targets"][0]["target_id"],
        outcome_class=pb.OUTCOME_CLASS_LOCAL_CANCELLED,
        final=True,
    )
    with grpc.insecure_channel(address) as channel:
        stub = decision_pb2_grpc.DecisionServiceStub(channel)
        assert stub.Report(pb.ReportRequest(outcomes=[outcome]), timeout=5).accepted == 1
    assert leases(omnictl) == []


def test_given_back_means_blamed_on_nobody(omnictl: Omnictl) -> None:
    for _ in range(12):
        assert omnictl("decide", "openai/gpt-4o", "--json").status == 0
    assert omnictl("state", "list", "--abnormal", "--json").json == []


def test_json_has_the_contract_names_and_short_enums(omnictl: Omnictl) -> None:
    decision = omnictl("decide", "auto", "--json", "--seed", str(2**64 - 1), "--trace").json
    assert decision["plan"]["shape"] == "SINGLE"
    assert decision["seed"] == 2**64 - 1
    assert decision["state"]["source"] == "LOCAL"
    assert {row["candidate"] for row in decision["trace"]["candidates"]} == POOL
    assert 0 < decision["propensity"] <= 1


def test_every_option_reaches_the_request(omnictl: Omnictl) -> None:
    request = ("--session", "s1", "--input-tokens", "5000", "--max-output", "100", "--tools", "--task", "coding")
    controls = ("--mode", "cheap", "--budget", "0.5", "--budget-fallback", "strict", "--min-context", "1000")
    answer = omnictl("explain", "auto", *request, *controls, "--effort", "auto", "--seed", "3", "--json").json
    decision = answer["decision"]
    assert decision["trace"]["task_type"] == "coding"
    assert decision["trace"]["weights_source"] == "cost-saver"
    assert decision["seed"] == 3
    assert decision["effort"] in ("low", "medium", "high")
    assert not decision["ignored_controls"]
    costs = {row["candidate"]: row["estimated_cost_usd"] for row in decision["trace"]["candidates"]}
    assert costs[BIG] == pytest.approx((5000 * 2.5 + 100 * 10) / 1e6)


def test_a_control_that_means_nothing_is_named(omnictl: Omnictl) -> None:
    assert "ignored controls" in omnictl("explain", "auto", "--mode", "sideways").out


def test_explain_lists_every_candidate_once_and_changes_nothing(omnictl: Omnictl) -> None:
    ran = omnictl("explain", "auto", "--seed", "5", "--vision", "--min-context", "200000")
    assert ran.status == 0, ran.err
    table = ran.out.split("why\n")[1].split("weights (")[0]
    for candidate in POOL:
        assert table.count(candidate) == 1
    for rejected in (BIG, SMALL):
        (line,) = [line for line in table.splitlines() if rejected in line]
        assert "context" in line
    for told in ("propensity", "seed", "weights (balanced)", "task type"):
        assert told in ran.out
    assert leases(omnictl) == []


def test_the_score_is_told_as_its_largest_parts(omnictl: Omnictl) -> None:
    answer = omnictl("explain", "auto", "--seed", "5", "--json").json
    first = answer["decision"]["trace"]["candidates"][0]
    name, value = max(first["contributions"].items(), key=lambda part: part[1])
    people = omnictl("explain", "auto", "--seed", "5").out
    (line,) = [line for line in people.splitlines() if line.lstrip().startswith("1 ")]
    assert f"{name} {value:.4g}" in line
    assert "runner-up" in people
    assert "margin" in people


def test_all_sixteen_factors_are_shown_when_asked(omnictl: Omnictl) -> None:
    asked = ("explain", "auto", "--seed", "5")
    factors = omnictl(*asked, "--json").json["decision"]["trace"]["candidates"][0]["factors"]
    assert len(factors) == 16
    brief, full = omnictl(*asked).out, omnictl(*asked, "--factors").out
    assert full.count(BIG) == brief.count(BIG) + 1
    assert "\nfactor" not in brief
    heading, _, rows = full.partition("\nfactor")
    last, line, weights, first = rows.split("\n")[:4]
    for name in factors:
        for part in re.split("(?=[A-Z])", name):
            assert part in heading + last
    assert line.startswith("─")
    assert [len(row.split()) for row in (weights, first)] == [17, 17]


@pytest.mark.parametrize("model", ["auto", "openai/gpt-4o"])
def test_a_decision_carried_home_is_made_again(omnictl: Omnictl, model: str) -> None:
    asked = ("explain", model, "--seed", "11", "--input-tokens", "700", "--task", "coding")
    there = omnictl(*asked, "--json").json["decision"]
    here = omnictl("simulate", "-", stdin=omnictl(*asked, "--dump").out).json
    names = [f"{t['provider']}/{t['model']}@{t['connection_id']}" for t in there["plan"]["targets"]]
    assert here["targets"] == names
    assert here["strategy"] == there["strategy"]
    scores = {row["candidate"]: row["score"] for row in there["trace"]["candidates"] if "score" in row}
    assert here["scores"] == pytest.approx(scores, abs=1e-9)


def test_an_order_without_scores_says_so(omnictl: Omnictl) -> None:
    assert "This strategy does not score." in omnictl("explain", "openai/gpt-4o", "--factors").out


@pytest.mark.parametrize("command", ["decide", "explain", "candidates"])
def test_an_unknown_model_is_one_line_with_advice(omnictl: Omnictl, command: str) -> None:
    line = omnictl(command, "nosuch/model").refused(1)
    assert "'nosuch/model'" in line
    assert "`omnictl connections list`" in line


def test_a_refused_explanation_is_json_too(omnictl: Omnictl) -> None:
    ran = omnictl("explain", "auto/a/b", "--json")
    ran.refused(1)
    assert json.loads(ran.out)["error"]["reason"] == "MODEL_NOT_FOUND"


def test_when_nothing_is_left_the_pool_says_why(omnictl: Omnictl, address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        stub = decision_pb2_grpc.DecisionServiceStub(channel)
        decision = stub.Decide(pb.DecideRequest(model="anthropic/claude-sonnet-4-6"), timeout=5)
        outcome = pb.Outcome(
            decision_id=decision.decision_id,
            attempt=1,
            target_id=decision.plan.targets[0].target_id,
            outcome_class=pb.OUTCOME_CLASS_RATE_LIMITED,
            http_status=429,
            retry_after_ms=600_000,
            final=True,
        )
        stub.Report(pb.ReportRequest(outcomes=[outcome]), timeout=5)
    try:
        ran = omnictl("explain", "anthropic/claude-sonnet-4-6")
        line = ran.refused(1)
        assert "try again in 10 min" in line or "try again in 9 min" in line
        assert "cooldown" in ran.out
        refused = omnictl("decide", "anthropic/claude-sonnet-4-6").refused(1)
        assert "`omnictl candidates MODEL`" in refused
        resting = omnictl("state", "list", "--abnormal")
        assert "RESTING" in resting.out
    finally:
        assert omnictl("state", "reset", "cooldown", "anthropic/an1").status == 0
    assert omnictl("state", "list", "--abnormal").out == "Nothing stops or slows a candidate.\n"


def test_a_pool_is_listed_with_prices_and_windows(omnictl: Omnictl) -> None:
    rows: list[dict[str, Any]] = omnictl("candidates", "auto", "--json").json["candidates"]
    assert {row["candidate"] for row in rows} == POOL
    assert all(row["reachable"] for row in rows)
    people = omnictl("candidates", "auto").out
    (line,) = [line for line in people.splitlines() if line.startswith(BIG)]
    assert line.split() == [BIG, "yes", "premium", "128k", "/", "16.4k", "2.5", "/", "10", "0"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain",),
        ("explain", "auto", "--input-tokens", "-1"),
        ("explain", "auto", "--input-tokens", str(2**32)),
        ("explain", "auto", "--seed", str(2**64)),
        ("explain", "auto", "--budget", "much"),
        ("explain", "auto", "--nonsense"),
        ("decide", "auto", "--timeout", "0"),
        ("nonsense",),
    ],
)
def test_wrong_usage_ends_with_status_2(omnictl: Omnictl, arguments: tuple[str, ...]) -> None:
    ran = omnictl(*arguments)
    assert ran.status == 2
    assert ran.out == ""
