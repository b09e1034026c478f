"""What a snapshot is made of: everything that is stored, and what stands beside the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection

from decision_service.catalog import Catalog, KnownProvider
from decision_service.store import records, sql
from decision_service.store.sql import Key, Shelf

R = TypeVar("R")
SHELVES: tuple[Shelf[Any], ...] = (
    records.PROVIDERS,
    records.CONNECTIONS,
    records.COMBOS,
    records.MAPPINGS,
    records.API_KEYS,
    records.OVERRIDES,
    records.SETTINGS,
    records.MODELS,
    records.KNOWLEDGE,
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stands beside the store: the catalogue, the environment, simulated providers, plug-ins.

    ``synced``: what outside sources told of models counts, too. ``chaos_max_panel`` is the largest panel of a fan-out.
    """

    catalog: Catalog
    environ: Mapping[str, str]
    demo: tuple[KnownProvider, ...] = ()
    routers: frozenset[str] = frozenset()
    synced: bool = False
    chaos_max_panel: int = 5


@dataclass(frozen=True, slots=True)
class Stored:
    """Every record at one revision, by kind and key, in the order of the keys."""

    revision: int
    shelves: Mapping[str, Mapping[Key, Any]]

    def of(self, shelf: Shelf[R]) -> Mapping[Key, R]:
        return self.shelves[shelf.kind]

    @property
    def settings(self) -> records.SettingsRecord:
        return self.of(records.SETTINGS).get(("settings",), records.SettingsRecord())


def load(connection: Connection, revision: int) -> Stored:
    """Everything that is stored, inside the caller's transaction."""
    shelves = {}
    for shelf in SHELVES:
        shelves[shelf.kind] = {shelf.key_of(record): record for record in sql.rows(connection, shelf)}
    return Stored(revision, shelves)
