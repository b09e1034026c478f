"""Settings of the whole service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from decision_service.policy import check_references, parse_settings
from decision_service.policy.effective import Effective, effective_settings
from decision_service.registry.registry import Change, Registry, check_etag
from decision_service.store.records import SETTINGS, SettingsRecord
from service_kit.errors import ServiceError, invalid

PATH = "values"


def find(registry: Registry) -> SettingsRecord:
    """What is set."""
    return registry.snapshot.stored.settings


def effective(registry: Registry) -> tuple[Effective, ...]:
    """Every setting with the layer that sets it."""
    return effective_settings(registry.snapshot.roster.settings, find(registry).settings)


def update(registry: Registry, etag: str, values: Mapping[str, Any]) -> SettingsRecord:
    """Set the settings that are named; null unsets one. Raises INVALID_FIELD, CONFLICT."""
    with registry.change() as change:
        old = change.before.stored.settings
        check_etag(old, etag)
        merged = {**old.settings, **values}
        _check_depth(change, parse_settings(merged, PATH).combo_ref_max_depth)
        new = replace(old, settings={name: value for name, value in merged.items() if value is not None})
        return change.put(SETTINGS, old, new) if old.version else change.add(SETTINGS, new)


def _check_depth(change: Change, depth: int) -> None:
    combos = change.before.roster.combos
    for name in combos:
        try:
            check_references(combos, name, depth)
        except ServiceError:
            raise invalid(f"{PATH}.comboRefMaxDepth", f"{depth}", f"a depth that combo {name!r} keeps within") from None
