"""What the journal keeps, and the statements that keep it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, bindparam, delete, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite

from decision_service.store.sql import columns_of
from decision_service.store.tables import audit, health_states, outcomes

KEYS_A_QUERY = 400
ROWS_A_PAGE = 1_000

Pair = tuple[str, int]


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """One outcome. ``at`` in milliseconds since the epoch; times in ms, cost in USD."""

    decision_id: str
    attempt: int
    at: int
    target_id: str = ""
    provider: str = ""
    model: str = ""
    connection_id: str = ""
    api_key_id: str = ""
    combo: str = ""
    outcome_class: str = ""
    http_status: int = 0
    latency_ms: int = 0
    ttft_ms: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float = 0.0
    final: bool = False
    usage_estimated: bool = False


@dataclass(frozen=True, slots=True)
class StateRow:
    """One state machine, as a text of its owner's making; ``state`` None: the row goes."""

    kind: str
    key: str
    state: str | None
    updated_at: int


def write(connection: Connection, new_outcomes: Sequence[OutcomeRow], states: Iterable[StateRow]) -> None:
    """Keep outcomes, those with a known (decision, attempt) aside, and the last state of each key."""
    if new_outcomes:
        insert = _insert(connection, outcomes).on_conflict_do_nothing()
        connection.execute(insert, [columns_of(row) for row in new_outcomes])
    last = {(row.kind, row.key): row for row in states}
    kept = [columns_of(row) for row in last.values() if row.state is not None]
    gone = [{"a": row.kind, "b": row.key} for row in last.values() if row.state is None]
    if kept:
        upsert = _insert(connection, health_states)
        changed = {"state": upsert.excluded.state, "updated_at": upsert.excluded.updated_at}
        connection.execute(upsert.on_conflict_do_update(index_elements=["kind", "key"], set_=changed), kept)
    if gone:
        this_one = (health_states.c.kind == bindparam("a"), health_states.c.key == bindparam("b"))
        connection.execute(delete(health_states).where(*this_one), gone)


def _insert(connection: Connection, table: Table) -> Any:
    """The two dialects spell it alike, in classes of their own."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def known(connection: Connection, pairs: Sequence[Pair]) -> set[Pair]:
    """Which of these (decision, attempt) are kept."""
    columns = (outcomes.c.decision_id, outcomes.c.attempt)
    found: set[Pair] = set()
    for start in range(0, len(pairs), KEYS_A_QUERY):
        query = select(*columns).where(tuple_(*columns).in_(pairs[start : start + KEYS_A_QUERY]))
        found.update((row.decision_id, row.attempt) for row in connection.execute(query))
    return found


def load_states(connection: Connection) -> list[StateRow]:
    """Every state that is kept."""
    return [StateRow(**row) for row in connection.execute(select(health_states)).mappings()]


def load_outcomes(connection: Connection, since: int) -> Iterator[OutcomeRow]:
    """Outcomes from an instant on, oldest first."""
    order = (outcomes.c.at, outcomes.c.decision_id, outcomes.c.attempt)
    query = select(outcomes).where(outcomes.c.at >= since).order_by(*order)
    for row in connection.execution_options(yield_per=ROWS_A_PAGE).execute(query).mappings():
        yield OutcomeRow(**row)


def sweep(connection: Connection, outcomes_before: int, audit_before: int, most: int) -> int:
    """Delete at most so many old outcomes and audit lines; how many went."""
    old_outcomes = select(outcomes.c.decision_id, outcomes.c.attempt).where(outcomes.c.at < outcomes_before).limit(most)
    old_audit = select(audit.c.id).where(audit.c.at < audit_before).limit(most)
    first = delete(outcomes).where(tuple_(outcomes.c.decision_id, outcomes.c.attempt).in_(old_outcomes))
    gone = connection.execute(first).rowcount
    return max(0, gone) + max(0, connection.execute(delete(audit).where(audit.c.id.in_(old_audit))).rowcount)
