"""Signals of a scenario's candidates: what is measured of them, given instead of learnt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any

from decision_service.kernel.health import BREAKER_LIMITS, Breaker, Phase
from decision_service.kernel.model import Candidate, QuotaWindow
from decision_service.kernel.observe import readable, settled
from decision_service.kernel.state import RoutingState
from decision_service.kernel.statistics import TargetStatistics
from decision_service.policy.fields import flag, read_object, shape, text
from decision_service.policy.known import TRUSTED, Known
from service_kit.errors import invalid

PINNED = ("p95_ms", "latency_std_ms", "samples", "error_rate", "failure_rate", "quality")
COUNTS = ("in_flight", "recent_requests", "sessions")
SIGNALS = (*PINNED, *COUNTS, "breaker", "fitness", "quota")
WINDOW_KEYS = ("name", "remaining_fraction", "resets_in_s", "limit_reached")
SEVERITY = {Phase.CLOSED: 0, Phase.HALF_OPEN: 1, Phase.OPEN: 2}


@dataclass(frozen=True, slots=True)
class Signals:
    """What is given of one candidate."""

    pinned: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    breaker: Phase | None = None
    quota: Sequence[QuotaWindow] | None = None


def read_signals(raw: Any, path: str, now: int) -> Signals:
    """Signals from plain values; telemetry may be any number, its shape may not be anything else."""
    given = read_object({} if raw is None else raw, path, SIGNALS)
    breaker = given.get("breaker")
    if breaker is not None and breaker not in list(Phase):
        raise invalid(f"{path}.breaker", shape(breaker), ", ".join(Phase))
    quota = given.get("quota")
    return Signals(
        pinned={name: telemetry(given[name], f"{path}.{name}") for name in PINNED if given.get(name) is not None},
        counts={name: _count(given[name], f"{path}.{name}") for name in COUNTS if given.get(name) is not None},
        breaker=None if breaker is None else Phase(breaker),
        quota=None if quota is None else read_windows(quota, f"{path}.quota", now),
    )


def telemetry(value: Any, path: str, known: Known = TRUSTED) -> float:
    """Any number; one past all bounds is infinite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise invalid(path, shape(value), "a number")
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def _count(value: Any, path: str) -> int:
    count = telemetry(value, path)
    return int(count) if 0 <= count < 2**31 else 0


def read_windows(raw: Any, path: str, now: int) -> tuple[QuotaWindow, ...]:
    """Quota windows with their resets as instants; a reset at no finite time is unknown."""
    if raw is not None and not isinstance(raw, list):
        raise invalid(path, shape(raw), "a list of windows")
    return tuple(_window(row, f"{path}[{i}]", now) for i, row in enumerate(raw or ()))


def _window(raw: Any, path: str, now: int) -> QuotaWindow:
    given = {key: value for key, value in read_object(raw, path, WINDOW_KEYS).items() if value is not None}
    resets_in_ms = 1_000 * telemetry(given.get("resets_in_s", inf), f"{path}.resets_in_s")
    return QuotaWindow(
        name=text(32, least=1)(given.get("name"), f"{path}.name", TRUSTED),
        remaining=telemetry(given.get("remaining_fraction", 1.0), f"{path}.remaining_fraction"),
        reset_at=now + round(resets_in_ms) if isfinite(resets_in_ms) else None,
        limit_reached=flag(given.get("limit_reached", False), f"{path}.limit_reached", TRUSTED),
    )


def apply_signals(state: RoutingState, candidate: Candidate, signals: Signals, now: int) -> None:
    """Puts the given signals of one candidate into a fresh state."""
    provider, account, target = state.records(candidate)
    if signals.pinned:
        target.statistics = TargetStatistics(signals.pinned)
    account.in_flight = max(account.in_flight, signals.counts.get("in_flight", 0))
    if "recent_requests" in signals.counts:
        account.recent_fixed = max(account.recent_fixed or 0, signals.counts["recent_requests"])
    if "sessions" in signals.counts:
        account.sessions_fixed = max(account.sessions_fixed or 0, signals.counts["sessions"])
    if signals.quota is not None:
        account.fixed_quota = True
        account.quota = {**account.quota, **{w.name: settled(w) for w in signals.quota if readable(w)}}
    if signals.breaker and SEVERITY[signals.breaker] > SEVERITY[provider.breaker.phase(now)]:
        rest = BREAKER_LIMITS[candidate.provider_class].reset_ms if signals.breaker is Phase.OPEN else 0
        provider.breaker = Breaker(open=True, openings=1, generation=1, open_until=now + rest)
