"""What is known of models, and what an operator knows better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from decision_service.catalog import KnownProvider
from decision_service.kernel.model import ModelFacts
from decision_service.policy import TRUSTED, Known
from decision_service.policy.fields import (
    Reader,
    choice,
    each,
    flag,
    number,
    plain_text,
    provider_name,
    read_fields,
    whole,
)
from decision_service.policy.vocabulary import CAPABILITY_WORDS, TASK_TYPES
from decision_service.registry.registry import Registry, check_etag, not_found
from decision_service.roster_source import provider_at
from decision_service.store.records import MODELS, ModelRecord
from decision_service.store.sql import Key
from service_kit.errors import invalid


def capabilities(value: Any, path: str, known: Known) -> tuple[str, ...]:
    """Capabilities, ``-name`` where known not to be there."""
    names: tuple[str, ...] = each(choice(CAPABILITY_WORDS), 64)(value, path, known)
    for name in names:
        if f"-{name}" in names:
            raise invalid(path, f"both {name!r} and '-{name}'", "one of them")
    return names


def fitness(value: Any, path: str, known: Known) -> dict[str, float]:
    """Fitness by task type, 0..1."""
    return read_fields(value, path, dict.fromkeys((*TASK_TYPES, "default"), number(0, 1)), known)


FIELDS: Mapping[str, Reader] = {
    "name": plain_text(256),
    "input_price": number(0),
    "output_price": number(0),
    "cached_input_price": number(0),
    "context_window": whole(1),
    "max_output_tokens": whole(1),
    "capabilities": capabilities,
    "hidden": flag,
    "fitness": fitness,
}


@dataclass(frozen=True, slots=True)
class ModelView:
    """A model as it is now known; ``record`` is what an operator changed of it."""

    provider: str
    model: str
    name: str
    facts: ModelFacts
    record: ModelRecord | None = None


def listed(registry: Registry, provider: str = "", *, connected_only: bool = False) -> dict[Key, ModelView]:
    """Models by (provider, model): of every provider, of one, or of those that have a connection."""
    snapshot = registry.snapshot
    names = snapshot.roster.accounts if connected_only else snapshot.provider_ids
    found: dict[Key, ModelView] = {}
    for name in names:
        known = provider_at(snapshot, registry.source.around, name) if not provider or name == provider else None
        for model in known.facts if known else ():
            assert known is not None
            found[name, model] = _view(registry, known, model)
    return found


def find(registry: Registry, provider: str, model: str) -> ModelView:
    """One model. Raises NOT_FOUND."""
    known = provider_at(registry.snapshot, registry.source.around, provider)
    if known is None or model not in known.facts:
        raise not_found(MODELS.kind, f"{provider}/{model}")
    return _view(registry, known, model)


def update(registry: Registry, provider: str, model: str, etag: str, values: Mapping[str, Any]) -> ModelView:
    """Override some of FIELDS; None takes an override back. The model is made when nobody knew it.

    Raises INVALID_FIELD, CONFLICT.
    """
    with registry.change() as change:
        provider_name(provider, "provider", Known(providers=change.before.provider_ids))
        key = (provider, plain_text(256, least=1)(model, "model", TRUSTED))
        old = change.before.stored.of(MODELS).get(key)
        check_etag(old or ModelRecord(*key), etag)
        merged = {**(old.facts if old else {}), **read_fields(values, "", FIELDS, TRUSTED)}
        gone = {name for name, value in values.items() if value is None}
        new = ModelRecord(*key, facts={name: value for name, value in merged.items() if name not in gone})
        if old is None:
            change.add(MODELS, new)
        else:
            change.put(MODELS, old, replace(old, facts=new.facts))
    return find(registry, *key)


def _view(registry: Registry, known: KnownProvider, model: str) -> ModelView:
    record = registry.snapshot.stored.of(MODELS).get((known.id, model))
    name = (record.facts.get("name") if record else None) or known.model_names.get(model, model)
    return ModelView(known.id, model, name, known.facts[model], record)
