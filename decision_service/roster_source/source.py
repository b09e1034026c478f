"""Keeps the roster current: after every change here, and soon after every change by another replica."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog
from prometheus_client import Counter, Gauge
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from decision_service.roster_source import environment
from decision_service.roster_source.snapshot import Snapshot, build
from decision_service.roster_source.stored import Surroundings, load
from decision_service.store import sql
from service_kit.clock import Clock
from service_kit.errors import ServiceError
from service_kit.metrics import REGISTRY

LOOK_EVERY_S = 0.5
LOG = structlog.get_logger()

REVISION = Gauge("omniroute_roster_revision", "Revision of the store that routing works on.", registry=REGISTRY)
REBUILDS = Counter("omniroute_roster_rebuilds", "Rosters built, by what came of it.", ["result"], registry=REGISTRY)


class RosterSource:
    """Holds the present snapshot, and hands every new one to ``on_change``.

    ``on_change`` is called from whatever thread made the change, one call at a time, revisions ascending; it must be
    quick.
    """

    def __init__(self, engine: Engine, around: Surroundings, on_change: Callable[[Snapshot], None]) -> None:
        self.around = around
        self._engine = engine
        self._on_change = on_change
        self._publishing = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._stopping = threading.Event()
        self._watcher: threading.Thread | None = None

    @property
    def snapshot(self) -> Snapshot:
        """The present one. Only after ``start``."""
        assert self._snapshot is not None, "start the roster source first"
        return self._snapshot

    def start(self, clock: Clock) -> Snapshot:
        """Take in the environment's connections, publish the first snapshot and begin to watch the store.

        Raises ServiceError when what is stored cannot be read.
        """
        with self._engine.begin() as connection:
            sql.next_revision(connection)
            environment.adopt(connection, self.around.catalog, self.around.environ, int(clock() * 1000))
            snapshot = self.build(connection)
        self.publish(snapshot)
        self._watcher = threading.Thread(target=self._watch, name="roster-watch", daemon=True)
        self._watcher.start()
        return self.snapshot

    def close(self) -> None:
        """Stop watching."""
        self._stopping.set()
        if self._watcher is not None:
            self._watcher.join(timeout=10)

    def build(self, connection: Connection) -> Snapshot:
        """The snapshot that a transaction sees, not yet published."""
        return build(load(connection, sql.present_revision(connection)), self.around)

    def publish(self, snapshot: Snapshot) -> None:
        """Make a snapshot the present one, unless a later one is already."""
        with self._publishing:
            if self._snapshot is not None and snapshot.revision <= self._snapshot.revision:
                return
            self._on_change(snapshot)
            self._snapshot = snapshot
            REVISION.set(snapshot.revision)
            REBUILDS.labels("published").inc()

    def refresh(self) -> None:
        """Look whether another process changed the store, and publish what it wrote."""
        with sql.reading(self._engine) as connection:
            if sql.present_revision(connection) == self.snapshot.revision:
                return
            snapshot = self.build(connection)
        self.publish(snapshot)

    def _watch(self) -> None:
        failing = False
        while not self._stopping.wait(LOOK_EVERY_S):
            try:
                self.refresh()
                failing = False
            except (ServiceError, SQLAlchemyError) as error:
                REBUILDS.labels("failed").inc()
                if not failing:  # the old roster stays in force; one line tells of it
                    LOG.error("roster_not_refreshed", error=type(error).__name__, reason=str(error)[:300])
                failing = True
