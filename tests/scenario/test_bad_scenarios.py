"""One mistake a scenario: each is refused by the name of its field, and nothing else happens."""

from __future__ import annotations

import json
from copy import deepcopy
from itertools import product
from typing import Any

import pytest
import yaml

from decision_service.scenario import read_scenario, run
from service_kit.errors import Reason, ServiceError

GOOD: dict[str, Any] = {
    "scenario": 1,
    "now": "2026-01-01T00:00:00Z",
    "seed": 7,
    "settings": {"hidePaidModels": False},
    "providers": {"openai": {"class": "api_key"}},
    "candidates": [
        {
            "provider": "openai",
            "model": "gpt-4o",
            "connection": "c1",
            "signals": {"p95_ms": 100, "quota": [{"name": "session", "remaining_fraction": 0.5, "resets_in_s": 60}]},
        },
        {"provider": "groq", "model": "llama", "connection": "c2"},
    ],
    "combos": [{"name": "mine", "strategy": "priority", "config": {}, "steps": ["openai/gpt-4o", "groq/llama"]}],
    "mappings": [{"pattern": "gpt-*", "combo": "mine"}],
    "overrides": [{"api_key_id": "k", "channel": "fast", "candidate": "groq/llama@c2", "excluded": True}],
    "events": [
        {"decide": {"model": "mine"}},
        {"report": {"decision": 0, "outcome_class": "UPSTREAM_ERROR", "quota": [{"name": "weekly"}]}},
        {"advance_ms": 1000},
    ],
}
REMOVED = object()
HUGE = 10**400


def changed(path: str, value: Any) -> dict[str, Any]:
    """The good scenario with one value set, or removed; a path like ``candidates.0.model``."""
    scenario = deepcopy(GOOD)
    *outer, last = path.split(".")
    place: Any = scenario
    for part in outer:
        place = place[int(part)] if isinstance(place, list) else place[part]
    if value is REMOVED:
        del place[last]
    elif isinstance(place, list):
        place[int(last) :] = [value]
    else:
        place[last] = value
    return scenario


def refusal(scenario: Any) -> ServiceError:
    with pytest.raises(ServiceError) as refused:
        list(run(read_scenario(scenario)))
    return refused.value


MISTAKES = [
    # what is changed, to what, and the field that is named
    ("scenario", 2, "scenario"),
    ("scenario", "one", "scenario"),
    ("now", "yesterday", "now"),
    ("now", 1767225600, "now"),
    ("now", [], "now"),
    ("seed", -1, "seed"),
    ("seed", 1.5, "seed"),
    ("seed", True, "seed"),
    ("seed", 2**64, "seed"),
    ("extra", 1, "scenario file.extra"),
    ("settings", [], "settings"),
    ("settings", 0, "settings"),
    ("settings.hidePaidModel", True, "settings.hidePaidModel"),
    ("settings.hidePaidModels", "yes", "settings.hidePaidModels"),
    ("settings.comboRefMaxDepth", 11, "settings.comboRefMaxDepth"),
    ("providers", ["openai"], "providers"),
    ("providers.openai", "api_key", "providers.openai"),
    ("providers.openai.class", "cloud", "providers.openai.class"),
    ("providers.openai.class", ["local"], "providers.openai.class"),
    ("providers.openai.klass", "local", "providers.openai.klass"),
    ("candidates", {}, "candidates"),
    ("candidates", "openai", "candidates"),
    ("candidates.1", "groq/llama@c2", "candidates[1]"),
    ("candidates.1", GOOD["candidates"][0], "candidates[1]"),
    ("candidates.1.model", REMOVED, "candidates[1].model"),
    ("candidates.1.model", "", "candidates[1].model"),
    ("candidates.1.provider", 5, "candidates[1].provider"),
    ("candidates.1.connection", None, "candidates[1].connection"),
    ("candidates.1.tier", "pro", "candidates[1].tier"),
    ("candidates.1.account_tier", 5, "candidates[1].account_tier"),
    ("candidates.1.input_price", -1, "candidates[1].input_price"),
    ("candidates.1.input_price", "1", "candidates[1].input_price"),
    ("candidates.1.input_price", float("nan"), "candidates[1].input_price"),
    ("candidates.1.input_price", HUGE, "candidates[1].input_price"),
    ("candidates.1.output_price", float("inf"), "candidates[1].output_price"),
    ("candidates.1.context_window", -1, "candidates[1].context_window"),
    ("candidates.1.context_window", 1.5, "candidates[1].context_window"),
    ("candidates.1.max_output", "many", "candidates[1].max_output"),
    ("candidates.1.capabilities", "vision", "candidates[1].capabilities"),
    ("candidates.1.capabilities", ["sight"], "candidates[1].capabilities"),
    ("candidates.1.capabilities", [3], "candidates[1].capabilities"),
    ("candidates.0.signals", [], "candidates[0].signals"),
    ("candidates.0.signals", "fast", "candidates[0].signals"),
    ("candidates.0.signals.p99_ms", 1, "candidates[0].signals.p99_ms"),
    ("candidates.0.signals.p95_ms", "100", "candidates[0].signals.p95_ms"),
    ("candidates.0.signals.in_flight", True, "candidates[0].signals.in_flight"),
    ("candidates.0.signals.breaker", "AJAR", "candidates[0].signals.breaker"),
    ("candidates.0.signals.breaker", ["OPEN"], "candidates[0].signals.breaker"),
    ("candidates.0.signals.fitness", 0.5, "candidates[0].signals.fitness"),
    ("candidates.0.signals.fitness", {"coding": 1.5}, "candidates[0].signals.fitness.coding"),
    ("candidates.0.signals.quota", {}, "candidates[0].signals.quota"),
    ("candidates.0.signals.quota.0", 5, "candidates[0].signals.quota[0]"),
    ("candidates.0.signals.quota.0.name", "", "candidates[0].signals.quota[0].name"),
    ("candidates.0.signals.quota.0.left", 1, "candidates[0].signals.quota[0].left"),
    ("candidates.0.signals.quota.0.remaining_fraction", "all", "candidates[0].signals.quota[0].remaining_fraction"),
    ("candidates.0.signals.quota.0.limit_reached", 1, "candidates[0].signals.quota[0].limit_reached"),
    ("candidates.0.signals.quota.0.resets_in_s", "soon", "candidates[0].signals.quota[0].resets_in_s"),
    ("combos", {}, "combos"),
    ("combos.0", "mine", "combos[0]"),
    ("combos.0.name", REMOVED, "combos[0].name"),
    ("combos.0.name", "auto/mine", "combos[0].name"),
    ("combos.0.strategy", "fastest", "combos[0].strategy"),
    ("combos.0.strategy", "quota-share", "combos[0].strategy"),
    ("combos.0.strategy", REMOVED, "combos[0].strategy"),
    ("combos.0.steps", [], "combos[0].steps"),
    ("combos.0.steps", ["openai/gpt-5"], "combos[0].steps[0]"),
    ("combos.0.steps", ["gpt-4o"], "combos[0].steps[0].model"),
    ("combos.0.steps", [{"model": "openai/gpt-4o", "connectionId": "c2"}], "combos[0].steps[0]"),
    ("combos.0.steps", [{"model": "openai/gpt-4o", "weight": -1}], "combos[0].steps[0].weight"),
    ("combos.0.steps", [{"kind": "combo-ref", "comboName": "nobody"}], "combos[0].steps[0].comboName"),
    ("combos.0.config", {"stickyRoundRobin": 1}, "combos[0].config.stickyRoundRobin"),
    ("combos.0.config", {"routerStrategy": "luck"}, "combos[0].config.routerStrategy"),
    ("combos.0.config", {"promptCacheAffinityEnabled": True}, "combos[0].config.promptCacheAffinityEnabled"),
    ("combos.0.config", {"auto": {"weights": {"speed": 1}}}, "combos[0].config.auto.weights.speed"),
    ("mappings", "gpt-*", "mappings"),
    ("mappings.0", "gpt-*", "mappings[0]"),
    ("mappings.0.combo", "nobody", "mappings[0].combo"),
    ("mappings.0.pattern", "", "mappings[0].pattern"),
    ("mappings.0.priority", "high", "mappings[0].priority"),
    ("mappings.0.glob", "x", "mappings[0].glob"),
    ("overrides", {}, "overrides"),
    ("overrides.0.candidate", "groq/llama", "overrides[0].candidate"),
    ("overrides.0.channel", "fastest", "overrides[0].channel"),
    ("overrides.0.channel", REMOVED, "overrides[0].channel"),
    ("overrides.0.api_key_id", "", "overrides[0].api_key_id"),
    ("overrides.0.excluded", "yes", "overrides[0].excluded"),
    ("overrides.0.multiplier", 1.5, "overrides[0].multiplier"),
    ("overrides.0.order", "groq/llama@c2", "overrides[0].order"),
    ("overrides.0.order", [5], "overrides[0].order[0]"),
    ("overrides.0.strategy", "luck", "overrides[0].strategy"),
    ("overrides.0.strategy", "fusion", "overrides[0].strategy"),
    (
        "overrides",
        [{"api_key_id": "k", "channel": "fast", "order": ["groq/llama@c2"], "strategy": "random"}],
        "overrides[0].strategy",
    ),
    ("state", [], "state"),
    ("state", {"scope": "auto"}, "state"),
    ("events", {}, "events"),
    ("events.0", {}, "events[0]"),
    ("events.0", {"decide": {"model": "mine"}, "advance_ms": 1}, "events[0]"),
    ("events.0", {"wait": 1}, "events[0].wait"),
    ("events.0", "decide", "events[0]"),
    ("events.0.decide", "mine", "events[0].decide"),
    ("events.0.decide", None, "events[0].decide"),
    ("events.0.decide", {}, "events[0].decide.model"),
    ("events.0.decide.model", None, "events[0].decide.model"),
    ("events.0.decide.model", 5, "events[0].decide.model"),
    ("events.0.decide.tokens", 5, "events[0].decide.tokens"),
    ("events.0.decide.input_tokens", -1, "events[0].decide.input_tokens"),
    ("events.0.decide.input_tokens", 1.5, "events[0].decide.input_tokens"),
    ("events.0.decide.input_tokens", HUGE, "events[0].decide.input_tokens"),
    ("events.0.decide.has_tools", 1, "events[0].decide.has_tools"),
    ("events.0.decide.specificity", 101, "events[0].decide.specificity"),
    ("events.0.decide.operation", "IMAGES", "events[0].decide.operation"),
    ("events.0.decide.operation", ["CHAT"], "events[0].decide.operation"),
    ("events.0.decide.seed", -1, "events[0].decide.seed"),
    ("events.0.decide.seed", 2**64, "events[0].decide.seed"),
    ("events.0.decide.mode", 5, "events[0].decide.mode"),
    ("events.0.decide.budget_usd", "much", "events[0].decide.budget_usd"),
    ("events.1.report", [], "events[1].report"),
    ("events.1.report.decision", REMOVED, "events[1].report.decision"),
    ("events.1.report.decision", 1, "events[1].report.decision"),
    ("events.1.report.decision", -1, "events[1].report.decision"),
    ("events.1.report.target", "openai/gpt-4o@c9", "events[1].report.target"),
    ("events.1.report.target", 1, "events[1].report.target"),
    ("events.1.report.next_target", "nobody", "events[1].report.next_target"),
    ("events.1.report.outcome_class", REMOVED, "events[1].report.outcome_class"),
    ("events.1.report.outcome_class", "BAD", "events[1].report.outcome_class"),
    ("events.1.report.outcome_class", {}, "events[1].report.outcome_class"),
    ("events.1.report.attempt", 0, "events[1].report.attempt"),
    ("events.1.report.latency_ms", -1, "events[1].report.latency_ms"),
    ("events.1.report.final", "no", "events[1].report.final"),
    ("events.1.report.quota", 5, "events[1].report.quota"),
    ("events.1.report.quota", {"name": "weekly"}, "events[1].report.quota"),
    ("events.1.report.quota.0.name", 5, "events[1].report.quota[0].name"),
    ("events.1.report.status", 200, "events[1].report.status"),
    ("events.2.advance_ms", -1, "events[2].advance_ms"),
    ("events.2.advance_ms", "soon", "events[2].advance_ms"),
    ("events.2.advance_ms", None, "events[2].advance_ms"),
    ("events.2.advance_ms", HUGE, "events[2].advance_ms"),
]


@pytest.mark.parametrize(("path", "value", "field"), MISTAKES, ids=[f"{m[2]}-{n}" for n, m in enumerate(MISTAKES)])
def test_a_mistake_is_refused_by_its_field(path: str, value: Any, field: str) -> None:
    error = refusal(changed(path, value))
    assert (error.reason, error.field) == (Reason.INVALID_FIELD, field)
    assert error.message.startswith(f"{field}: got ")
    assert "; allowed: " in error.message
    assert len(error.message) < 2_000


def test_without_a_mistake_it_runs() -> None:
    assert [a["targets"] for a in run(read_scenario(GOOD))] == [["openai/gpt-4o@c1", "groq/llama@c2"]]


@pytest.mark.parametrize("nothing", [None, 5, "scenario", [GOOD]])
def test_what_is_no_object_is_no_scenario(nothing: Any) -> None:
    assert "an object" in refusal(nothing).message


def test_a_refused_decide_takes_no_report() -> None:
    scenario = changed("events.0.decide.model", "nobody/knows")
    assert refusal(scenario).field == "events[1].report.decision"


def test_what_is_absent_or_null_reads_as_its_default() -> None:
    scenario: dict[str, Any] = {
        "candidates": [{**GOOD["candidates"][1], "account_tier": None, "signals": None, "capabilities": None}]
    }
    scenario |= dict.fromkeys(("settings", "providers", "combos", "mappings", "overrides"))
    scenario["events"] = [{"decide": {"model": "auto", "seed": None, "max_output_tokens": None, "operation": None}}]
    (answer,) = run(read_scenario(scenario))
    assert (answer["targets"], answer["seed"]) == (["groq/llama@c2"], 0)
    assert list(run(read_scenario({}))) == []


WILD = [float("nan"), float("inf"), float("-inf"), -1, 1e308, -1e308, HUGE, -HUGE, 0, 3.7]


@pytest.mark.parametrize(
    "signal",
    [
        *("p95_ms", "latency_std_ms", "samples", "error_rate", "failure_rate", "quality"),
        *("in_flight", "recent_requests", "sessions", "quota.0.remaining_fraction", "quota.0.resets_in_s"),
    ],
)
def test_telemetry_may_be_any_number(signal: str) -> None:
    for strategy, wild in product(
        ("auto", "p2c", "reset-aware", "reset-window", "headroom", "least-used", "quota-weighted"), WILD
    ):
        scenario = changed(f"candidates.0.signals.{signal}", wild)
        scenario["combos"][0]["strategy"] = strategy
        (answer,) = run(read_scenario(scenario))
        assert "groq/llama@c2" in answer["targets"]
        for factors in answer["factors"].values():
            assert all(0.0 <= value <= 1.0 for value in factors.values())
        assert all(0.0 <= score <= 1.0 for score in answer["scores"].values())


@pytest.mark.parametrize("wild", WILD, ids=[str(w)[:8] for w in WILD])
def test_a_budget_may_be_any_number_and_only_a_sane_one_counts(wild: float) -> None:
    scenario = changed("events.0.decide", {"model": "auto", "budget_usd": wild, "budget_fallback": "strict"})
    scenario["events"] = scenario["events"][:1]
    (answer,) = run(read_scenario(scenario))
    if wild in (0, 1e308, 3.7):
        assert answer["ignored_controls"] == []
    else:
        assert answer["ignored_controls"] == ["budget_usd"]


def test_a_negative_minimum_context_is_a_control_without_effect() -> None:
    scenario = changed("events.0.decide.min_context_tokens", -5)
    (answer,) = run(read_scenario(scenario))
    assert answer["ignored_controls"] == ["min_context_tokens"]


# The same file in two notations

TEXT = """
scenario: 1
now: 2026-01-01T00:00:00Z
seed: 3
providers: {sub: {class: oauth}}
candidates:
  - {provider: sub, model: m, connection: c1, input_price: 2.5, context_window: 128000, capabilities: [tools, -vision],
     signals: {p95_ms: 1200, samples: 50, quota: [{name: session, remaining_fraction: 0.6, resets_in_s: 3600}]}}
  - {provider: sub, model: m, connection: c2}
events:
  - decide: {model: auto/fast, session_id: s1, input_tokens: 1000}
  - report: {decision: 0, outcome_class: RATE_LIMITED, retry_after_ms: 2000}
  - advance_ms: 1500
  - decide: {model: auto/fast, session_id: s1, input_tokens: 1000}
"""


def test_yaml_and_json_say_the_same() -> None:
    from_yaml = yaml.safe_load(TEXT)
    from_json = json.loads(json.dumps(from_yaml, default=lambda instant: instant.isoformat()))
    assert not isinstance(from_yaml["now"], str)
    assert list(run(read_scenario(from_yaml))) == list(run(read_scenario(from_json)))


@pytest.mark.parametrize("now", ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2026-01-01 00:00:00"])
def test_an_instant_may_be_written_in_several_ways(now: str) -> None:
    assert read_scenario({"now": now}).now == 1_767_225_600_000
