"""From a scenario's plain values to a roster, a starting state and events. A bad field is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from decision_service.kernel.grammar import CHANNELS
from decision_service.kernel.model import (
    Candidate,
    Combo,
    Connection,
    ModelFacts,
    ModelMapping,
    Override,
    Provider,
    ProviderClass,
)
from decision_service.kernel.roster import Roster
from decision_service.policy import Known, parse_combos, parse_settings
from decision_service.policy.fields import choice, each, flag, number, read_object, shape, text, whole
from decision_service.policy.known import TRUSTED
from decision_service.policy.vocabulary import SINGLE_SHAPE
from decision_service.scenario.signals import SIGNALS, Signals, read_signals
from service_kit.errors import invalid

FORMAT = 1
CAPABILITIES = frozenset({"tools", "vision", "audio", "structured_output", "reasoning", "embeddings", "chat"})
CANDIDATE_KEYS = (
    *("provider", "model", "connection", "account_tier", "input_price", "output_price", "context_window"),
    *("max_output", "capabilities", "signals"),
)
OVERRIDE_KEYS = ("api_key_id", "channel", "candidate", "excluded", "multiplier", "order", "strategy")
TOP_KEYS = (
    *("scenario", "now", "seed", "settings", "providers", "candidates", "combos", "mappings", "overrides"),
    *("state", "events"),
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario as understood. ``signals`` go with ``candidates``, place by place; ``now`` is epoch milliseconds.

    ``memory`` is what a live service remembered; empty: nothing.
    """

    now: int
    seed: int
    roster: Roster
    candidates: Sequence[Candidate]
    signals: Sequence[Signals]
    memory: Mapping[str, Any]
    events: Sequence[Mapping[str, Any]]


def read_scenario(raw: Any) -> Scenario:
    """A scenario from plain values; raises INVALID_FIELD."""
    given = read_object(raw, "scenario file", TOP_KEYS)
    if given.get("scenario", FORMAT) != FORMAT:
        raise invalid("scenario", shape(given["scenario"]), str(FORMAT))
    providers = _providers(_object(given, "providers"))
    rows = _list(given, "candidates")
    named = {str(row.get("provider")) for row in rows if isinstance(row, Mapping)}
    providers = {**dict.fromkeys(named, ProviderClass.API_KEY), **providers}
    candidates = [_candidate(row, f"candidates[{i}]", providers) for i, row in enumerate(rows)]
    seen: set[str] = set()
    for i, candidate in enumerate(candidates):
        if candidate.id in seen:
            raise invalid(f"candidates[{i}]", f"a second {candidate.id!r}", "candidate ids that differ")
        seen.add(candidate.id)
    now = _instant(given.get("now", "2026-01-01T00:00:00Z"))
    return Scenario(
        now=now,
        seed=whole(0, 2**63 - 1)(given.get("seed", 0), "seed", TRUSTED),
        roster=_roster(given, candidates, providers),
        candidates=candidates,
        signals=[read_signals(row.get("signals"), f"candidates[{i}].signals", now) for i, row in enumerate(rows)],
        memory=_object(given, "state"),
        events=_list(given, "events"),
    )


def _object(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = given.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise invalid(key, shape(value), "an object")
    return value


def _list(given: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = given.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise invalid(key, shape(value), "a list")
    return value


def _instant(value: Any) -> int:
    """Epoch milliseconds of an RFC 3339 text (YAML may have read it already)."""
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise invalid("now", shape(value), "an RFC 3339 instant") from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)


def _providers(given: Mapping[str, Any]) -> dict[str, ProviderClass]:
    classes = {}
    for name, raw in given.items():
        value = read_object({} if raw is None else raw, f"providers.{name}", ("class",)).get("class", "api_key")
        if value not in list(ProviderClass):
            raise invalid(f"providers.{name}.class", shape(value), ", ".join(ProviderClass))
        classes[str(name)] = ProviderClass(value)
    return classes


def _candidate(raw: Any, path: str, providers: Mapping[str, ProviderClass]) -> Candidate:
    given = read_object(raw, path, CANDIDATE_KEYS)
    signals = {} if given.get("signals") is None else read_object(given["signals"], f"{path}.signals", SIGNALS)
    provider, model, connection = (_name(given, key, path) for key in ("provider", "model", "connection"))
    has, lacks = _capabilities(given.get("capabilities"), f"{path}.capabilities")
    facts = ModelFacts(
        input_price=_optional(given, "input_price", path, number(0.0)),
        output_price=_optional(given, "output_price", path, number(0.0)),
        context_window=_optional(given, "context_window", path, whole(0)),
        max_output=_optional(given, "max_output", path, whole(0)),
        has=has,
        lacks=lacks,
        fitness=_fitness(signals.get("fitness"), f"{path}.signals.fitness"),
    )
    tier = _optional(given, "account_tier", path, text(32))
    return Candidate(provider, model, connection, providers[provider], tier or "standard", facts)


def _name(given: Mapping[str, Any], key: str, path: str) -> str:
    return str(text(256, least=1)(given.get(key), f"{path}.{key}", TRUSTED))


def _optional(given: Mapping[str, Any], key: str, path: str, read: Callable[[Any, str, Known], Any]) -> Any:
    value = given.get(key)
    return None if value is None else read(value, f"{path}.{key}", TRUSTED)


def _capabilities(raw: Any, path: str) -> tuple[frozenset[str], frozenset[str]]:
    if raw is None:
        return frozenset(), frozenset()
    if not isinstance(raw, list):
        raise invalid(path, shape(raw), "a list")
    for item in raw:
        if not isinstance(item, str) or item.removeprefix("-") not in CAPABILITIES:
            raise invalid(path, shape(item), ", ".join(sorted(CAPABILITIES)) + ", each with - where known not to")
    has = frozenset(item for item in raw if not item.startswith("-"))
    return has, frozenset(item[1:] for item in raw if item.startswith("-"))


def _fitness(raw: Any, path: str) -> Mapping[str, float]:
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        raise invalid(path, shape(raw), "an object of task types")
    known = {str(task): number(0.0, 1.0)(value, f"{path}.{task}", TRUSTED) for task, value in raw.items()}
    return {"default": 0.5, **known}


def _roster(given: Mapping[str, Any], candidates: Sequence[Candidate], classes: Mapping[str, ProviderClass]) -> Roster:
    models: dict[str, dict[str, None]] = {name: {} for name in classes}
    accounts: dict[tuple[str, str], list[Candidate]] = {}
    for candidate in candidates:
        models[candidate.provider][candidate.model] = None
        accounts.setdefault((candidate.provider, candidate.connection), []).append(candidate)
    connections = {
        key: Connection(
            key[1], key[0], models=tuple(c.model for c in group), closed=True, account_tier=group[0].account_tier
        )
        for key, group in accounts.items()
    }
    settings = parse_settings(_object(given, "settings"))
    known = Known(None, None, frozenset(), None, settings.combo_ref_max_depth)
    combos = parse_combos(_list(given, "combos"), known)
    _check_steps(combos.values(), candidates)
    mappings = [_mapping(raw, f"mappings[{i}]", combos) for i, raw in enumerate(_list(given, "mappings"))]
    return Roster(
        providers={name: Provider(name, cls, models=tuple(models[name])) for name, cls in classes.items()},
        connections=connections,
        facts={(c.provider, c.model, c.connection): c.facts for c in candidates},
        combos=combos,
        mappings=tuple(mappings),
        overrides=_overrides(_list(given, "overrides"), {c.id for c in candidates}),
        settings=settings,
    )


def _check_steps(combos: Iterable[Combo], candidates: Sequence[Candidate]) -> None:
    """Every step names a candidate."""
    pinned = {(c.provider, c.model, c.connection) for c in candidates}
    dynamic = {(c.provider, c.model, None) for c in candidates}
    for i, combo in enumerate(combos):
        for j, step in enumerate(combo.steps):
            if not step.combo and (step.provider, step.model, step.connection) not in pinned | dynamic:
                place = f"@{step.connection}" if step.connection else ""
                got = f"{step.provider}/{step.model}{place}, which is no candidate"
                raise invalid(f"combos[{i}].steps[{j}]", got, "a candidate of the scenario")


def _mapping(raw: Any, path: str, combos: Mapping[str, Any]) -> ModelMapping:
    given = read_object(raw, path, ("pattern", "combo", "priority"))
    pattern, combo = _name(given, "pattern", path), _name(given, "combo", path)
    if combo not in combos:
        raise invalid(f"{path}.combo", shape(combo), "the name of a combo")
    return ModelMapping(pattern, combo, whole(-(2**31))(given.get("priority", 0), f"{path}.priority", TRUSTED))


def _channel(given: Mapping[str, Any], path: str) -> str:
    """The resolved channel: `floor` reads `cheap`, a flat id what it stands for."""
    name = _name(given, "channel", path)
    if name not in CHANNELS:
        raise invalid(f"{path}.channel", shape(name), "what may follow auto/, or auto itself")
    return CHANNELS[name].name


def _overrides(rows: Sequence[Any], ids: set[str]) -> dict[tuple[str, str], Override]:
    found: dict[tuple[str, str], Override] = {}
    for i, raw in enumerate(rows):
        path = f"overrides[{i}]"
        given = read_object(raw, path, OVERRIDE_KEYS)
        key = (_name(given, "api_key_id", path), _channel(given, path))
        order = _optional(given, "order", path, each(text(800, least=1), 1_000))
        strategy = _optional(given, "strategy", path, choice(("", *SINGLE_SHAPE)))
        if order and strategy:
            raise invalid(f"{path}.strategy", shape(strategy), "nothing beside an order: either an order or a strategy")
        if order or strategy:
            found[key] = replace(found.get(key, Override()), order=order or (), strategy=strategy or "")
            continue
        candidate = _name(given, "candidate", path)
        if candidate not in ids:
            raise invalid(f"{path}.candidate", shape(candidate), "the id of a candidate")
        old = found.get(key, Override())
        excluded, multipliers = old.excluded, dict(old.multipliers)
        if flag(given.get("excluded", False), f"{path}.excluded", TRUSTED):
            excluded = excluded | {candidate}
        if given.get("multiplier") is not None:
            multipliers[candidate] = number(0.0, 1.0)(given["multiplier"], f"{path}.multiplier", TRUSTED)
        found[key] = replace(old, excluded=excluded, multipliers=multipliers)
    return found
