"""Candidates that may be chosen, and what stops the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from omnictl.connecting import duration
from omnictl.printing import show_rows
from omniroute.decision.v1 import decision_pb2 as pb

MILLION = 1_000_000


def stopped(rejection: pb.Rejection) -> str:
    """Why a candidate is out, and for how long."""
    wait = f", for {duration(rejection.until_ms)}" if rejection.HasField("until_ms") else ""
    return f"{rejection.filter}: {rejection.reason}{wait}"


def reachable(view: pb.CandidateView) -> str:
    """Yes, or what stops it; a breaker that lets a probe pass is named."""
    if not view.reachable:
        return stopped(view.rejection)
    return "yes" if view.breaker in ("", "CLOSED") else f"yes, breaker {view.breaker}"


def tokens(count: int) -> str:
    """A number of tokens in few characters; 0 is unknown."""
    return "?" if not count else f"{count / MILLION:.3g}M" if count >= MILLION else f"{count / 1e3:.3g}k"


def prices(view: pb.CandidateView) -> str:
    """USD per 1M tokens, in and out."""
    given = view.input_price if view.HasField("input_price") else None
    taken = view.output_price if view.HasField("output_price") else None
    return " / ".join("?" if price is None else f"{price:g}" for price in (given, taken))


COLUMNS: Mapping[str, Callable[[pb.CandidateView], Any]] = {
    "candidate": lambda view: view.candidate,
    "reachable": reachable,
    "tier": lambda view: view.economic_tier,
    "window / out": lambda view: f"{tokens(view.context_window)} / {tokens(view.max_output_tokens)}",
    "USD / 1M": prices,
    "in flight": lambda view: view.in_flight,
}


def show_pool(pool: pb.ListCandidatesResponse) -> None:
    """Every candidate of a pool, and what stops it now."""
    show_rows(pool.candidates, COLUMNS, as_json=False, empty=f"The pool of {pool.combo} is empty.")
