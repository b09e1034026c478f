"""Durable group commit: everything that came while the last transaction was written goes into the next one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from time import monotonic

import structlog
from prometheus_client import Counter, Histogram
from sqlalchemy import Engine
from sqlalchemy.exc import InterfaceError, InternalError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from decision_service.journal import rows
from decision_service.journal.queue import Entry, JournalFailed, Queue
from decision_service.journal.rows import OutcomeRow, StateRow
from decision_service.store import sql
from decision_service.store.engine import cause
from service_kit.clock import Clock
from service_kit.metrics import REGISTRY

DAY_MS = 86_400_000
MOST_ROWS_A_COMMIT = 2_000
IDLE_S = 1.0
SWEEP_EVERY_S = 60.0
SWEPT_AT_ONCE = 1_000
AUDIT_DAYS = 90
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
# The drivers raise the latter two themselves for a number or a text that cannot be stored at all.
WRITE_ERRORS = (SQLAlchemyError, OverflowError, UnicodeError)
LOG = structlog.get_logger()

COMMITS = Counter("omniroute_journal_commits", "Transactions, by what came of them.", ["result"], registry=REGISTRY)
WRITTEN = Counter("omniroute_journal_rows", "Rows written.", registry=REGISTRY)
SWEPT = Counter("omniroute_journal_swept_rows", "Rows deleted because of their age.", registry=REGISTRY)
SECONDS = Histogram(
    "omniroute_journal_commit_seconds",
    "Time of one transaction.",
    buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0),
    registry=REGISTRY,
)


class Journal:
    """Keeps outcomes and states. What a settled future stands for survives the death of the process.

    One thread writes. A commit that fails is tried again for ``give_up_s``; then its submissions fail with
    JournalFailed, so that their reports are refused and sent again.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        *,
        queue_limit: int = 20_000,
        linger_ms: float = 0.0,
        retention_days: int = 7,
        give_up_s: float = 30.0,
    ) -> None:
        """``queue_limit`` in rows; ``linger_ms`` is how long a commit waits for company (0: it does not)."""
        self._engine = engine
        self._clock = clock
        self._linger_s = linger_ms / 1000
        self._retention_days = retention_days
        self._give_up_s = give_up_s
        self._queue = Queue(queue_limit)
        self._hurry = threading.Event()
        self._next_sweep = monotonic() + SWEEP_EVERY_S
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def submit(self, outcomes: Sequence[OutcomeRow], states: Sequence[StateRow]) -> Future[None]:
        """Queue rows; the future is done when they are on disk. Does not block.

        Raises JournalFull at the queue's limit and JournalClosed after ``close``. A (decision, attempt) that is kept
        already is passed over; of several states of one key the last one stays.
        """
        return self._queue.put(Entry(outcomes, states))

    @property
    def room(self) -> int:
        """Rows that a submission may have now."""
        return self._queue.room

    def barrier(self) -> Future[None]:
        """Done when all that was submitted before is on disk. Raises JournalClosed."""
        return self._queue.put(Entry())

    def known(self, pairs: Sequence[tuple[str, int]]) -> set[tuple[str, int]]:
        """Which of these (decision, attempt) are on disk. Reads the store in the caller's thread."""
        with sql.reading(self._engine) as connection:
            return rows.known(connection, pairs)

    def load_states(self) -> list[StateRow]:
        """Every state that is on disk. Reads the store in the caller's thread."""
        with sql.reading(self._engine) as connection:
            return rows.load_states(connection)

    @contextmanager
    def outcomes(self, since: int) -> Iterator[Iterator[OutcomeRow]]:
        """The outcomes from an instant (ms) on, oldest first. Reads the store in the caller's thread."""
        with sql.reading(self._engine) as connection:
            yield rows.load_outcomes(connection, since)

    @property
    def alive(self) -> bool:
        """The writing thread runs."""
        return self._thread.is_alive()

    def close(self, timeout_s: float = 10.0) -> None:
        """Write what waits, then stop. After ``timeout_s`` a commit that goes on failing is given up."""
        self._queue.close()
        self._thread.join(timeout_s)
        self._hurry.set()
        self._thread.join(LONGEST_PAUSE_S + 5.0)

    def _run(self) -> None:
        batch: list[Entry] = []
        try:
            while (taken := self._queue.take(MOST_ROWS_A_COMMIT, IDLE_S)) is not None:
                batch = taken
                if batch:
                    self._linger(batch)
                    self._keep(batch)
                self._sweep_if_due()
        except BaseException:
            # Nobody else would notice: a journal that stands still must refuse, not let reports wait for ever.
            LOG.exception("journal_thread_died")
            self._queue.close()
            while batch:
                _fail(batch, "the journal's thread died")
                batch = self._queue.take(MOST_ROWS_A_COMMIT, 0) or []
            raise

    def _linger(self, batch: list[Entry]) -> None:
        if self._linger_s and not self._hurry.wait(self._linger_s):
            batch.extend(self._queue.take(MOST_ROWS_A_COMMIT, 0) or ())

    def _keep(self, batch: list[Entry]) -> None:
        """Settle every future of the batch."""
        try:
            self._patiently(lambda: self._commit(batch))
        except WRITE_ERRORS as error:
            if len(batch) == 1 or _may_pass(error):
                _fail(batch, type(error).__name__)
                return
            for entry in batch:  # one of them cannot be written; the others can
                self._keep([entry])
        else:
            for entry in batch:
                entry.done.set_result(None)

    def _commit(self, batch: Sequence[Entry]) -> None:
        new_outcomes = [row for entry in batch for row in entry.outcomes]
        states = [row for entry in batch for row in entry.states]
        if not new_outcomes and not states:
            return
        with SECONDS.time(), self._engine.begin() as connection:
            rows.write(connection, new_outcomes, states)
        COMMITS.labels("done").inc()
        WRITTEN.inc(len(new_outcomes) + len(states))

    def _patiently(self, commit: Callable[[], None]) -> None:
        """Try again while the store may recover; raises the last error."""
        until, pause = monotonic() + self._give_up_s, FIRST_PAUSE_S
        while True:
            try:
                return commit()
            except WRITE_ERRORS as error:
                COMMITS.labels("failed").inc()
                if not _may_pass(error) or monotonic() + pause > until or self._hurry.is_set():
                    LOG.error("journal_not_written", error=type(error).__name__, reason=cause(error))
                    raise
            self._hurry.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _sweep_if_due(self) -> None:
        """One portion of what is too old, until none is left; between commits, so that it works under load too."""
        if monotonic() < self._next_sweep:
            return
        now = int(self._clock() * 1000)
        try:
            with self._engine.begin() as connection:
                gone = rows.sweep(
                    connection, now - self._retention_days * DAY_MS, now - AUDIT_DAYS * DAY_MS, SWEPT_AT_ONCE
                )
        except SQLAlchemyError as error:
            LOG.warning("journal_not_swept", error=type(error).__name__, reason=cause(error))
            gone = 0
        SWEPT.inc(gone)
        if gone < SWEPT_AT_ONCE:
            self._next_sweep = monotonic() + SWEEP_EVERY_S


def _may_pass(error: Exception) -> bool:
    """A locked, full or lost store may come back; a row that the store cannot hold will not fit later."""
    return isinstance(error, OperationalError | InterfaceError | InternalError | PoolTimeout)


def _fail(batch: Sequence[Entry], why: str) -> None:
    for entry in batch:
        if not entry.done.done():
            entry.done.set_exception(JournalFailed(f"the rows could not be written: {why}"))
