"""Strategies that order by what is measured or known of the units."""

from __future__ import annotations

from math import inf, log10

from decision_service.kernel.draft import Ask, Draft
from decision_service.kernel.health import Phase
from decision_service.kernel.live import Member
from decision_service.kernel.pool import Unit
from decision_service.kernel.pricing import estimate
from decision_service.kernel.strategies.fixed import IN_ORDER
from decision_service.kernel.strategies.order import pick_index

UNKNOWN_SUCCESS_RATE = 0.5
UNKNOWN_LATENCY_TERM = 0.25
HALF_OPEN_PENALTY = 0.25


def p2c(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    if len(units) < 2:
        draft.reason = "the only one available"
        return units
    draft.reason = "better of two drawn"
    first = pick_index(len(units), ask.turn.rng)
    second = pick_index(len(units) - 1, ask.turn.rng)
    second += second >= first
    drawn = sorted((units[first], units[second]), key=lambda unit: unit.place)
    winner = max(drawn, key=lambda unit: merit(unit.head, ask.turn.now))
    draft.propensity = _p2c_propensity(winner, units, ask.turn.now)
    return [winner, *(unit for unit in units if unit is not winner)]


def _p2c_propensity(winner: Unit, units: list[Unit], now: int) -> float:
    """The share of pairs that the winner wins; an equal pair goes to the one declared first."""
    own = merit(winner.head, now)
    beaten = sum(
        1
        for unit in units
        if unit is not winner
        and (own > (other := merit(unit.head, now)) or (own == other and winner.place < unit.place))
    )
    return beaten / (len(units) * (len(units) - 1) / 2)


def merit(member: Member, now: int) -> float:
    """Success rate plus a latency term, less a penalty while half open."""
    statistics = member.target.statistics
    rate = UNKNOWN_SUCCESS_RATE if statistics.error_rate is None else 1.0 - statistics.error_rate
    fast = UNKNOWN_LATENCY_TERM if statistics.p95_ms is None else 1.0 / log10(statistics.p95_ms + 10.0)
    half_open = member.provider.breaker.phase(now) is Phase.HALF_OPEN
    return rate + fast - (HALF_OPEN_PENALTY if half_open else 0.0)


def least_used(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    draft.reason = "fewest requests in flight"
    now = ask.turn.now
    return sorted(units, key=lambda u: (u.head.account.in_flight, u.head.account.recent_requests(now)))


def cost_optimized(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    def cost(unit: Unit) -> float:
        candidate = unit.head.candidate
        return inf if candidate.facts.input_price is None else estimate(candidate, ask.request)

    ordered = sorted(units, key=cost)
    draft.reason = "cheapest for this request" if cost(ordered[0]) < inf else f"{IN_ORDER}: no price is known"
    return ordered


def context_optimized(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    needed = ask.request.input_tokens + (ask.request.max_output_tokens or 0)

    def place(unit: Unit) -> tuple[bool, float]:
        """A window that only the least of the input fits is a last resort, the larger the better."""
        window = unit.head.window or inf
        return (True, -window) if window < needed else (False, window)

    ordered = sorted(units, key=place)
    known = ordered[0].head.window
    draft.reason = "smallest window that fits" if known else f"{IN_ORDER}: no window is known"
    return ordered
