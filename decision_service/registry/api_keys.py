"""Keys that clients present."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from decision_service.policy import TRUSTED
from decision_service.policy.fields import Reader, choice, each, flag, number, plain_text, read_fields, shape, whole
from decision_service.registry.registry import Change, Registry, check_etag
from decision_service.store.records import API_KEYS, ApiKeyRecord
from decision_service.vault import SHOWN_KEY_CHARS, new_api_key
from service_kit.errors import Reason, ServiceError, invalid

SCOPES = ("inference", "admin")
MOST_TOKENS = 2**53
MOST_PRESENTED_CHARS = 512

FIELDS: Mapping[str, Reader] = {
    "name": plain_text(128, least=1),
    "enabled": flag,
    "scopes": each(choice(SCOPES), len(SCOPES)),
    "allowed_models": each(plain_text(256, least=1), 256),
    "allowed_connections": each(plain_text(64, least=1), 256),
    "requests_per_minute": whole(0, 2**32 - 1),
    "tokens_per_minute": whole(0, MOST_TOKENS),
    "usd_per_day": number(0),
    "usd_per_month": number(0),
    "expires_at": whole(1, MOST_TOKENS),
}


@dataclass(frozen=True, slots=True)
class NewKey:
    """A stored key and its text, which is shown this once."""

    record: ApiKeyRecord
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who presented a key. ``record`` None: anonymous, and no key is required."""

    required: bool
    record: ApiKeyRecord | None = None


def create(registry: Registry, values: Mapping[str, Any]) -> NewKey:
    """Store a key; ``values`` are FIELDS and ``id``. Raises INVALID_FIELD, ALREADY_EXISTS."""
    secret = new_api_key()
    with registry.change() as change:
        given = {"name": ""} | dict(values)
        bare = ApiKeyRecord(
            id=change.fresh_id(API_KEYS, given.pop("id", ""), "key"),
            name="",
            digest=registry.vault.key_digest(secret),
            prefix=secret[:SHOWN_KEY_CHARS],
        )
        return NewKey(change.add(API_KEYS, _checked(change, bare, given)), secret)


def update(registry: Registry, key_id: str, etag: str, values: Mapping[str, Any]) -> ApiKeyRecord:
    """Change some of FIELDS; ``expires_at`` None: never. Raises NOT_FOUND, INVALID_FIELD, CONFLICT."""
    with registry.change() as change:
        old = change.get(API_KEYS, key_id)
        check_etag(old, etag)
        return change.put(API_KEYS, old, _checked(change, old, values))


def delete(registry: Registry, key_id: str, etag: str) -> None:
    """Remove a key, with its overrides. Raises NOT_FOUND, CONFLICT."""
    with registry.change() as change:
        record = change.get(API_KEYS, key_id)
        check_etag(record, etag)
        change.drop(API_KEYS, record)


def authenticate(registry: Registry, secret: str) -> Caller:
    """Whose key this is. Raises UNAUTHENTICATED: unknown, disabled, expired, or none where one is needed.

    As long as no key is stored, everybody is anonymous, whatever they present: many clients cannot send none. A key
    that is disabled or expired still counts as stored: switching off the last one must not open the door.
    """
    required = bool(registry.snapshot.keys)
    if not required:
        return Caller(required=False)
    if not secret:
        raise ServiceError(Reason.UNAUTHENTICATED, "an API key is required")
    record = _presented(registry, secret)
    if record is None or not record.enabled:
        raise ServiceError(Reason.UNAUTHENTICATED, "the API key is unknown or disabled")
    if record.expires_at is not None and record.expires_at <= registry.now():
        raise ServiceError(Reason.UNAUTHENTICATED, "the API key has expired")
    return Caller(required=True, record=record)


def _presented(registry: Registry, secret: str) -> ApiKeyRecord | None:
    """Found by keyed digest, so that the time it takes tells nothing of the keys that are stored."""
    if len(secret) > MOST_PRESENTED_CHARS:
        return None
    digest = registry.vault.key_digest(secret)
    record = registry.snapshot.keys.get(digest)
    return record if record is not None and hmac.compare_digest(record.digest, digest) else None


def _checked(change: Change, old: ApiKeyRecord, values: Mapping[str, Any]) -> ApiKeyRecord:
    fields = read_fields(values, "", FIELDS, TRUSTED)
    if "expires_at" in values:
        fields.setdefault("expires_at", None)
    if not fields.get("scopes", ("inference",)):
        fields["scopes"] = ("inference",)
    known = change.before.connections.keys() | set(old.allowed_connections)
    for index, name in enumerate(fields.get("allowed_connections", ())):
        if name not in known:
            raise invalid(f"allowed_connections[{index}]", shape(name), "the id of a connection")
    return replace(old, **fields)
