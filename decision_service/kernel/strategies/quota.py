"""Strategies that order by what is left of the quotas and when they start anew."""

from __future__ import annotations

from math import inf

from decision_service.kernel.draft import Advance, Ask, Draft, shared
from decision_service.kernel.factors import HORIZONS
from decision_service.kernel.live import AccountRecord
from decision_service.kernel.model import MINUTE, QuotaWindow
from decision_service.kernel.pool import Unit
from decision_service.kernel.statistics import clamp01

NO_DATA = 0.5
EQUAL_WITHIN = 0.05
LOW_SESSION = 0.10


def headroom(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    draft.reason = "most quota left"

    def left(unit: Unit) -> float:
        remaining = unit.head.account.remaining(ask.turn.now)
        return 1.0 if remaining is None else remaining

    return sorted(units, key=lambda unit: -left(unit))


def reset_window(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    now, names = ask.turn.now, ask.combo.config.reset_window_windows

    def resets_at(unit: Unit) -> float:
        known = [w.reset_at for w in unit.head.account.windows(now) if w.name in names and w.reset_at is not None]
        return min(known) if known else inf

    ordered = sorted(units, key=resets_at)
    best = resets_at(ordered[0])
    group = sum(1 for unit in ordered if resets_at(unit) <= best + MINUTE) if best < inf else len(ordered)
    draft.reason = shared("earliest quota reset" if best < inf else "no quota reset is known", group)
    return _rotated(ordered, group, ask, draft)


def reset_aware(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    scores = {id(unit): window_score(unit.head.account, ask.turn.now) for unit in units}
    ordered = sorted(units, key=lambda unit: -scores[id(unit)])
    best = scores[id(ordered[0])]
    close = [unit for unit in ordered if scores[id(unit)] >= best - EQUAL_WITHIN]
    draft.reason = shared("best by quota left and time to its reset", len(close))
    return _rotated(ordered, len(close), ask, draft)


def window_score(account: AccountRecord, now: int) -> float:
    """How much it pays to use this connection now; -1 where a limit is reached."""
    known = {w.name: w for w in account.windows(now) if w.name in HORIZONS}
    if not known:
        return NO_DATA
    if any(w.limit_reached for w in known.values()):
        return -1.0
    least = min(clamp01(w.remaining) for w in known.values())

    def part(name: str, a: float, b: float) -> float:
        window = known.get(name) or QuotaWindow(name, least)
        left = clamp01(window.remaining)
        return a * left + b * _urgency(window, now) * (1.0 - left)

    total = 0.35 * part("session", 0.45, 0.55) + 0.65 * part("weekly", 0.25, 0.75)
    if "monthly" in known:
        total = 0.75 * total + 0.25 * part("monthly", 0.25, 0.75)
    session = clamp01(known["session"].remaining) if "session" in known else least
    return total * max(0.05, session / LOW_SESSION) if session < LOW_SESSION else total


def _urgency(window: QuotaWindow, now: int) -> float:
    if window.reset_at is None:
        return 0.5
    return clamp01(1.0 - (window.reset_at - now) / HORIZONS[window.name][0])


def _rotated(ordered: list[Unit], group: int, ask: Ask, draft: Draft) -> list[Unit]:
    """The first ``group`` units share the load in turn."""
    draft.effects.append(Advance(ask.scope))
    turn = ask.state.counters.get(ask.scope, 0) % group
    return [*ordered[turn:group], *ordered[:turn], *ordered[group:]]
