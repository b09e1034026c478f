"""What a key changes in a channel's pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from decision_service.kernel.grammar import AUTO, AUTO_PREFIX, CHANNELS
from decision_service.policy import TRUSTED, Known
from decision_service.policy.fields import Reader, choice, each, flag, nearest, number, read_fields, shape
from decision_service.policy.vocabulary import SINGLE_SHAPE
from decision_service.registry.registry import Change, Registry, check_etag, get
from decision_service.roster_source import Snapshot
from decision_service.store.records import API_KEYS, OVERRIDES, OverrideRecord
from service_kit.errors import invalid

MOST_CANDIDATES = 1_000
CANDIDATE_FIELDS: Mapping[str, Reader] = {"excluded": flag, "multiplier": number(0, 1)}


def resolved_channel(name: str) -> str:
    """The channel whose state and overrides a channel's name means, with or without ``auto/``. Raises INVALID_FIELD."""
    bare = name.removeprefix(AUTO_PREFIX) or AUTO
    if bare not in CHANNELS:
        got = f"{shape(name)}; the nearest known one is {nearest(bare, CHANNELS)!r}"
        raise invalid("channel", got, "auto, a variant, or category[:tier]")
    return CHANNELS[bare].name


def find(registry: Registry, api_key_id: str, channel: str) -> OverrideRecord:
    """The override of a key and channel. Raises NOT_FOUND, INVALID_FIELD."""
    key = (api_key_id, resolved_channel(channel))
    return get(registry.snapshot.stored.of(OVERRIDES), OVERRIDES.kind, key)


def put(registry: Registry, wanted: OverrideRecord, etag: str) -> OverrideRecord:
    """Store the override of a key and channel in place of the one there is. Raises INVALID_FIELD, CONFLICT.

    ``wanted`` holds values as they were sent.
    """
    with registry.change() as change:
        key = _key(change, wanted.api_key_id, wanted.channel)
        new = replace(
            OverrideRecord(*key),
            candidates=_candidates(change.before, wanted.candidates),
            order=each(_candidate_of(change.before), MOST_CANDIDATES)(wanted.order, "order", TRUSTED),
            strategy=choice(SINGLE_SHAPE)(wanted.strategy, "strategy", TRUSTED) if wanted.strategy else "",
        )
        if new.order and new.strategy:
            raise invalid("strategy", shape(new.strategy), "nothing beside an order: either an order or a strategy")
        old = change.before.stored.of(OVERRIDES).get(key)
        check_etag(old or new, etag)
        return change.put(OVERRIDES, old, new) if old else change.add(OVERRIDES, new)


def delete(registry: Registry, api_key_id: str, channel: str, etag: str) -> None:
    """Remove an override. Raises NOT_FOUND, CONFLICT."""
    with registry.change() as change:
        record = change.get(OVERRIDES, api_key_id, resolved_channel(channel))
        check_etag(record, etag)
        change.drop(OVERRIDES, record)


def _key(change: Change, api_key_id: str, channel: str) -> tuple[str, str]:
    if (api_key_id,) not in change.before.stored.of(API_KEYS):
        raise invalid("api_key_id", shape(api_key_id), "the id of a stored API key")
    return api_key_id, resolved_channel(channel)


def _candidates(before: Snapshot, given: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    if len(given) > MOST_CANDIDATES:
        raise invalid("candidates", f"a list of {len(given)}", f"at most {MOST_CANDIDATES}")
    read = _candidate_of(before)
    return {
        read(name, f"candidates[{index}].candidate", TRUSTED): read_fields(
            fields, f"candidates[{index}]", CANDIDATE_FIELDS, TRUSTED
        )
        for index, (name, fields) in enumerate(given.items())
    }


def _candidate_of(before: Snapshot) -> Reader:
    """``provider/model@connection`` with a connection of that provider; model ids may hold ``/`` and ``@``."""

    def read(value: Any, path: str, _known: Known) -> str:
        provider, slash, rest = value.partition("/") if isinstance(value, str) else ("", "", "")
        model, at, connection = rest.rpartition("@")
        if not (slash and model and at) or len(value) > 512:
            raise invalid(path, shape(value), "provider/model@connection")
        if (provider, connection) not in before.roster.connections:
            raise invalid(path, shape(value), f"a candidate whose connection is one of provider {provider!r}")
        return str(value)

    return read
