"""What is known of providers and models: the operator's word over the catalogue's, and what was synced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from decision_service.catalog import Catalog, KnownProvider
from decision_service.kernel.knowledge.synced import BOARDS, CAPABILITIES, Synced
from decision_service.kernel.model import UNKNOWN_FACTS, ModelFacts, ProviderClass
from decision_service.store.records import KnowledgeRecord, ModelRecord, ProviderRecord

FIELD_OF = {"max_output_tokens": "max_output"}


def provider_ids(catalog: Catalog, stored: Iterable[str], demo: Iterable[KnownProvider]) -> frozenset[str]:
    """Every provider that a policy may name."""
    return catalog.ids.union(stored, (provider.id for provider in demo))


def known_provider(
    catalogued: KnownProvider | None, record: ProviderRecord | None, models: Iterable[ModelRecord]
) -> KnownProvider:
    """One provider, with the operator's changes; at least one of ``catalogued`` and ``record`` is given."""
    known = catalogued
    if record is not None:
        known = replace(
            known or KnownProvider(record.id, record.name, ProviderClass(record.provider_class)),
            name=record.name,
            provider_class=ProviderClass(record.provider_class),
            dialect=record.dialect,
            base_url=record.base_url,
        )
    assert known is not None
    changed = {model.model: overridden(known.facts.get(model.model, UNKNOWN_FACTS), model.facts) for model in models}
    return replace(known, facts={**known.facts, **changed}) if changed else known


def overridden(facts: ModelFacts, given: Mapping[str, Any]) -> ModelFacts:
    """Facts with what an operator knows better, by the names of the contract; ``capabilities`` replaces them all."""
    plain = {FIELD_OF.get(name, name): value for name, value in given.items() if name not in ("name", "capabilities")}
    if "capabilities" in given:
        names = given["capabilities"]
        plain["has"] = frozenset(name for name in names if not name.startswith("-"))
        plain["lacks"] = frozenset(name.removeprefix("-") for name in names if name.startswith("-"))
    return replace(facts, **plain)


def synced(kept: Iterable[KnowledgeRecord]) -> Synced:
    """What outside sources told, as the kernel reads it; a source that is not known here is passed over."""
    by_source = {record.source: record.known for record in kept}
    boards = {board: by_source[board] for board in BOARDS if board in by_source}
    return Synced(boards, by_source.get(CAPABILITIES, {}))
