"""A combo's config: every key, its range, its old spellings, and the refusal of the rest."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from decision_service.kernel.model import ComboConfig, FusionTuning, SlaTargets
from decision_service.kernel.weights import FACTOR_NAMES
from decision_service.policy import TRUSTED, Known, parse_combo, parse_settings, parse_weights
from decision_service.policy.config import KEYS, NESTED, ROWS, read_config, without_secret
from decision_service.policy.effective import effective_config
from service_kit.errors import Reason, ServiceError

KNOWN = Known(providers={"openai"}, routers=frozenset({"my-custom"}))


def config(raw: dict[str, Any]) -> ComboConfig:
    return read_config(raw, KNOWN)[0]


def refused(raw: Any) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        read_config(raw, KNOWN)
    assert caught.value.reason is Reason.INVALID_FIELD
    return caught.value


def test_nothing_given_is_the_defaults_of_the_specification() -> None:
    assert config({}) == ComboConfig()
    assert read_config(None, KNOWN)[0] == ComboConfig()


def test_every_field_of_the_kernels_config_has_a_key() -> None:
    named = {row.field.partition(".")[0] for row in ROWS} - {"nadir_api_key", "reset_window_include_session"}
    assert named == {field.name for field in fields(ComboConfig)}


WHOLE: dict[str, Any] = {
    "routerStrategy": "eco",
    "auto": {"weights": {"quota": "0.5", "health": 1}, "candidatePool": ["openai"]},
    "modePack": "cost-saver",
    "budgetCap": 0.5,
    "budgetFallback": "strict",
    "explorationRate": 0,
    "slaTargetP95Ms": 0,
    "slaMaxErrorRate": 0.1,
    "slaMaxCostPer1MTokens": 5,
    "slaHardConstraints": True,
    "nadir": {"apiKey": "k", "baseUrl": "https://nadir.example/v1", "timeoutMs": 30000},
    "lkgpEnabled": False,
    "lkgpScope": "session",
    "stickyRoundRobinLimit": 1000,
    "stickyWeightedLimit": 5.0,
    "connectionAwareExpansion": True,
    "disableSessionStickiness": False,
    "strictRandom": {"deck": True},
    "quotaShare": True,
    "quotaWeightedFloorPercent": 100,
    "resetWindowWindows": ["monthly"],
    "resetWindowIncludeSession": True,
    "handoffThreshold": 0.95,
    "handoffModel": "openai/gpt-4o",
    "judgeModel": "openai/gpt-4o",
    "fusionTuning": {"minPanel": 3, "stragglerGraceMs": 0, "panelHardTimeoutMs": 1},
    "agenticOrchestration": {"enabled": True, "maxToolRounds": 32},
    "complexityAwareRouting": True,
    "targetTimeoutMs": 1,
    "maxAttempts": 30,
    "maxRetries": 0,
    "maxConcurrent": 4,
    "minContextWindow": 8000,
}


def test_every_key_is_read() -> None:
    weights = dict.fromkeys(FACTOR_NAMES, 0.0) | {"quota": 0.5, "health": 1.0}
    assert config(WHOLE) == ComboConfig(
        router_strategy="cost",
        weights=weights,
        candidate_pool=frozenset({"openai"}),
        mode_pack="cost-saver",
        budget_cap=0.5,
        budget_fallback="strict",
        exploration_rate=0.0,
        sla=SlaTargets(0.0, 0.1, 5.0, hard=True),
        nadir_base_url="https://nadir.example/v1",
        nadir_timeout_ms=30_000,
        lkgp_enabled=False,
        lkgp_scope="session",
        sticky_round_robin_limit=1_000,
        sticky_weighted_limit=5,
        connection_aware_expansion=True,
        disable_session_stickiness=False,
        strict_random_deck=True,
        quota_share=True,
        quota_weighted_floor_percent=100.0,
        reset_window_windows=("session", "monthly"),
        handoff_threshold=0.95,
        handoff_model="openai/gpt-4o",
        judge_model="openai/gpt-4o",
        fusion=FusionTuning(3, 0, 1),
        agentic_enabled=True,
        max_tool_rounds=32,
        complexity_aware_routing=True,
        target_timeout_ms=1,
        max_attempts=30,
        max_retries=0,
        max_concurrent=4,
        min_context_window=8_000,
    )
    assert set(WHOLE) == set(KEYS) - {"weights", "sla"}


def test_null_is_not_given() -> None:
    nothing = dict.fromkeys(KEYS) | {outer: dict.fromkeys(inner) for outer, inner in NESTED.items()}
    assert config(nothing) == ComboConfig()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"auto": {"routerStrategy": "latency"}}, {"router_strategy": "latency"}),
        ({"auto": {"routerStrategy": "latency"}, "routerStrategy": "score"}, {"router_strategy": "score"}),
        ({"routerStrategy": "sla"}, {"router_strategy": "sla-aware"}),
        ({"routerStrategy": "fast"}, {"router_strategy": "latency"}),
        ({"routerStrategy": "my-custom"}, {"router_strategy": "my-custom"}),
        ({"weights": {"quota": 2}, "auto": {}}, {"weights": {"quota": 2.0}}),
        ({"weights": {"quota": 2}, "auto": {"weights": {"health": 1}}}, {"weights": {"health": 1.0}}),
        ({"sla": {"targetP95Ms": 9, "hardConstraints": True}}, {"sla": SlaTargets(9.0, hard=True)}),
        ({"sla": {"targetP95Ms": 9}, "slaTargetP95Ms": 8}, {"sla": SlaTargets(8.0)}),
        ({"resetWindowIncludeSession": True}, {"reset_window_windows": ("session", "weekly")}),
        ({"budgetFallback": "hard"}, {"budget_fallback": "strict"}),
    ],
)
def test_old_and_nested_spellings(raw: dict[str, Any], expected: dict[str, Any]) -> None:
    if "weights" in expected:
        expected["weights"] = dict.fromkeys(FACTOR_NAMES, 0.0) | expected["weights"]
    assert config(raw) == ComboConfig(**expected)


@pytest.mark.parametrize(
    ("raw", "field", "told"),
    [
        ([], "config", "an object"),
        ("x", "config", "an object"),
        ({"routerStrategie": "rules"}, "config.routerStrategie", "'routerStrategy'"),
        ({"fusionTuning": {"minPanle": 2}}, "config.fusionTuning.minPanle", "'minPanel'"),
        ({"fusionTuning": 3}, "config.fusionTuning", "the number 3"),
        ({"promptCacheAffinityEnabled": True}, "config.promptCacheAffinityEnabled", "a setting only"),
        ({"routerStrategy": "rulez"}, "config.routerStrategy", "'rules'"),
        ({"auto": {"routerStrategy": "x"}}, "config.auto.routerStrategy", "rules"),
        ({"auto": {"weights": {"cost": 1}}}, "config.auto.weights.cost", "'costInv'"),
        ({"weights": {"quota": "much"}}, "config.weights.quota", "numeric"),
        ({"auto": {"candidatePool": ["nobody"]}}, "config.auto.candidatePool[0]", "unknown provider"),
        ({"auto": {"candidatePool": "openai"}}, "config.auto.candidatePool", "a list"),
        ({"modePack": "fast"}, "config.modePack", "ship-fast"),
        ({"budgetCap": 0}, "config.budgetCap", "> 0"),
        ({"budgetCap": 10**400}, "config.budgetCap", "> 0"),
        ({"budgetCap": "1"}, "config.budgetCap", "the text '1'"),
        ({"explorationRate": 1.01}, "config.explorationRate", "<= 1"),
        ({"explorationRate": float("nan")}, "config.explorationRate", "nan"),
        ({"slaMaxErrorRate": 2}, "config.slaMaxErrorRate", "<= 1"),
        ({"sla": {"hardConstraints": "yes"}}, "config.sla.hardConstraints", "true or false"),
        ({"nadir": {"timeoutMs": 30001}}, "config.nadir.timeoutMs", "30000"),
        ({"nadir": {"baseUrl": "ftp://x"}}, "config.nadir.baseUrl", "http"),
        ({"nadir": {"baseUrl": "https://user:pw@x"}}, "config.nadir.baseUrl", "credentials"),
        ({"nadir": {"baseUrl": "https://x:99999"}}, "config.nadir.baseUrl", "http"),
        ({"nadir": {"baseUrl": "https://[::1"}}, "config.nadir.baseUrl", "http"),
        ({"nadir": {"apiKey": "two words"}}, "config.nadir.apiKey", "without a blank"),
        ({"nadir": {"apiKey": "a\nb"}}, "config.nadir.apiKey", "printable ASCII"),
        ({"nadir": {"apiKey": "schlüssel"}}, "config.nadir.apiKey", "printable ASCII"),
        ({"lkgpScope": "key"}, "config.lkgpScope", "combo, session"),
        ({"stickyRoundRobinLimit": 0}, "config.stickyRoundRobinLimit", "from 1 to 1000"),
        ({"stickyRoundRobinLimit": 1001}, "config.stickyRoundRobinLimit", "from 1 to 1000"),
        ({"stickyWeightedLimit": 2.5}, "config.stickyWeightedLimit", "whole"),
        ({"connectionAwareExpansion": 1}, "config.connectionAwareExpansion", "true or false"),
        ({"quotaWeightedFloorPercent": -1}, "config.quotaWeightedFloorPercent", ">= 0"),
        ({"resetWindowWindows": ["daily"]}, "config.resetWindowWindows[0]", "weekly"),
        ({"resetWindowWindows": []}, "config.resetWindowWindows", "at least one"),
        ({"handoffThreshold": 0.96}, "config.handoffThreshold", "0.95"),
        ({"judgeModel": "gpt-4o"}, "config.judgeModel", "provider/model"),
        ({"handoffModel": "nobody/x"}, "config.handoffModel", "nobody"),
        ({"fusionTuning": {"minPanel": 1}}, "config.fusionTuning.minPanel", "from 2"),
        ({"fusionTuning": {"panelHardTimeoutMs": 0}}, "config.fusionTuning.panelHardTimeoutMs", "from 1"),
        ({"agenticOrchestration": {"maxToolRounds": 33}}, "config.agenticOrchestration.maxToolRounds", "32"),
        ({"targetTimeoutMs": 0}, "config.targetTimeoutMs", "from 1"),
        ({"maxAttempts": 31}, "config.maxAttempts", "30"),
        ({"maxRetries": 6}, "config.maxRetries", "5"),
        ({"maxConcurrent": -1}, "config.maxConcurrent", "from 0"),
        ({"maxConcurrent": True}, "config.maxConcurrent", "true"),
    ],
)
def test_what_is_refused(raw: Any, field: str, told: str) -> None:
    error = refused(raw)
    assert error.field == field
    assert told in error.message


@pytest.mark.parametrize("strategy", ["fusion", "pipeline"])
def test_quota_share_is_refused_where_there_are_several_calls(strategy: str) -> None:
    with pytest.raises(ServiceError) as caught:
        parse_combo("x", strategy, ["openai/x"], {"quotaShare": True}, TRUSTED)
    assert caught.value.field == "config.quotaShare"


def test_a_secret_is_neither_in_the_config_nor_in_an_error() -> None:
    read, given = read_config({"nadir": {"apiKey": "hush-hush"}}, KNOWN)
    assert given["nadir_api_key"] == "hush-hush"
    assert "hush" not in repr(read)
    assert "hush" not in refused({"nadir": {"apiKey": "hush" * 2_000}}).message
    assert without_secret({"nadir": {"apiKey": "k", "timeoutMs": 5}, "quotaShare": True}) == {
        "nadir": {"timeoutMs": 5},
        "quotaShare": True,
    }
    assert without_secret({"nadir": {"apiKey": "k"}}) == {}


# Weights


@pytest.mark.parametrize(
    ("raw", "read"),
    [(0.3, 0.3), ("0.3", 0.3), (-1, 0.0), ("-1", 0.0), ("nan", 0.0), (float("inf"), 0.0), (None, 0.0), (7, 7.0)],
)
def test_weights(raw: Any, read: float) -> None:
    weights = parse_weights({"costInv": raw})
    assert tuple(weights) == FACTOR_NAMES
    assert weights["costInv"] == read
    assert sum(weights.values()) == read


@pytest.mark.parametrize("raw", [True, [], {}, "", "1,5"])
def test_weights_that_are_no_numbers_are_refused(raw: Any) -> None:
    with pytest.raises(ServiceError, match=r"weights\.costInv"):
        parse_weights({"costInv": raw})


# Layers


def layers(raw: dict[str, Any], settings: dict[str, Any]) -> dict[str, tuple[Any, str]]:
    read, given = read_config(raw, KNOWN)
    return {each.key: (each.value, each.layer) for each in effective_config(read, given, parse_settings(settings))}


@pytest.mark.parametrize(
    ("raw", "settings", "expected"),
    [
        ({}, {}, (3, "default")),
        ({}, {"stickyRoundRobinLimit": 7}, (7, "settings")),
        ({}, {"stickyRoundRobinLimit": 7, "comboStickyRoundRobinLimit": 5}, (5, "global")),
        ({"stickyRoundRobinLimit": 1}, {"comboStickyRoundRobinLimit": 5}, (1, "combo")),
    ],
)
def test_the_sticky_limit_has_four_layers(raw: dict[str, Any], settings: dict[str, Any], expected: Any) -> None:
    assert layers(raw, settings)["stickyRoundRobinLimit"] == expected


def test_switches_inherit_from_the_settings() -> None:
    assert layers({}, {})["connectionAwareExpansion"] == (False, "default")
    assert layers({}, {"connectionAwareExpansion": True})["connectionAwareExpansion"] == (True, "settings")
    own = layers({"connectionAwareExpansion": False}, {"connectionAwareExpansion": True})
    assert own["connectionAwareExpansion"] == (False, "combo")
    assert layers({}, {"disableSessionStickiness": True})["disableSessionStickiness"] == (True, "settings")


def test_effective_weights_are_normalised_and_a_pack_replaces_them() -> None:
    partial, layer = layers({"weights": {"quota": 1, "health": 3}}, {})["auto.weights"]
    assert layer == "combo"
    assert (partial["quota"], partial["health"], partial["costInv"]) == (0.25, 0.75, 0.0)
    balanced, layer = layers({}, {})["auto.weights"]
    assert layer == "default"
    assert balanced["health"] == pytest.approx(0.1605)
    packed, layer = layers({"modePack": "chaos-mode", "weights": {"quota": 1}}, {})["auto.weights"]
    assert (layer, packed["health"] > 0.39) == ("combo", True)


def test_every_key_has_an_effective_value() -> None:
    shown = layers({"explorationRate": 0.2}, {})
    assert shown["explorationRate"] == (0.2, "combo")
    assert shown["fusionTuning.minPanel"] == (2, "default")
    assert shown["resetWindowWindows"] == (["weekly"], "default")
    assert not [key for key in shown if "apiKey" in key]


# Settings


def test_settings() -> None:
    assert parse_settings(None).prompt_cache_affinity_enabled is True
    assert parse_settings({"hidePaidModels": True}).hide_paid_models is True
    assert parse_settings({"comboRefMaxDepth": None}).combo_ref_max_depth == 3


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"hidePaidModel": True}, "settings.hidePaidModel"),
        ({"hidePaidModels": "true"}, "settings.hidePaidModels"),
        ({"comboRefMaxDepth": 11}, "settings.comboRefMaxDepth"),
        ({"stickyRoundRobinLimit": 0}, "settings.stickyRoundRobinLimit"),
        ([], "settings"),
    ],
)
def test_settings_that_are_refused(raw: Any, field: str) -> None:
    with pytest.raises(ServiceError) as caught:
        parse_settings(raw)
    assert caught.value.field == field
