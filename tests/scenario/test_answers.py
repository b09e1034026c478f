"""What a scenario answers: keys, seeds, signals, and time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from decision_service.scenario import read_scenario, run

Answer = dict[str, Any]


def candidate(name: str, **more: Any) -> dict[str, Any]:
    provider, _, rest = name.partition("/")
    model, _, connection = rest.partition("@")
    return {"provider": provider, "model": model, "connection": connection, **more}


def answers(*events: dict[str, Any], candidates: list[Any] | None = None, **top: Any) -> list[Answer]:
    rows = [candidate("p/m@a"), candidate("q/m@b")] if candidates is None else candidates
    return list(run(read_scenario({"candidates": rows, "events": list(events), **top})))


def decide(model: str = "auto", **request: Any) -> dict[str, Any]:
    return {"decide": {"model": model, **request}}


def report(decision: int, outcome_class: str, **outcome: Any) -> dict[str, Any]:
    return {"report": {"decision": decision, "outcome_class": outcome_class, **outcome}}


DECISION_KEYS = {
    *("decision", "shape", "targets", "judge", "strategy", "router_strategy", "combo", "reason", "exploration"),
    *("propensity", "seed", "effort", "probe", "incident_mode", "opened_filters", "weights", "scores", "factors"),
    "rejected",
}


def test_a_decision_has_these_keys() -> None:
    (answer,) = answers(decide())
    assert set(answer) >= DECISION_KEYS
    assert (answer["decision"], answer["shape"], answer["judge"], answer["combo"]) == (0, "single", None, "auto")
    assert len(answer["weights"]) == len(answer["factors"]["p/m@a"]) == 16
    assert set(answer["scores"]) == {"p/m@a", "q/m@b"}
    json.dumps(answer, allow_nan=False)


def test_where_the_strategy_does_not_score_there_are_none() -> None:
    combos = [{"name": "c", "strategy": "priority", "steps": ["p/m", "q/m"]}]
    (answer,) = answers(decide("c"), combos=combos)
    assert (answer["weights"], answer["scores"], answer["factors"]) == ({}, {}, {})
    assert (answer["strategy"], answer["router_strategy"], answer["combo"]) == ("priority", None, "c")


def test_a_refusal_has_these_keys() -> None:
    (answer,) = answers(decide("nobody"))
    assert set(answer) == {"decision", "error"}
    assert set(answer["error"]) == {"reason", "message", "retry_after_ms"}
    assert (answer["error"]["reason"], answer["error"]["retry_after_ms"]) == ("MODEL_NOT_FOUND", None)


def test_what_is_rejected_says_why_and_until_when_from_its_own_instant() -> None:
    events = (
        decide(),
        report(0, "RATE_LIMITED", target="p/m@a", retry_after_ms=5_000),
        {"advance_ms": 2_000},
        decide(),
    )
    rows = [candidate("p/m@a", signals={"quality": 1, "p95_ms": 1}), candidate("q/m@b")]
    _, second = answers(*events, candidates=rows)
    assert second["rejected"] == [
        {"candidate": "p/m@a", "filter": "cooldown", "reason": "rate_limited", "until_ms": 3_000}
    ]


def test_policy_and_preference_are_among_the_rejected() -> None:
    rows = [candidate("p/m@a", input_price=0), candidate("q/m@b", input_price=5), candidate("r/m@c", input_price=0)]
    override = {"api_key_id": "k", "channel": "chat:free", "candidate": "p/m@a", "excluded": True}
    (answer,) = answers(decide("auto/best-free", api_key_id="k"), candidates=rows, overrides=[override])
    assert answer["targets"] == ["r/m@c"]
    stops = {stop["candidate"]: (stop["filter"], stop["until_ms"]) for stop in answer["rejected"]}
    assert stops == {"p/m@a": ("override", None), "q/m@b": ("tier", None)}


@pytest.mark.parametrize("channel", ["coding:cheap", "coding:floor"])
@pytest.mark.parametrize("model", ["auto/coding:cheap", "auto/coding:floor"])
def test_an_override_is_kept_by_the_resolved_channel(channel: str, model: str) -> None:
    override = {"api_key_id": "k", "channel": channel, "candidate": "p/m@a", "excluded": True}
    (answer,) = answers(decide(model, api_key_id="k"), overrides=[override])
    assert answer["targets"] == ["q/m@b"]


# Seeds


def test_the_nth_decide_uses_the_seed_plus_n_unless_it_names_its_own() -> None:
    got = answers(decide(), decide(), decide(seed=99), decide(), decide("nobody"), decide(), seed=7)
    assert [a.get("seed") for a in got] == [7, 8, 99, 10, None, 12]


def test_seeds_run_over_the_whole_range() -> None:
    assert answers(decide(), seed=2**63 - 1)[0]["seed"] == 2**63 - 1
    assert answers(decide(seed=2**64 - 1))[0]["seed"] == 2**64 - 1


def test_the_same_scenario_twice_answers_the_same() -> None:
    combos = [{"name": "c", "strategy": "random", "steps": ["p/m", "q/m"]}]
    events = [decide("c") for _ in range(20)]
    one, two = (answers(*events, combos=combos, seed=5) for _ in range(2))
    assert one == two
    assert len({tuple(a["targets"]) for a in one}) == 2


def test_the_format_and_every_part_but_the_events_may_be_absent() -> None:
    (answer,) = run(read_scenario({"events": [decide()]}))
    assert answer["error"]["reason"] == "NO_AVAILABLE_TARGET"


# Signals


def test_given_signals_are_fixed_and_the_others_learn() -> None:
    rows = [candidate("p/m@a", signals={"p95_ms": 700, "error_rate": 0})]
    events = [decide(), report(0, "UPSTREAM_ERROR", target="p/m@a", latency_ms=9_000)]
    *_, last = answers(*events, decide(), candidates=rows)
    factors = last["factors"]["p/m@a"]
    assert factors["reliability"] == 1.0
    assert factors["quality"] < 0.5


def test_in_flight_adds_to_the_live_leases() -> None:
    rows = [candidate("p/m@a", signals={"in_flight": 1}), candidate("q/m@b")]
    combos = [{"name": "c", "strategy": "least-used", "steps": ["p/m", "q/m"]}]
    got = answers(*[decide("c")] * 4, candidates=rows, combos=combos)
    assert [a["targets"][0][0] for a in got] == ["q", "p", "q", "p"]


@pytest.mark.parametrize(("provider_class", "rest"), [("api_key", 30_000), ("oauth", 60_000), ("local", 15_000)])
def test_a_breaker_holds_for_the_provider_and_rests_as_its_class_does(provider_class: str, rest: int) -> None:
    rows = [candidate("p/m@a", signals={"breaker": "CLOSED"}), candidate("p/m@b", signals={"breaker": "OPEN"})]
    providers = {"p": {"class": provider_class}}
    first, second, third = answers(
        decide(), {"advance_ms": rest - 1}, decide(), {"advance_ms": 1}, decide(), candidates=rows, providers=providers
    )
    assert first["error"]["retry_after_ms"] == rest
    assert second["error"]["retry_after_ms"] == 1
    assert third["probe"]


def test_half_open_has_its_probe_free() -> None:
    rows = [candidate("p/m@a", signals={"breaker": "HALF_OPEN"})]
    first, second = answers(decide(), decide(), candidates=rows)
    assert first["probe"]
    assert first["factors"]["p/m@a"]["health"] == 0.5
    assert second["error"]["reason"] == "NO_AVAILABLE_TARGET"


def test_fitness_reads_its_default_then_a_half() -> None:
    rows = [
        candidate("p/m@a", signals={"fitness": {"coding": 0.9}}),
        candidate("q/m@b", signals={"fitness": {"default": 0.2}}),
    ]
    (answer,) = answers(decide(task_type="review"), candidates=rows)
    assert [answer["factors"][c]["taskFit"] for c in ("p/m@a", "q/m@b")] == [0.5, 0.2]


def test_capabilities_are_had_lacked_or_unknown() -> None:
    rows = [
        candidate("p/m@a", capabilities=["vision", "-tools"]),
        candidate("q/m@b", capabilities=[]),
        candidate("r/m@c"),
    ]
    vision, tools = answers(decide(needs_vision=True), decide(has_tools=True), candidates=rows)
    assert vision["targets"] == ["p/m@a"]
    assert sorted(tools["targets"]) == ["q/m@b", "r/m@c"]


def test_an_operation_is_asked_of_the_models() -> None:
    rows = [candidate("p/m@a", capabilities=["-embeddings"]), candidate("q/m@b", capabilities=["embeddings", "-chat"])]
    chat, embeddings = answers(decide(), decide(operation="EMBEDDINGS"), candidates=rows)
    assert (chat["targets"], embeddings["targets"]) == (["p/m@a"], ["q/m@b"])


# What the candidates are


def test_pool_order_is_the_combos_and_a_channels_is_total() -> None:
    rows = [candidate("q/m@b"), candidate("p/n@a"), candidate("p/m@z")]
    combos = [{"name": "c", "strategy": "priority", "steps": ["q/m", "p/n", "p/m"]}]
    override = {"name": "s", "strategy": "auto", "config": {"routerStrategy": "score", "explorationRate": 0}}
    stored, channel = answers(decide("c"), decide("s"), candidates=rows, combos=[*combos, override])
    assert stored["targets"] == ["q/m@b", "p/n@a", "p/m@z"]
    assert channel["targets"] == ["p/m@z", "p/n@a", "q/m@b"]


def test_a_dynamic_step_takes_the_candidates_of_its_model_alone() -> None:
    rows = [candidate("p/m@a"), candidate("p/m@b"), candidate("p/other@c")]
    combos = [{"name": "c", "strategy": "priority", "steps": ["p/m"]}]
    stored, direct, bare = answers(decide("c"), decide("p/m"), decide("m"), candidates=rows, combos=combos)
    for answer in (stored, direct, bare):
        assert sorted(answer["targets"]) == ["p/m@a", "p/m@b"]


def test_a_model_that_no_candidate_names_goes_to_every_connection_of_its_provider() -> None:
    rows = [candidate("openrouter/m@a"), candidate("openrouter/n@b")]
    (answer,) = answers(decide("openrouter/auto"), candidates=rows)
    assert answer["targets"] == ["openrouter/auto@a", "openrouter/auto@b"]
    assert answer["strategy"] == "priority"


# Reports


def test_a_report_is_of_the_first_target_and_the_first_attempt_unless_it_says_more() -> None:
    combos = [{"name": "c", "strategy": "least-used", "steps": ["p/m", "q/m"]}]
    got = answers(
        decide("c"),
        report(0, "UPSTREAM_ERROR"),
        decide("c"),  # p is free again, q holds the fallback
        report(0, "UPSTREAM_ERROR", attempt=2, target="q/m@b"),
        decide("c"),
        combos=combos,
    )
    assert [a["targets"][0][0] for a in got] == ["p", "p", "q"]


def test_a_report_may_send_the_lease_elsewhere() -> None:
    rows = [candidate("p/m@a"), candidate("q/m@b"), candidate("r/m@c")]
    combos = [{"name": "c", "strategy": "least-used", "steps": ["p/m", "q/m", "r/m"]}]
    got = answers(
        decide("c"),
        report(0, "UPSTREAM_ERROR", next_target="r/m@c"),
        *[decide("c")] * 2,
        candidates=rows,
        combos=combos,
    )
    assert [a["targets"][0][0] for a in got] == ["p", "q", "p"]


def test_a_null_target_is_the_default() -> None:
    assert len(answers(decide(), report(0, "SUCCESS", target=None, next_target=None))) == 1
