"""Strategies that keep the declared order, or an order that the request alone fixes."""

from __future__ import annotations

from decision_service.kernel.affinity import by_rendezvous
from decision_service.kernel.draft import Ask, Draft
from decision_service.kernel.pool import Unit
from decision_service.kernel.recall import cache_key


def priority(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    draft.reason = "first available in declared order"
    return units


def fill_first(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    draft.reason = "first in declared order with quota left"
    return units


def context_relay(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    draft.reason = "first available in declared order, with a summary when the conversation moves"
    return units


def cache_optimized(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    key = cache_key(ask.request, ask.state.roster)
    draft.reason = "highest for the cache key" if key else "declared order: the request has no cache key"
    return by_rendezvous(units, key) if key else units
