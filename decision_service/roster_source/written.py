"""Combos in the form in which an operator writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from decision_service.roster_source.snapshot import Snapshot
from decision_service.store import records


def combos_as_written(snapshot: Snapshot, name: str) -> list[Mapping[str, Any]]:
    """A stored combo and those that it refers to, without secrets; none when nothing is stored under that name."""
    by_name = {record.name: record for record in snapshot.stored.of(records.COMBOS).values()}
    wanted, found = [name], dict[str, Mapping[str, Any]]()
    while wanted:
        record = by_name.get(wanted.pop())
        if record is None or record.name in found:
            continue
        found[record.name] = {
            "name": record.name,
            "strategy": record.strategy,
            "steps": list(record.steps),
            "config": dict(record.config),
        }
        wanted += [step["comboName"] for step in record.steps if "comboName" in step]
    return list(found.values())
