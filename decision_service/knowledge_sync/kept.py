"""What was synced, in the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Engine, select

from decision_service.store import sql
from decision_service.store.records import KNOWLEDGE, KnowledgeRecord
from decision_service.store.tables import synced_knowledge


def fetched_at(store: Engine) -> Mapping[str, int]:
    """When each source was last heard, in milliseconds since the epoch."""
    columns = synced_knowledge.c
    with sql.reading(store) as connection:
        return {row.source: row.fetched_at for row in connection.execute(select(columns.source, columns.fetched_at))}


def keep(store: Engine, records: Sequence[KnowledgeRecord]) -> None:
    """Keep what was just learnt, as one change of what is configured: every replica then builds its roster anew."""
    with store.begin() as connection:
        sql.next_revision(connection)
        for record in records:
            known = sql.find(connection, KNOWLEDGE, (record.source,)) is not None
            (sql.put if known else sql.add)(connection, KNOWLEDGE, record)
