"""Model patterns that lead to combos."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from decision_service.policy import TRUSTED
from decision_service.policy.fields import Reader, nearest, plain_text, read_fields, whole
from decision_service.registry.registry import Change, Registry, check_etag, exists
from decision_service.store.records import MAPPINGS, MappingRecord
from service_kit.errors import invalid

FIELDS: Mapping[str, Reader] = {
    "pattern": plain_text(256, least=1),
    "combo": plain_text(128, least=1),
    "priority": whole(-(2**31)),
}


def create(registry: Registry, values: Mapping[str, Any]) -> MappingRecord:
    """Store a mapping; ``values`` are FIELDS and ``id``. Raises INVALID_FIELD, ALREADY_EXISTS."""
    with registry.change() as change:
        given = {"pattern": "", "combo": ""} | dict(values)
        bare = MappingRecord(id=change.fresh_id(MAPPINGS, given.pop("id", ""), "map"), pattern="", combo="")
        return change.add(MAPPINGS, _checked(change, bare, given))


def update(registry: Registry, mapping_id: str, etag: str, values: Mapping[str, Any]) -> MappingRecord:
    """Change some of FIELDS. Raises NOT_FOUND, INVALID_FIELD, ALREADY_EXISTS, CONFLICT."""
    with registry.change() as change:
        old = change.get(MAPPINGS, mapping_id)
        check_etag(old, etag)
        return change.put(MAPPINGS, old, _checked(change, old, values))


def delete(registry: Registry, mapping_id: str, etag: str) -> None:
    """Remove a mapping. Raises NOT_FOUND, CONFLICT."""
    with registry.change() as change:
        record = change.get(MAPPINGS, mapping_id)
        check_etag(record, etag)
        change.drop(MAPPINGS, record)


def _checked(change: Change, old: MappingRecord, values: Mapping[str, Any]) -> MappingRecord:
    new = replace(old, **read_fields(values, "", FIELDS, TRUSTED))
    combos = change.before.roster.combos
    if new.combo not in combos:
        hint = f"; the nearest one is {nearest(new.combo, combos)!r}" if combos else ""
        raise invalid("combo", f"the unknown combo {new.combo!r}", f"the name of a stored combo{hint}")
    for other in change.before.stored.of(MAPPINGS).values():
        if other.id != new.id and (other.pattern, other.priority) == (new.pattern, new.priority):
            raise exists("pattern", f"a mapping of {new.pattern!r} with priority {new.priority}")
    return new
