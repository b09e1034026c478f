"""Vendors and servers: those of the catalogue, with an operator's changes, and an operator's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from decision_service.catalog import KnownProvider
from decision_service.catalog.endpoints import DIALECTS, OPENAI
from decision_service.kernel.model import ProviderClass
from decision_service.policy import TRUSTED
from decision_service.policy.fields import Reader, choice, flag, optional_url, plain_text, read_fields, shape
from decision_service.registry.registry import Change, Registry, check_etag, conflict, exists, named, not_found
from decision_service.roster_source import Snapshot, Surroundings, provider_at
from decision_service.store.records import PROVIDERS, ProviderRecord
from decision_service.store.sql import Key
from service_kit.errors import invalid

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
RESERVED_IDS = ("auto", "combo")

FIELDS: Mapping[str, Reader] = {
    "name": plain_text(128),
    "provider_class": choice(tuple(ProviderClass)),
    "dialect": choice(DIALECTS),
    "base_url": optional_url,
    "enabled": flag,
}


@dataclass(frozen=True, slots=True)
class ProviderView:
    """A provider as known, and the row that an operator stored of it."""

    known: KnownProvider
    record: ProviderRecord | None = None


def listed(registry: Registry, *, custom_only: bool = False) -> dict[Key, ProviderView]:
    """Every known provider, or those that an operator stored."""
    snapshot, around = registry.snapshot, registry.source.around
    names = (key[0] for key in snapshot.stored.of(PROVIDERS)) if custom_only else snapshot.provider_ids
    return {(name,): view for name in names if (view := _view(snapshot, around, name))}


def find(registry: Registry, provider_id: str) -> ProviderView:
    """One provider. Raises NOT_FOUND."""
    view = _view(registry.snapshot, registry.source.around, provider_id)
    if view is None:
        raise not_found(PROVIDERS.kind, provider_id)
    return view


def create(registry: Registry, values: Mapping[str, Any]) -> ProviderView:
    """Store an operator's own provider; ``values`` are FIELDS and ``id``. Raises INVALID_FIELD, ALREADY_EXISTS."""
    with registry.change() as change:
        given = dict(values)
        name = _free_id(change, given.pop("id", ""))
        fields = read_fields(given, "", FIELDS, TRUSTED)
        if not fields.get("base_url"):
            raise invalid("base_url", "nothing", "an absolute http or https URL")
        defaults = {"name": name, "provider_class": ProviderClass.API_KEY.value, "dialect": OPENAI}
        record = change.add(PROVIDERS, ProviderRecord(id=name, **(defaults | fields)))
    return find(registry, record.id)


def update(registry: Registry, provider_id: str, etag: str, values: Mapping[str, Any]) -> ProviderView:
    """Change some of FIELDS, of a catalogue provider too. Raises NOT_FOUND, INVALID_FIELD, CONFLICT."""
    with registry.change() as change:
        view = _changeable(registry, change, provider_id)
        old = view.record
        check_etag(old or _row(view.known), etag)
        new = replace(old or _row(view.known), **read_fields(values, "", FIELDS, TRUSTED))
        if old is None:
            change.add(PROVIDERS, new)
        else:
            change.put(PROVIDERS, old, new)
    return find(registry, provider_id)


def delete(registry: Registry, provider_id: str, etag: str) -> None:
    """Remove what is stored: a catalogue provider is then as the catalogue has it.

    Raises NOT_FOUND, and CONFLICT while connections or combos need the operator's own provider.
    """
    with registry.change() as change:
        record = change.get(PROVIDERS, provider_id)
        check_etag(record, etag)
        if registry.source.around.catalog.provider(provider_id) is None:
            _refuse_if_needed(change, provider_id)
        change.drop(PROVIDERS, record)


def _view(snapshot: Snapshot, around: Surroundings, name: str) -> ProviderView | None:
    known = provider_at(snapshot, around, name)
    return None if known is None else ProviderView(known, snapshot.stored.of(PROVIDERS).get((name,)))


def _row(known: KnownProvider) -> ProviderRecord:
    return ProviderRecord(known.id, known.name, known.provider_class.value, known.dialect, known.base_url)


def _free_id(change: Change, given: str) -> str:
    if not ID.fullmatch(given) or given in RESERVED_IDS:
        allowed = "1 to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit, not auto or combo"
        raise invalid("id", shape(given), allowed)
    if given in change.before.provider_ids:
        raise exists("id", f"provider {given!r}")
    return given


def _changeable(registry: Registry, change: Change, name: str) -> ProviderView:
    if any(provider.id == name for provider in registry.source.around.demo):
        raise conflict(f"provider {name!r} is a simulated one; it cannot be changed")
    view = _view(change.before, registry.source.around, name)
    if view is None:
        raise not_found(PROVIDERS.kind, name)
    return view


def _refuse_if_needed(change: Change, name: str) -> None:
    users = [record.id for record in change.before.connections.values() if record.provider == name]
    if users:
        raise conflict(f"provider {name!r} has the connections {named(users)}; remove them first")
    combos = change.before.roster.combos.values()
    combos_using = [combo.name for combo in combos if any(step.provider == name for step in combo.steps)]
    if combos_using:
        raise conflict(f"provider {name!r} is named by the steps of {named(combos_using)}; change them first")
