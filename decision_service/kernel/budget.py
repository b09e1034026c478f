"""The budget of one request: what is over the cap is out, unless everything is."""

from __future__ import annotations

from decision_service.kernel.draft import Ask, Draft
from decision_service.kernel.model import Refused, Rejection
from decision_service.kernel.pool import Unit
from decision_service.kernel.pricing import estimate


def within_budget(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    """The units under the cap. None when all are over it and the budget opens; raises BUDGET_EXCEEDED when strict."""
    cap = ask.wishes.budget or ask.combo.config.budget_cap
    if cap is None:
        return units
    costs = [estimate(unit.head.candidate, ask.request) for unit in units]
    affordable = [unit for unit, cost in zip(units, costs, strict=True) if cost <= cap]
    if affordable:
        for unit, cost in zip(units, costs, strict=True):
            if cost > cap:
                reason = f"estimate {cost:.6g} USD > {cap:.6g} USD"
                draft.rejected.update({m.id: Rejection("budget", reason) for m in unit.members})
        return affordable
    if (ask.wishes.budget_fallback or ask.combo.config.budget_fallback) == "strict":
        raise Refused(
            "BUDGET_EXCEEDED", f"budget: cap {cap:.6g} USD, the cheapest candidate is estimated at {min(costs):.6g} USD"
        )
    draft.opened.append("budget")
    return []


def by_estimate(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    """The order once the budget has opened: cheapest first, whatever the strategy."""
    draft.reason = "cheapest: all are over the budget"
    return sorted(units, key=lambda unit: estimate(unit.head.candidate, ask.request))
