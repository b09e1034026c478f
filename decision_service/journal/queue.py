"""The queue between those who report and the one thread that writes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from prometheus_client import Counter, Gauge

from decision_service.journal.rows import OutcomeRow, StateRow
from service_kit.metrics import REGISTRY

QUEUED = Gauge("omniroute_journal_queued_rows", "Rows that wait to be written.", registry=REGISTRY)
REFUSED = Counter("omniroute_journal_refused", "Submissions refused because the queue was full.", registry=REGISTRY)


class JournalFull(Exception):
    """The queue is at its limit; the report is to be refused, so that it is sent again."""


class JournalClosed(Exception):
    """The journal takes nothing any more."""


class JournalFailed(Exception):
    """The rows could not be written; the report is to be refused, so that it is sent again."""


def _promise() -> Future[None]:
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()  # a caller that goes away does not take its rows with it
    return future


@dataclass(frozen=True, slots=True)
class Entry:
    """One submission; ``done`` is settled when it is on disk or cannot be."""

    outcomes: Sequence[OutcomeRow] = ()
    states: Sequence[StateRow] = ()
    done: Future[None] = field(default_factory=_promise)

    @property
    def rows(self) -> int:
        return len(self.outcomes) + len(self.states)


class Queue:
    """First in, first out, limited by rows. Safe between threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: deque[Entry] = deque()
        self._rows = 0
        self._changed = threading.Condition()
        self._closed = False

    def put(self, entry: Entry) -> Future[None]:
        """Raises JournalFull when the rows would pass the limit, JournalClosed after ``close``."""
        with self._changed:
            if self._closed:
                raise JournalClosed("the journal is closed")
            if entry.rows and self._rows + entry.rows > self._limit:
                REFUSED.inc()
                raise JournalFull(f"{self._rows} rows wait already; the limit is {self._limit}")
            self._entries.append(entry)
            self._rows += entry.rows
            self._changed.notify()
        return entry.done

    def take(self, most_rows: int, wait_s: float) -> list[Entry] | None:
        """The next submissions, at least one when there are any; none in time: empty; closed and empty: None."""
        with self._changed:
            if not self._entries and not self._closed:
                self._changed.wait(wait_s)
            taken: list[Entry] = []
            rows = 0
            while self._entries and (not taken or rows + self._entries[0].rows <= most_rows):
                rows += self._entries[0].rows
                taken.append(self._entries.popleft())
            self._rows -= rows
            QUEUED.set(self._rows)
            return None if self._closed and not taken else taken

    @property
    def room(self) -> int:
        """Rows that fit in now."""
        return self._limit - self._rows

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
