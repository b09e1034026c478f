"""The policy that is stored, and a changed one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

from decision_service import credentials
from decision_service.kernel.roster import Roster
from decision_service.policy import Known, parse_combo, parse_settings
from decision_service.roster_source import Snapshot, Surroundings
from decision_service.roster_source.snapshot import build
from decision_service.roster_source.stored import load
from decision_service.store import records, sql


@dataclass(frozen=True, slots=True)
class Changes:
    """``combo`` in plain values as an operator writes it, stored or not; ``settings`` by name, null unsets one."""

    combo: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def snapshot_of(connection: Connection, around: Surroundings) -> Snapshot:
    """What is configured. Keys that the services found in their environment count as present.

    Raises ServiceError when what is stored cannot be read.
    """
    stored = load(connection, sql.present_revision(connection))
    adopted = [row for row in stored.of(records.CONNECTIONS).values() if row.origin == credentials.ENVIRONMENT]
    there = {row.reference.removeprefix("env:"): "as when it was recorded" for row in adopted}
    return build(stored, replace(around, environ={**around.environ, **there}))


def changed(snapshot: Snapshot, changes: Changes, routers: frozenset[str]) -> Roster:
    """The roster with the changes. Raises INVALID_FIELD as storing them would."""
    roster = snapshot.roster
    wanted = {**snapshot.stored.settings.settings, **changes.settings}
    settings = replace(parse_settings(wanted), chaos_max_panel=roster.settings.chaos_max_panel)
    combos = dict(roster.combos)
    if changes.combo is not None:
        given = changes.combo
        name = given.get("name")
        known = Known(
            providers=snapshot.provider_ids,
            connections=roster.connections,
            routers=routers,
            combos={other: combo for other, combo in combos.items() if other != name},
            combo_ref_max_depth=settings.combo_ref_max_depth,
            stored=combos.get(str(name)),
        )
        combo = parse_combo(name, given.get("strategy"), given.get("steps"), given.get("config"), known)
        combos[combo.name] = combo
    return replace(roster, combos=combos, settings=settings)
