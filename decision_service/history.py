"""Recent decisions and their outcomes, in memory, for people who look; and those who watch."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field

from prometheus_client import Counter

from decision_service.wire import instant_out
from omniroute.decision.v1 import decision_pb2 as pb
from service_kit.metrics import REGISTRY

DECISIONS_KEPT = 2_000
EVENTS_QUEUED = 1_000
MOST_WATCHERS = 64
DROPPED = Counter("omniroute_watch_dropped", "Events that a slow watcher missed.", registry=REGISTRY)


@dataclass(slots=True)
class Entry:
    """One decision as it was answered."""

    response: pb.DecideResponse
    model: str
    api_key_id: str
    at: int
    outcomes: list[pb.Outcome] = field(default_factory=list)

    def record(self, outcomes: Iterable[pb.Outcome]) -> pb.DecisionRecord:
        return pb.DecisionRecord(
            decision=self.response,
            model=self.model,
            api_key_id=self.api_key_id,
            at=instant_out(self.at),
            outcomes=outcomes,
        )


@dataclass(slots=True)
class Watcher:
    """Someone who watches; empty filters let everything through."""

    combo: str
    api_key_id: str
    events: asyncio.Queue[pb.DecisionRecord]

    def wants(self, entry: Entry) -> bool:
        return self.combo in ("", entry.response.combo) and self.api_key_id in ("", entry.api_key_id)


class History:
    """The last decisions by id, oldest first."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._watchers: list[Watcher] = []

    def decided(self, response: pb.DecideResponse, request: pb.DecideRequest, now: int) -> None:
        """A decision was made."""
        entry = Entry(response, request.model, request.api_key_id, now)
        self._entries[response.decision_id] = entry
        if len(self._entries) > DECISIONS_KEPT:
            self._entries.popitem(last=False)
        self._tell(entry, ())

    def reported(self, outcome: pb.Outcome) -> None:
        """An outcome was taken in."""
        entry = self._entries.get(outcome.decision_id)
        if entry is not None:
            entry.outcomes.append(outcome)
            self._tell(entry, (outcome,))

    def refused(self, error: pb.DecideError, request: pb.DecideRequest, now: int) -> None:
        """A decision was refused; only those who watch hear of it."""
        if self._watchers:
            entry = Entry(pb.DecideResponse(), request.model, request.api_key_id, now)
            record = pb.DecisionRecord(model=entry.model, api_key_id=entry.api_key_id, at=instant_out(now), error=error)
            self._put(record, [watcher for watcher in self._watchers if watcher.wants(entry)])

    def moved(self, transition: pb.StateTransition, now: int) -> None:
        """A state machine moved; it belongs to no combo or key, so every watcher hears of it."""
        self._put(pb.DecisionRecord(transition=transition, at=instant_out(now)), self._watchers)

    def get(self, decision_id: str) -> pb.DecisionRecord | None:
        entry = self._entries.get(decision_id)
        return None if entry is None else entry.record(entry.outcomes)

    def newest(self, combo: str, api_key_id: str, before: str) -> Iterator[pb.DecisionRecord]:
        """Records, newest first, that are older than the decision ``before`` (empty: from the newest)."""
        behind = not before
        for decision_id in reversed(self._entries):
            entry = self._entries[decision_id]
            if behind and combo in ("", entry.response.combo) and api_key_id in ("", entry.api_key_id):
                yield entry.record(entry.outcomes)
            behind = behind or decision_id == before

    @property
    def watched(self) -> bool:
        return bool(self._watchers)

    @property
    def crowded(self) -> bool:
        """No further watcher is taken."""
        return len(self._watchers) >= MOST_WATCHERS

    async def watch(self, combo: str, api_key_id: str) -> AsyncIterator[pb.DecisionRecord]:
        """What happens from now on; a watcher that is too slow misses events, which are counted."""
        watcher = Watcher(combo, api_key_id, asyncio.Queue(EVENTS_QUEUED))
        self._watchers.append(watcher)
        try:
            while True:
                yield await watcher.events.get()
        finally:
            self._watchers.remove(watcher)

    def _tell(self, entry: Entry, outcomes: Iterable[pb.Outcome]) -> None:
        wanting = [watcher for watcher in self._watchers if watcher.wants(entry)]
        if wanting:
            self._put(entry.record(outcomes), wanting)

    def _put(self, record: pb.DecisionRecord, watchers: Iterable[Watcher]) -> None:
        for watcher in watchers:
            if watcher.events.full():
                DROPPED.inc()
            else:
                watcher.events.put_nowait(record)
