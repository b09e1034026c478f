"""A combo's config: the table of its keys, and the reading of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from decision_service.kernel.controls import FALLBACK_ALIASES
from decision_service.kernel.model import ComboConfig, FusionTuning, SlaTargets
from decision_service.kernel.weights import PACK_NAMES
from decision_service.policy.fields import (
    Reader,
    choice,
    each,
    flag,
    http_url,
    model_name,
    nearest,
    number,
    provider_name,
    read_object,
    secret,
    shape,
    whole,
)
from decision_service.policy.known import Known
from decision_service.policy.vocabulary import ROUTERS, WINDOWS
from decision_service.policy.weights import parse_weights
from service_kit.errors import invalid

SECRET_FIELD = "nadir_api_key"
INCLUDE_SESSION = "reset_window_include_session"
SETTING_ONLY = "promptCacheAffinityEnabled"


@dataclass(frozen=True, slots=True)
class Row:
    """One key: where it stands under ``config``, the field of ComboConfig that it sets, and its reader."""

    path: str
    field: str
    read: Reader


def router_name(value: Any, path: str, known: Known) -> str:
    """A router strategy by name or alias, the custom ones included; aliases read as their names."""
    if isinstance(value, str) and value:
        if value in ROUTERS:
            return ROUTERS[value]
        if known.routers is None or value in known.routers:
            return value
    names = (*ROUTERS, *sorted(known.routers or ()))
    hint = f"; the nearest known one is {nearest(value, names)!r}" if isinstance(value, str) else ""
    raise invalid(path, shape(value) + hint, ", ".join(names))


def some_windows(value: Any, path: str, known: Known) -> tuple[str, ...]:
    """At least one quota window."""
    windows: tuple[str, ...] = each(choice(WINDOWS), len(WINDOWS))(value, path, known)
    if not windows:
        raise invalid(path, "an empty list", f"at least one of {', '.join(WINDOWS)}")
    return windows


# Where two rows set one field, the later one has the say; the last one is the key's present spelling.
ROWS = (
    Row("auto.routerStrategy", "router_strategy", router_name),
    Row("routerStrategy", "router_strategy", router_name),
    Row("weights", "weights", parse_weights),
    Row("auto.weights", "weights", parse_weights),
    Row("auto.candidatePool", "candidate_pool", each(provider_name, 256)),
    Row("modePack", "mode_pack", choice(PACK_NAMES)),
    Row("budgetCap", "budget_cap", number(0, above=True)),
    Row("budgetFallback", "budget_fallback", choice(FALLBACK_ALIASES)),
    Row("explorationRate", "exploration_rate", number(0, 1)),
    Row("sla.targetP95Ms", "sla.p95_ms", number(0)),
    Row("sla.maxErrorRate", "sla.max_error_rate", number(0, 1)),
    Row("sla.maxCostPer1MTokens", "sla.max_cost", number(0)),
    Row("sla.hardConstraints", "sla.hard", flag),
    Row("slaTargetP95Ms", "sla.p95_ms", number(0)),
    Row("slaMaxErrorRate", "sla.max_error_rate", number(0, 1)),
    Row("slaMaxCostPer1MTokens", "sla.max_cost", number(0)),
    Row("slaHardConstraints", "sla.hard", flag),
    Row("nadir.apiKey", SECRET_FIELD, secret),
    Row("nadir.baseUrl", "nadir_base_url", http_url),
    Row("nadir.timeoutMs", "nadir_timeout_ms", whole(1, 30_000)),
    Row("lkgpEnabled", "lkgp_enabled", flag),
    Row("lkgpScope", "lkgp_scope", choice(("combo", "session"))),
    Row("stickyRoundRobinLimit", "sticky_round_robin_limit", whole(1, 1_000)),
    Row("stickyWeightedLimit", "sticky_weighted_limit", whole(1, 1_000)),
    Row("connectionAwareExpansion", "connection_aware_expansion", flag),
    Row("disableSessionStickiness", "disable_session_stickiness", flag),
    Row("strictRandom.deck", "strict_random_deck", flag),
    Row("quotaShare", "quota_share", flag),
    Row("quotaWeightedFloorPercent", "quota_weighted_floor_percent", number(0, 100)),
    Row("resetWindowWindows", "reset_window_windows", some_windows),
    Row("resetWindowIncludeSession", INCLUDE_SESSION, flag),
    Row("handoffThreshold", "handoff_threshold", number(0, 0.95)),
    Row("handoffModel", "handoff_model", model_name),
    Row("judgeModel", "judge_model", model_name),
    Row("fusionTuning.minPanel", "fusion.min_panel", whole(2)),
    Row("fusionTuning.stragglerGraceMs", "fusion.straggler_grace_ms", whole(0)),
    Row("fusionTuning.panelHardTimeoutMs", "fusion.panel_hard_timeout_ms", whole(1)),
    Row("agenticOrchestration.enabled", "agentic_enabled", flag),
    Row("agenticOrchestration.maxToolRounds", "max_tool_rounds", whole(1, 32)),
    Row("complexityAwareRouting", "complexity_aware_routing", flag),
    Row("targetTimeoutMs", "target_timeout_ms", whole(1)),
    Row("maxAttempts", "max_attempts", whole(1, 30)),
    Row("maxRetries", "max_retries", whole(0, 5)),
    Row("maxConcurrent", "max_concurrent", whole(0)),
    Row("minContextWindow", "min_context_window", whole(1)),
)
CANONICAL: Mapping[str, str] = MappingProxyType({row.field: row.path for row in ROWS})


def _nested() -> Mapping[str, tuple[str, ...]]:
    groups: dict[str, list[str]] = {}
    for row in ROWS:
        outer, dot, inner = row.path.partition(".")
        if dot:
            groups.setdefault(outer, []).append(inner)
    return MappingProxyType({outer: tuple(inner) for outer, inner in groups.items()})


NESTED = _nested()
KEYS = tuple(dict.fromkeys(row.path.partition(".")[0] for row in ROWS))


def read_config(raw: Any, known: Known) -> tuple[ComboConfig, Mapping[str, Any]]:
    """The config, and what of it was given (by field; defaults and nulls are left out).

    ``nadir.apiKey`` is among what was given and never in the config. Raises INVALID_FIELD.
    """
    config = {} if raw is None else raw
    _refuse_unknown(config)
    given: dict[str, Any] = {}
    for row in ROWS:
        value = _at(config, row.path)
        if value is not None:
            given[row.field] = row.read(value, f"config.{row.path}", known)
    return _assembled(given), MappingProxyType(given)


def _refuse_unknown(config: Any) -> None:
    if isinstance(config, Mapping) and SETTING_ONLY in config:
        allowed = f"{SETTING_ONLY} is a setting only: set it for the whole service"
        raise invalid(f"config.{SETTING_ONLY}", shape(config[SETTING_ONLY]), allowed)
    for outer in read_object(config, "config", KEYS):
        if outer in NESTED and config[outer] is not None:
            read_object(config[outer], f"config.{outer}", NESTED[outer])


def _at(config: Mapping[str, Any], path: str) -> Any:
    outer, dot, inner = path.partition(".")
    value = config.get(outer)
    return value.get(inner) if dot and value is not None else value


def _assembled(given: Mapping[str, Any]) -> ComboConfig:
    plain = {name: value for name, value in given.items() if name in _PLAIN}
    if "candidate_pool" in plain:
        plain["candidate_pool"] = frozenset(plain["candidate_pool"])
    windows = plain.get("reset_window_windows", ComboConfig().reset_window_windows)
    if given.get(INCLUDE_SESSION) and "session" not in windows:
        plain["reset_window_windows"] = ("session", *windows)
    sla = SlaTargets(**_group(given, "sla."))
    return ComboConfig(**plain, sla=sla, fusion=FusionTuning(**_group(given, "fusion.")))


def _group(given: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)}


_PLAIN = frozenset(field.name for field in fields(ComboConfig)) - {"sla", "fusion"}


def without_secret(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A config as it may be stored in clear and shown."""
    nadir = raw.get("nadir")
    if not isinstance(nadir, Mapping):
        return dict(raw)
    kept = {key: value for key, value in nadir.items() if key != "apiKey"}
    return {key: value for key, value in raw.items() if key != "nadir"} | ({"nadir": kept} if kept else {})
