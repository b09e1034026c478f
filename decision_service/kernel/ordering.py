"""The order of a chain: the strategy's, with what stands above every strategy."""

from __future__ import annotations

from collections.abc import Sequence

from decision_service.kernel.affinity import CACHE_ROTATED, by_cache, home_first
from decision_service.kernel.budget import by_estimate, within_budget
from decision_service.kernel.draft import Ask, Draft
from decision_service.kernel.live import Member
from decision_service.kernel.pool import Unit
from decision_service.kernel.strategies import STRATEGIES

QUOTA_SHARE = "quota-share"


def strategy_of(ask: Ask) -> str:
    """The strategy that orders: the one that a key pins, the internal one of `quotaShare`, else the combo's."""
    if ask.pool.strategy:
        return ask.pool.strategy
    return QUOTA_SHARE if ask.combo.config.quota_share else ask.combo.strategy


def ordered(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    """The units in the order of the chain, a key's pinned strategy, budget, stickiness and lease limits included."""
    name = strategy_of(ask)
    if ask.pool.strategy and name != "auto":
        affordable = within_budget(units, ask, draft)
        if not affordable:
            return by_estimate(units, ask, draft)
        units = affordable
    units = STRATEGIES[name](units, ask, draft)
    if name in CACHE_ROTATED:
        units = by_cache(units, ask, draft)
    return busy_last(home_first(units, name, ask, draft), ask, draft)


def busy_last(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    """Steps at their limit of live leases go to the tail, in the same order."""
    default = ask.combo.config.max_concurrent
    leases = ask.state.step_leases

    def busy(unit: Unit) -> bool:
        limit = default if unit.step.max_concurrent is None else unit.step.max_concurrent
        return limit > 0 and leases.get((ask.scope, unit.key), 0) >= limit

    if not default and not ask.pool.limited:
        return units
    free_first = sorted(units, key=busy)
    if free_first[0] is not units[0]:
        draft.reason += ", the busy ones last"
    return free_first


def distinct(units: Sequence[Unit]) -> list[Member]:
    """The chain: every candidate once, at its first place."""
    chain: dict[str, Member] = {}
    for unit in units:
        for member in unit.members:
            chain.setdefault(member.id, member)
    return list(chain.values())
