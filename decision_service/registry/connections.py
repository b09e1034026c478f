"""Accounts with providers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from decision_service import credentials
from decision_service.credentials import DEMO, ENVIRONMENT, NO_CREDENTIAL, Credential
from decision_service.policy import Known
from decision_service.policy.fields import (
    Reader,
    each,
    flag,
    optional_url,
    plain_text,
    provider_name,
    read_fields,
    shape,
    whole,
)
from decision_service.policy.vocabulary import ACCOUNT_TIERS
from decision_service.registry.registry import Change, Registry, check_etag, conflict, get, named
from decision_service.roster_source import provider_at
from decision_service.store.records import CONNECTIONS, ConnectionRecord
from decision_service.store.sql import Key
from service_kit.errors import invalid

RESERVED_IDS = ("env-", "demo-")


def account_tier(value: Any, path: str, _known: Known) -> str:
    """An account tier in any case; empty reads standard."""
    tier = value.strip().lower() if isinstance(value, str) else value
    if tier == "":
        return "standard"
    if tier not in ACCOUNT_TIERS:
        raise invalid(path, shape(value), ", ".join(ACCOUNT_TIERS))
    return str(tier)


FIELDS: Mapping[str, Reader] = {
    "provider": provider_name,
    "label": plain_text(256),
    "enabled": flag,
    "default_model": plain_text(256),
    "models": each(plain_text(256, least=1), 256),
    "base_url": optional_url,
    "account_tier": account_tier,
    "max_concurrent": whole(0, 100_000),
}


def listed(registry: Registry, provider: str = "") -> dict[Key, ConnectionRecord]:
    """Stored and simulated connections by key; of one provider alone, if one is named."""
    found = registry.snapshot.connections.items()
    return {(key,): record for key, record in found if not provider or record.provider == provider}


def find(registry: Registry, connection_id: str) -> ConnectionRecord:
    """A stored or simulated connection. Raises NOT_FOUND."""
    return get(listed(registry), CONNECTIONS.kind, (connection_id,))


def create(registry: Registry, values: Mapping[str, Any], credential: Credential | None) -> ConnectionRecord:
    """Store a connection; ``values`` are FIELDS and ``id``. Raises INVALID_FIELD, ALREADY_EXISTS."""
    with registry.change() as change:
        given = dict(values)
        new_id = change.fresh_id(CONNECTIONS, given.pop("id", ""), "conn", RESERVED_IDS)
        fields = read_fields({"provider": ""} | given, "", FIELDS, Known(providers=change.before.provider_ids))
        _check_needed(registry, change, fields["provider"], credential)
        return change.add(CONNECTIONS, ConnectionRecord(id=new_id, **fields, **_sealed(registry, new_id, credential)))


def update(
    registry: Registry, connection_id: str, etag: str, values: Mapping[str, Any], credential: Credential | None
) -> ConnectionRecord:
    """Change some of FIELDS; no credential leaves the stored one. Raises NOT_FOUND, INVALID_FIELD, CONFLICT."""
    with registry.change() as change:
        record = _changeable(change, connection_id)
        check_etag(record, etag)
        fields = read_fields(values, "", FIELDS, Known(providers=change.before.provider_ids))
        if fields.get("provider", record.provider) != record.provider:
            raise invalid(
                "provider", shape(fields["provider"]), f"{record.provider!r}: a connection keeps its provider"
            )
        sealed = {} if credential is None else _sealed(registry, record.id, credential)
        return change.put(CONNECTIONS, record, replace(record, **fields, **sealed))


def delete(registry: Registry, connection_id: str, etag: str) -> None:
    """Remove a connection. Raises NOT_FOUND, and CONFLICT while a combo is pinned to it."""
    with registry.change() as change:
        record = _changeable(change, connection_id)
        check_etag(record, etag)
        pinned = _combos_pinned_to(change, record)
        if pinned:
            raise conflict(f"connection {record.id!r} is named by the steps of {named(pinned)}; change them first")
        environ = registry.source.around.environ
        if record.origin == ENVIRONMENT and environ.get(record.reference.removeprefix("env:")):
            raise conflict(
                f"connection {record.id!r} comes from {record.reference!r}; disable it, or unset the variable"
            )
        change.drop(CONNECTIONS, record)


def _changeable(change: Change, connection_id: str) -> ConnectionRecord:
    simulated = change.before.connections.get(connection_id)
    if simulated is not None and simulated.origin == DEMO:
        raise conflict(f"connection {connection_id!r} is a simulated one; it cannot be changed")
    return change.get(CONNECTIONS, connection_id)


def _check_needed(registry: Registry, change: Change, provider: str, credential: Credential | None) -> None:
    """A new connection may say that it needs none where that is so; elsewhere it would never be used.

    No statement at all is no such one: a credential may follow. Raises INVALID_FIELD.
    """
    known = provider_at(change.before, registry.source.around, provider)
    if credential == NO_CREDENTIAL and known is not None and known.provider_class != "local":
        got = f"none for provider {provider!r}, which is of class {known.provider_class} and is not asked without one"
        raise invalid("credential", got, "an API key, a reference or OAuth tokens; none for a provider of class local")


def _sealed(registry: Registry, connection_id: str, credential: Credential | None) -> dict[str, Any]:
    if credential is None:
        return {}
    credentials.check(credential)
    return credentials.stored(credential, connection_id, registry.vault)


def _combos_pinned_to(change: Change, record: ConnectionRecord) -> list[str]:
    place = (record.provider, record.id)
    combos = change.before.roster.combos.values()
    return [combo.name for combo in combos if any((step.provider, step.connection) == place for step in combo.steps)]
