"""Decisions in words and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from omnictl.connecting import duration
from omnictl.pool import stopped
from omnictl.printing import dollars, plain, say, show_pairs, show_table, width
from omniroute.decision.v1 import decision_pb2 as pb

TOLD_FACTORS = 3
FACTOR_WIDTH = 13  # of the longest part of a name, and the gap
LEAST_FACTORS = 2


def show_head(decision: pb.DecideResponse) -> None:
    """What was chosen, why, and with which chance."""
    first = next(called(decision.plan), None)
    router = f", {decision.router_strategy}" if decision.router_strategy else ""
    flags = [name for name in ("exploration", "incident_mode", "reusable") if getattr(decision, name)]
    show_pairs(
        [
            ("chosen", Text(name_of(first), style="bold") if first else "nothing"),
            ("reason", decision.reason),
            ("combo", f"{decision.combo} ({decision.strategy}{router})"),
            ("shape", plain(decision.plan)["shape"]),
            ("propensity", decision.propensity),
            ("seed", str(decision.seed)),
            ("effort", decision.effort),
            ("flags", flags),
            ("opened filters", list(decision.opened_filters)),
            ("ignored controls", list(decision.ignored_controls)),
        ]
    )


def show_chain(decision: pb.DecideResponse) -> None:
    """Every target in the order of the plan."""
    columns = ("#", "target", "dialect", "score", "est. USD", "timeout", "id")
    rows = [
        (place, name_of(t), t.dialect, t.score, dollars(t.estimated_cost_usd), duration(t.timeout_ms), t.target_id)
        for place, t in enumerate(called(decision.plan), start=1)
    ]
    show_table(columns, rows, empty="The plan has no target.")


def called(plan: pb.Plan) -> Iterator[pb.Target]:
    """The targets of a plan: chain, panel or steps, and the judge."""
    yield from plan.targets
    yield from (step.target for step in plan.steps)
    if plan.HasField("judge"):
        yield plan.judge


def name_of(target: pb.Target) -> str:
    return f"{target.provider}/{target.model}@{target.connection_id}"


def show_trace(trace: pb.Trace, *, factors: bool) -> None:
    """Every candidate once, then what the scores are made of."""
    rows = [
        (row.rank + 1 if row.HasField("rank") else None, row.candidate, _score(row), _cost(row), _why(row))
        for row in trace.candidates
    ]
    show_table(("#", "candidate", "score", "est. USD", "why"), rows, empty="The pool is empty.")
    if factors:
        _show_factors(trace)
    show_pairs(
        [
            (f"weights ({trace.weights_source})", _largest(trace.weights, len(trace.weights)).replace(" + ", ", ")),
            ("runner-up", trace.runner_up),
            ("margin", trace.margin if trace.HasField("margin") else None),
            ("task type", trace.task_type),
        ]
    )


def _score(row: pb.CandidateTrace) -> float | None:
    return row.score if row.HasField("score") else None


def _cost(row: pb.CandidateTrace) -> str:
    return dollars(row.estimated_cost_usd) if row.provider else ""


def _why(row: pb.CandidateTrace) -> Any:
    if row.HasField("rejection"):
        return Text(stopped(row.rejection), style="yellow")
    return _largest(row.contributions, TOLD_FACTORS)


def _largest(parts: Mapping[str, float], count: int) -> str:
    """The largest parts of a sum."""
    ordered = sorted(((value, name) for name, value in parts.items() if value > 0), key=lambda part: -part[0])
    return " + ".join(f"{name} {value:.4g}" for value, name in ordered[:count])


def _show_factors(trace: pb.Trace) -> None:
    """One column a factor, its weight in the first row; in as many tables as the terminal's width asks for."""
    scored = [row for row in trace.candidates if row.factors]
    names = sorted(trace.weights if scored else (), key=lambda name: (-trace.weights[name], name))
    if not scored:
        say("This strategy does not score.")
    id_width = max((len(row.candidate) for row in scored), default=0)
    side_by_side = max(LEAST_FACTORS, (width() - id_width) // FACTOR_WIDTH)
    for some in (names[at : at + side_by_side] for at in range(0, len(names), side_by_side)):
        rows: list[tuple[Any, ...]] = [("weight", *(trace.weights[name] for name in some))]
        rows += [(row.candidate, *(row.factors[name] for name in some)) for row in scored]
        show_table(("factor", *map(_stacked, some)), rows, empty="")


def _stacked(name: str) -> str:
    """``cache`` over ``Affinity``: many columns have to stand side by side."""
    return "".join(f"\n{char}" if char.isupper() else char for char in name)
