"""A frame of ``omnictl top`` for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from omnictl.connecting import duration
from omnictl.pool import reachable
from omnictl.printing import cell, dollars, table
from omnictl.problems import printable
from omnictl.watching import OPEN, Frame, instant, told
from omniroute.decision.v1 import decision_pb2 as pb

ROWS_IN_A_PIPE = 20
# What is left out where a terminal has too few columns, in this order: a row is one line.
SPARED = ("strategy", "USD", "model", "reason", "ms", "time", "kind", "in flight")
GAP = 2
AROUND = 11  # lines of a screen that are headings, rules and gaps
LEAST_ROWS = 3


def drawn(frame: Frame, width: int, height: int | None) -> RenderableType:
    """As wide and high as a screen of so many columns and lines; None: it may be as high as it likes."""
    states = frame.states if height is None else frame.states[: max(LEAST_ROWS, (height - AROUND) // 5)]
    left = ROWS_IN_A_PIPE * 2 if height is None else height - AROUND - len(states)
    candidates = sorted(frame.candidates, key=lambda view: -(frame.scores or {}).get(view.candidate, -1.0))
    candidates = candidates[: max(LEAST_ROWS, left // 2)]
    records = frame.records[: max(LEAST_ROWS, left - len(candidates))]
    return Group(
        _head(frame),
        Text(),
        _part([_decision(record) for record in records], DECISION, "No decision was made yet.", width),
        Text(),
        _part([_candidate(view, frame) for view in candidates], CANDIDATE, "The pool is empty.", width),
        Text(),
        _part([_state(state) for state in states], STATE, "Nothing stops or slows a candidate.", width),
    )


DECISION = ("time", "decision", "model", "strategy", "first target", "outcome", "ms", "USD")
CANDIDATE = ("candidate", "score", "in flight", "reachable")
STATE = ("kind", "key", "state", "reason", "ends in")


def _part(rows: Sequence[Sequence[Any]], columns: Sequence[str], empty: str, width: int) -> RenderableType:
    if not rows:
        return Text(empty, style="dim")
    needed = {
        name: GAP + max(len(name), *(cell(row[place]).cell_len for row in rows)) for place, name in enumerate(columns)
    }
    for name in SPARED:
        if sum(needed.values()) > width + GAP:
            needed.pop(name, None)
    kept = [place for place, name in enumerate(columns) if name in needed]
    return table([columns[place] for place in kept], [[row[place] for place in kept] for row in rows])


def _head(frame: Frame) -> Text:
    rates = frame.rates
    head = Text(f"{_time(frame.at)}  ", style="bold")
    if frame.problem:
        return head.append(printable(frame.problem), style="red")
    failed = "" if rates.failed is None else f" ({rates.failed:.0%} of those that ended)"
    span = duration(round(rates.span_s * 1000))
    return head.append(f"{rates.decisions:.3g} decisions/s, {rates.errors:.3g} errors/s{failed}, over {span}")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%H:%M:%S")


def _decision(record: pb.DecisionRecord) -> Sequence[Any]:
    row = told(record)
    outcome = row["outcome"] + (f" at {row['attempts']}" if row["attempts"] > 1 else "")
    style = "" if row["outcome"] == "SUCCESS" else "dim" if row["outcome"] == OPEN else "yellow"
    strategy = row["strategy"] + (f", {row['router_strategy']}" if row["router_strategy"] else "")
    asked = row["model"] if row["model"] == row["combo"] else f"{row['model']} ({row['combo']})"
    cost = None if row["cost_usd"] is None else dollars(row["cost_usd"])
    return (
        _time(instant(record)),
        row["decision_id"],
        asked,
        strategy,
        row["target"],
        Text(outcome, style=style),
        row["latency_ms"],
        cost,
    )


def _candidate(view: pb.CandidateView, frame: Frame) -> Sequence[Any]:
    state = Text(printable(reachable(view)), style="" if view.reachable else "yellow")
    return view.candidate, (frame.scores or {}).get(view.candidate), view.in_flight, state


def _state(state: Any) -> Sequence[Any]:
    ends = duration(state.until_ms) if state.HasField("until_ms") else None
    return state.kind, state.key, state.state, state.reason, ends
