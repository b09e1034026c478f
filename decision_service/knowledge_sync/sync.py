"""Asks each source when it is due, and keeps what it tells. A source that fails costs nothing but its news."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import structlog
from prometheus_client import Counter, Gauge
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from decision_service.knowledge_sync import kept
from decision_service.knowledge_sync.fetching import DEADLINE_S, MOST_BYTES, FetchFailed, fetch
from decision_service.knowledge_sync.sources import Source
from decision_service.store.records import KnowledgeRecord
from service_kit.clock import Clock
from service_kit.metrics import REGISTRY

LONGEST_SLEEP_S = 3_600.0
"""The wall clock may jump while we sleep."""

MOST_REDIRECTS = 3
LOG = structlog.get_logger()

SYNCS = Counter(
    "omniroute_knowledge_syncs",
    "Questions to outside sources, by what came of them.",
    ["source", "result"],
    registry=REGISTRY,
)
HEARD = Gauge(
    "omniroute_knowledge_fetched_seconds",
    "When what is kept of a source was fetched, since the epoch.",
    ["source"],
    registry=REGISTRY,
)


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a source is asked, how soon again after a failure, and the bounds of one answer."""

    interval_s: float = 86_400.0
    retry_s: float = 900.0
    most_bytes: int = MOST_BYTES
    deadline_s: float = DEADLINE_S

    @property
    def soon_s(self) -> float:
        return min(self.retry_s, self.interval_s)


class KnowledgeSync:
    """Keeps the store's knowledge no older than the pace says while the sources answer.

    After a failure what was known stays, and the source is asked again a little later.
    """

    def __init__(
        self, store: Engine, asked: Sequence[Source], clock: Clock, client: httpx.AsyncClient, pace: Pace
    ) -> None:
        self._store = store
        self._sources = asked
        self._clock = clock
        self._client = client
        self._pace = pace

    async def run(self) -> None:
        """Ask for ever."""
        wait = 0.0
        while True:
            await asyncio.sleep(min(wait, LONGEST_SLEEP_S))
            wait = await self.round()

    async def round(self) -> float:
        """Ask the sources that are due; seconds until one is due again."""
        try:
            waits = self._waits(await asyncio.to_thread(kept.fetched_at, self._store))
            due = [source for source in self._sources if waits[source.name] <= 0]
            told = await asyncio.gather(*(self._ask(source) for source in due))
            news = [record for record in told if record is not None]
            if news:
                await asyncio.to_thread(kept.keep, self._store, news)
        except SQLAlchemyError as error:
            LOG.error("knowledge_not_kept", error=type(error).__name__)
            return self._pace.soon_s
        for record in news:
            SYNCS.labels(record.source, "kept").inc()
            HEARD.labels(record.source).set(record.fetched_at / 1000)
        if len(news) < len(due):
            return self._pace.soon_s
        return min(
            (wait if wait > 0 else self._pace.interval_s for wait in waits.values()), default=self._pace.interval_s
        )

    def _waits(self, fetched_at: Mapping[str, int]) -> dict[str, float]:
        """Seconds until each source is due; what was fetched in the future was fetched by a wrong clock."""
        for source, at in fetched_at.items():
            HEARD.labels(source).set(at / 1000)
        ages = {source.name: self._clock() - fetched_at.get(source.name, 0) / 1000 for source in self._sources}
        return {name: self._pace.interval_s - age if age >= 0 else 0.0 for name, age in ages.items()}

    async def _ask(self, source: Source) -> KnowledgeRecord | None:
        try:
            known = await fetch(
                self._client,
                source.url,
                source.read,
                most_bytes=self._pace.most_bytes,
                deadline_s=self._pace.deadline_s,
            )
        except FetchFailed as failure:
            SYNCS.labels(source.name, failure.kind).inc()
            LOG.warning("knowledge_not_synced", source=source.name, kind=failure.kind, reason=str(failure))
            return None
        return KnowledgeRecord(source.name, known, int(self._clock() * 1000))


@asynccontextmanager
async def running(store: Engine, asked: Sequence[Source], clock: Clock, pace: Pace) -> AsyncIterator[KnowledgeSync]:
    """A sync at work in the background; it never delays or ends anything else."""
    async with httpx.AsyncClient(timeout=DEADLINE_S, follow_redirects=True, max_redirects=MOST_REDIRECTS) as client:
        sync = KnowledgeSync(store, asked, clock, client, pace)
        task = asyncio.create_task(sync.run(), name="knowledge-sync")
        task.add_done_callback(_tell)
        try:
            yield sync
        finally:
            task.cancel()
            await asyncio.wait({task})


def _tell(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        LOG.error("knowledge_sync_ended", exc_info=error)
