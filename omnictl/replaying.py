"""What ``omnictl replay`` compares, and how it shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from decision_service.replay import Summary, Tally
from omnictl.connecting import duration
from omnictl.printing import dollars, say, show_line, show_pairs, show_table

RECORDED, STORED, CHANGED = "recorded", "stored policy", "changed policy"
TRUTH = (
    "Recorded is what happened. The other columns are estimates: the journal keeps outcomes, not decisions, so that no"
    " decision can be made again bit for bit. Each request is decided anew from its policy, key and input tokens, and a"
    " call is taken to end as the recorded call of the same target that began nearest to it. How far the stored policy"
    " is from the record says how far to trust the changed one. `omnictl explain --dump` keeps one decision whole."
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """``columns`` by name, the record first; instants in milliseconds since the epoch."""

    since: int
    until: int
    left_out: Mapping[str, int]
    columns: Mapping[str, Summary]

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "since": _instant(self.since),
            "until": _instant(self.until),
            "left_out": dict(self.left_out),
            "estimates": TRUTH,
            **{name.replace(" ", "_"): _plain(summary) for name, summary in self.columns.items()},
        }


def _instant(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")


def _ratio(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def _measures(tally: Tally) -> dict[str, Any]:
    return {
        "decisions": tally.decisions,
        "end_known": tally.known,
        "answered_share": _ratio(tally.answered, tally.known),
        "attempts_mean": _ratio(tally.attempts, tally.known),
        "latency_ms_mean": _ratio(tally.latency_ms, tally.known),
        "cost_usd": tally.cost_usd,
        "cost_usd_mean": _ratio(tally.cost_usd, tally.known),
    }


def _plain(summary: Summary) -> dict[str, Any]:
    total = summary.total
    return {
        **_measures(total),
        "refused": dict(summary.refused),
        "same_first_share": _ratio(summary.same_first, total.decisions),
        "targets": {name: _measures(tally) for name, tally in sorted(summary.targets.items())},
    }


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


ROWS: Mapping[str, Callable[[Summary, Tally], Any]] = {
    "decisions": lambda _, total: total.decisions,
    "refused": lambda summary, _: ", ".join(f"{count} {why}" for why, count in summary.refused.items()) or 0,
    "first target as recorded": lambda summary, total: _share(_ratio(summary.same_first, total.decisions)),
    "end is known": lambda _, total: _share(_ratio(total.known, total.decisions)),
    "answered": lambda _, total: _share(_ratio(total.answered, total.known)),
    "attempts, mean": lambda _, total: _ratio(total.attempts, total.known),
    "latency, mean": lambda _, total: duration(round(total.latency_ms / total.known)) if total.known else "",
    "cost, mean USD": lambda _, total: dollars(total.cost_usd / total.known) if total.known else "",
    "cost of these, USD": lambda _, total: dollars(total.cost_usd),
}


def show(found: Comparison, *, as_json: bool) -> None:
    """Measures, then where the first calls went."""
    if as_json:
        show_line(found.plain())
        return
    left = [f"{count} {why}" for why, count in found.left_out.items()]
    show_pairs([("from", _instant(found.since)), ("to", _instant(found.until)), ("left out", ", ".join(left))])
    columns = [(summary, summary.total) for summary in found.columns.values()]
    rows = [(name, *(row(*column) for column in columns)) for name, row in ROWS.items()]
    show_table(("", *found.columns), rows, empty="")
    say("")
    names = sorted({name for summary, _ in columns for name in summary.targets})
    shares = [(name, *(_target(summary, total, name) for summary, total in columns)) for name in names]
    show_table(("first target", *found.columns), shares, empty="")
    say(f"\n{TRUTH}")


def _target(summary: Summary, total: Tally, name: str) -> str:
    tally = summary.targets.get(name)
    if tally is None:
        return ""
    if not tally.known:
        return f"{tally.decisions / total.decisions:.1%}, nothing recorded"
    return f"{tally.decisions / total.decisions:.1%}, {tally.answered / tally.known:.0%} answered"
