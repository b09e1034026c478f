"""Named routing policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from decision_service.kernel.model import Combo
from decision_service.policy import TRUSTED, Known, parse_combo
from decision_service.policy.config import SECRET_FIELD, read_config, without_secret
from decision_service.policy.effective import Effective, effective_config
from decision_service.policy.fields import plain_text, read_object
from decision_service.policy.steps import write_step
from decision_service.registry.registry import Change, Registry, check_etag, conflict, exists, named
from decision_service.roster_source.shadowing import Shadow, shadow_of
from decision_service.store.records import COMBOS, MAPPINGS, ComboRecord

FIELDS = ("name", "strategy", "steps", "config", "description")
RESERVED_IDS = ("auto",)


@dataclass(frozen=True, slots=True)
class StoredCombo:
    """A combo as stored, and the model that its name hides, if it hides one."""

    record: ComboRecord
    shadow: Shadow | None = None


def create(registry: Registry, values: Mapping[str, Any]) -> StoredCombo:
    """Store a combo; ``values`` are FIELDS and ``id``. Raises INVALID_FIELD, ALREADY_EXISTS."""
    with registry.change() as change:
        given = dict(values)
        new_id = change.fresh_id(COMBOS, given.pop("id", ""), "combo", RESERVED_IDS)
        record = _written(registry, change, ComboRecord(id=new_id, name="", strategy=""), given)
        return StoredCombo(change.add(COMBOS, record), shadow_of(record.name, change.before, registry.source.around))


def update(registry: Registry, combo_id: str, etag: str, values: Mapping[str, Any]) -> StoredCombo:
    """Change some of FIELDS. Raises NOT_FOUND, INVALID_FIELD, ALREADY_EXISTS, CONFLICT."""
    with registry.change() as change:
        old = change.get(COMBOS, combo_id)
        check_etag(old, etag)
        if values.get("name", old.name) != old.name:
            _refuse_if_referenced(change, old.name, "renamed")
        new = _written(registry, change, old, values)
        return StoredCombo(change.put(COMBOS, old, new), shadow_of(new.name, change.before, registry.source.around))


def delete(registry: Registry, combo_id: str, etag: str) -> None:
    """Remove a combo. Raises NOT_FOUND, and CONFLICT while a combo or a mapping refers to it."""
    with registry.change() as change:
        record = change.get(COMBOS, combo_id)
        check_etag(record, etag)
        _refuse_if_referenced(change, record.name, "deleted")
        change.drop(COMBOS, record)


def effective(registry: Registry, record: ComboRecord) -> tuple[Effective, ...]:
    """The values in force for a combo, with their layers."""
    config, given = read_config(record.config, TRUSTED)
    return effective_config(config, given, registry.snapshot.roster.settings)


def nadir_key(registry: Registry, combo_name: str) -> str:
    """The stored Nadir key of a combo; empty: none. Raises VaultError."""
    for record in registry.snapshot.stored.of(COMBOS).values():
        if record.name == combo_name and record.sealed is not None:
            return registry.vault.open(record.sealed, _owner(record.id)).decode()
    return ""


def _written(registry: Registry, change: Change, old: ComboRecord, values: Mapping[str, Any]) -> ComboRecord:
    """The record with these values, checked against everything else that is stored."""
    given = read_object(values, "", FIELDS)
    raw = {name: given.get(name, getattr(old, name)) for name in FIELDS}
    combo = parse_combo(raw["name"], raw["strategy"], raw["steps"], raw["config"], _known(registry, change, old))
    if combo.name != old.name and combo.name in change.before.roster.combos:
        raise exists("name", f"a combo named {combo.name!r}")
    return replace(
        old,
        name=combo.name,
        strategy=combo.strategy,
        steps=[write_step(step) for step in combo.steps],
        config=without_secret(raw["config"] or {}),
        description=plain_text(4_096)(raw["description"] or "", "description", TRUSTED),
        sealed=_sealed(registry, old, raw["config"]),
    )


def _sealed(registry: Registry, old: ComboRecord, config: Any) -> bytes | None:
    """A Nadir key that is not given stays; an empty one goes."""
    key = read_config(config, TRUSTED)[1].get(SECRET_FIELD)
    if key is None:
        return old.sealed
    return registry.vault.seal(key.encode(), _owner(old.id)) if key else None


def _owner(combo_id: str) -> str:
    return f"combo/{combo_id}"


def _known(registry: Registry, change: Change, old: ComboRecord) -> Known:
    roster = change.before.roster
    stored: Combo | None = roster.combos.get(old.name)
    return Known(
        providers=change.before.provider_ids,
        connections=roster.connections,
        routers=registry.source.around.routers,
        combos={name: combo for name, combo in roster.combos.items() if name != old.name},
        combo_ref_max_depth=roster.settings.combo_ref_max_depth,
        stored=stored,
    )


def _refuse_if_referenced(change: Change, name: str, what: str) -> None:
    combos = change.before.roster.combos.values()
    users = [combo.name for combo in combos if combo.name != name and any(step.combo == name for step in combo.steps)]
    if users:
        raise conflict(f"combo {name!r} cannot be {what}: {named(users)} refer to it")
    patterns = [row.pattern for row in change.before.stored.of(MAPPINGS).values() if row.combo == name]
    if patterns:
        raise conflict(f"combo {name!r} cannot be {what}: the mappings of {named(patterns)} lead to it")
