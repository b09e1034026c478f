"""What the journal knows of decisions: their outcomes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from decision_service.journal.rows import ROWS_A_PAGE, OutcomeRow
from decision_service.store.tables import outcomes

CUT = 50  # of the oldest decisions some outcomes may lie before the first one that is read
UNKNOWN = "outcomes of decisions that the service did not know"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One decision: its attempts in order. ``at`` is when the first call began, milliseconds since the epoch."""

    decision_id: str
    at: int
    attempts: Sequence[OutcomeRow]

    @property
    def combo(self) -> str:
        return self.attempts[0].combo

    @property
    def first(self) -> str:
        """The candidate that was called first."""
        return candidate_of(self.attempts[0])

    @property
    def input_tokens(self) -> int:
        return max(row.input_tokens for row in self.attempts)

    @property
    def output_tokens(self) -> int:
        return max(row.output_tokens for row in self.attempts)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Recorded decisions, oldest first; ``left_out`` counts what cannot be replayed, by why."""

    decisions: Sequence[Recorded]
    left_out: Mapping[str, int]

    @property
    def providers(self) -> frozenset[str]:
        return frozenset(row.provider for each in self.decisions for row in each.attempts)


def candidate_of(row: OutcomeRow) -> str:
    """`provider/model@connection`."""
    return f"{row.provider}/{row.model}@{row.connection_id}"


def read_traffic(connection: Connection, limit: int) -> Traffic:
    """The last ``limit`` decisions whose outcomes are kept."""
    found: dict[str, list[OutcomeRow]] = {}
    unknown: set[str] = set()
    query = select(outcomes).order_by(outcomes.c.at.desc())
    for row in connection.execution_options(yield_per=ROWS_A_PAGE).execute(query).mappings():
        if not row["combo"]:
            unknown.add(row["decision_id"])
            continue
        if len(found) == limit + CUT and row["decision_id"] not in found:
            break
        found.setdefault(row["decision_id"], []).append(OutcomeRow(**row))
    decisions = sorted((_recorded(rows) for rows in found.values()), key=lambda each: (each.at, each.decision_id))
    return Traffic(decisions[-limit:], {UNKNOWN: len(unknown)} if unknown else {})


def _recorded(rows: Iterable[OutcomeRow]) -> Recorded:
    attempts = sorted(rows, key=lambda row: row.attempt)
    return Recorded(attempts[0].decision_id, began(attempts[0]), attempts)


def began(row: OutcomeRow) -> int:
    """When the call began: an outcome is dated when it came in."""
    return row.at - row.latency_ms


class Experience:
    """Every recorded call, by candidate."""

    def __init__(self, decisions: Iterable[Recorded]) -> None:
        rows = sorted((row for each in decisions for row in each.attempts), key=began)
        self._rows: dict[str, list[OutcomeRow]] = {}
        for row in rows:
            self._rows.setdefault(candidate_of(row), []).append(row)
        self._times = {candidate: [began(row) for row in rows] for candidate, rows in self._rows.items()}

    def nearest(self, candidate: str, at: int) -> OutcomeRow | None:
        """The recorded call of a candidate that began nearest to an instant; None: it was never called."""
        times = self._times.get(candidate)
        if not times:
            return None
        after = bisect_left(times, at)
        around = [place for place in (after - 1, after) if 0 <= place < len(times)]
        return self._rows[candidate][min(around, key=lambda place: abs(times[place] - at))]
