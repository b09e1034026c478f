"""Stored records as the kernel's values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from decision_service import credentials
from decision_service.catalog import KnownProvider
from decision_service.kernel.knowledge.synced import NOTHING_SYNCED
from decision_service.kernel.model import (
    Combo,
    Connection,
    KeyPolicy,
    ModelFacts,
    ModelMapping,
    Override,
    Provider,
)
from decision_service.kernel.roster import Roster
from decision_service.policy import Known, parse_combo, parse_settings
from decision_service.roster_source.knowledge import synced
from decision_service.roster_source.stored import Stored, Surroundings
from decision_service.store import records
from service_kit.errors import Reason, ServiceError


def roster_of(
    stored: Stored,
    around: Surroundings,
    providers: Mapping[str, KnownProvider],
    connections: Mapping[str, records.ConnectionRecord],
) -> Roster:
    """What the kernel routes on. Raises ServiceError when a stored combo cannot be read any more."""
    rows = stored.of(records.PROVIDERS)
    return Roster(
        providers={name: _provider(known, rows.get((name,))) for name, known in providers.items()},
        connections={
            (record.provider, record.id): _connection(record, providers[record.provider], around.environ)
            for record in connections.values()
        },
        facts=_facts(providers),
        combos={combo.name: combo for combo in _combos(stored, around.routers)},
        mappings=tuple(_mapping(row) for row in stored.of(records.MAPPINGS).values()),
        overrides={(row.api_key_id, row.channel): _override(row) for row in stored.of(records.OVERRIDES).values()},
        keys={row.id: _key(row) for row in stored.of(records.API_KEYS).values()},
        settings=replace(parse_settings(stored.settings.settings), chaos_max_panel=around.chaos_max_panel),
        synced=synced(stored.of(records.KNOWLEDGE).values()) if around.synced else NOTHING_SYNCED,
        version=stored.revision,
    )


def _provider(known: KnownProvider, row: records.ProviderRecord | None) -> Provider:
    return Provider(known.id, known.provider_class, row is None or row.enabled, known.models)


def _facts(providers: Mapping[str, KnownProvider]) -> dict[tuple[str, ...], ModelFacts]:
    return {(known.id, model): facts for known in providers.values() for model, facts in known.facts.items()}


def _connection(record: records.ConnectionRecord, known: KnownProvider, environ: Mapping[str, str]) -> Connection:
    reachable = bool(record.base_url or known.base_url)
    chosen = (record.default_model, *record.models) if record.default_model else record.models
    return Connection(
        id=record.id,
        provider=record.provider,
        enabled=record.enabled,
        usable=reachable and credentials.usable(record, known.provider_class, environ),
        usable_until=credentials.usable_until(record),
        models=tuple(dict.fromkeys(chosen)),
        account_tier=record.account_tier,
        standby=record.origin == credentials.DEMO,
    )


def _combos(stored: Stored, routers: frozenset[str]) -> Iterable[Combo]:
    """Names in stored combos were checked when they were written; plug-ins may have gone since."""
    known = Known(routers=routers)
    for row in stored.of(records.COMBOS).values():
        try:
            combo = parse_combo(row.name, row.strategy, row.steps, row.config, known)
        except ServiceError as error:
            text = f"the stored combo {row.name!r} cannot be read: {error.message}"
            raise ServiceError(Reason.INTERNAL, text) from None
        yield replace(combo, version=row.version)


def _mapping(row: records.MappingRecord) -> ModelMapping:
    return ModelMapping(row.pattern, row.combo, row.priority)


def _override(row: records.OverrideRecord) -> Override:
    multipliers = {name: each["multiplier"] for name, each in row.candidates.items() if "multiplier" in each}
    excluded = frozenset(name for name, each in row.candidates.items() if each.get("excluded"))
    return Override(excluded, multipliers, row.order, row.strategy)


def _key(row: records.ApiKeyRecord) -> KeyPolicy:
    return KeyPolicy(
        id=row.id,
        enabled=row.enabled,
        allowed_models=row.allowed_models,
        allowed_connections=frozenset(row.allowed_connections),
        requests_per_minute=row.requests_per_minute,
        tokens_per_minute=row.tokens_per_minute,
        usd_per_day=row.usd_per_day,
        usd_per_month=row.usd_per_month,
    )
