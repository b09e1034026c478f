"""Signals of a scenario's candidates: what is measured of them, given instead of learnt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from decision_service.kernel.health import BREAKER_LIMITS, Breaker, Phase
from decision_service.kernel.model import Candidate, QuotaWindow
from decision_service.kernel.observe import settled
from decision_service.kernel.state import RoutingState
from decision_service.kernel.statistics import TargetStatistics
from decision_service.policy.fields import flag, read_object, shape, text
from decision_service.policy.known import TRUSTED
from service_kit.errors import invalid

PINNED = ("p95_ms", "latency_std_ms", "samples", "error_rate", "failure_rate", "quality")
COUNTS = ("in_flight", "recent_requests", "sessions")
SIGNALS = (*PINNED, *COUNTS, "breaker", "fitness", "quota")
WINDOW_KEYS = ("name", "remaining_fraction", "resets_in_s", "limit_reached")
SEVERITY = {Phase.CLOSED: 0, Phase.HALF_OPEN: 1, Phase.OPEN: 2}


@dataclass(frozen=True, slots=True)
class Signals:
    """What is given of one candidate. A window is paired with its seconds to the reset, None: unknown."""

    pinned: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    breaker: Phase | None = None
    quota: Sequence[tuple[QuotaWindow, float | None]] | None = None


def read_signals(raw: Any, path: str) -> Signals:
    """Signals from plain values; telemetry may be any number, its shape may not be anything else."""
    given = read_object(raw or {}, path, SIGNALS)
    breaker = given.get("breaker")
    if breaker is not None and breaker not in list(Phase):
        raise invalid(f"{path}.breaker", shape(breaker), ", ".join(Phase))
    quota = given.get("quota")
    if quota is not None and not isinstance(quota, list):
        raise invalid(f"{path}.quota", shape(quota), "a list of windows")
    return Signals(
        pinned={name: _telemetry(given[name], f"{path}.{name}") for name in PINNED if given.get(name) is not None},
        counts={name: _count(given[name], f"{path}.{name}") for name in COUNTS if given.get(name) is not None},
        breaker=None if breaker is None else Phase(breaker),
        quota=None if quota is None else [read_window(row, f"{path}.quota[{i}]") for i, row in enumerate(quota)],
    )


def _telemetry(value: Any, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise invalid(path, shape(value), "a number")
    return float(value)


def _count(value: Any, path: str) -> int:
    value = _telemetry(value, path)
    return int(value) if 0 <= value < 2**31 else 0


def read_window(raw: Any, path: str) -> tuple[QuotaWindow, float | None]:
    given = read_object(raw, path, WINDOW_KEYS)
    window = QuotaWindow(
        name=text(32, least=1)(given.get("name"), f"{path}.name", TRUSTED),
        remaining=_telemetry(given.get("remaining_fraction", 1.0), f"{path}.remaining_fraction"),
        limit_reached=flag(given.get("limit_reached", False), f"{path}.limit_reached", TRUSTED),
    )
    resets = given.get("resets_in_s")
    return settled(window), None if resets is None else _telemetry(resets, f"{path}.resets_in_s")


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
        for window, resets_in_s in signals.quota:
            reset_at = None if resets_in_s is None else now + round(resets_in_s * 1000)
            account.quota = {**account.quota, window.name: replace(window, reset_at=reset_at)}
    if signals.breaker and SEVERITY[signals.breaker] > SEVERITY[provider.breaker.phase(now)]:
        rest = BREAKER_LIMITS[candidate.provider_class].reset_ms if signals.breaker is Phase.OPEN else 0
        provider.breaker = Breaker(open=True, openings=1, generation=1, open_until=now + rest)
