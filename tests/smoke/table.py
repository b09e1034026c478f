"""The checks as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence

from omnictl.printing import dollars, say, show_table
from tests.smoke.checks import FAILED, SKIPPED, Row
from tests.smoke.hidden import Hidden

COLUMNS = ("check", "asked", "result", "seconds", "first token", "provider", "model", "attempts", "note")
LONGEST_NOTE = 300


def show(rows: Sequence[Row], hidden: Hidden) -> None:
    """A line for each check, and one for all."""
    show_table(COLUMNS, [_cells(row, hidden) for row in rows], empty="")
    failed, skipped = (sum(row.result == result for row in rows) for result in (FAILED, SKIPPED))
    cost = sum(float(row.headers.get("cost-usd", "0")) for row in rows)
    say(f"\n{len(rows)} checks, {failed} failed, {skipped} skipped; about {dollars(cost)} USD")


def _cells(row: Row, hidden: Hidden) -> list[str | float | None]:
    told = [row.headers.get(name, "") for name in ("provider", "model", "attempts")]
    note = " ".join(row.note.split())
    first_s = None if row.first_s is None else round(row.first_s, 2)
    texts = [hidden.text(text) for text in (row.model, *told, note)]
    return [row.check, texts[0], row.result, round(row.seconds, 2), first_s, *texts[1:4], texts[4][:LONGEST_NOTE]]
