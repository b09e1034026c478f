"""Strategies that keep the declared order, or an order that the request alone fixes."""

from __future__ import annotations

from decision_service.kernel.affinity import BY_CACHE_KEY, by_rendezvous
from decision_service.kernel.draft import Ask, Draft
from decision_service.kernel.pool import Unit
from decision_service.kernel.recall import cache_key

IN_ORDER = "first available in order"


def priority(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    draft.reason = IN_ORDER
    return units


def fill_first(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    draft.reason = IN_ORDER
    return units


def context_relay(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    draft.reason = IN_ORDER
    return units


def cache_optimized(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    key = cache_key(ask.request, ask.state.roster)
    draft.reason = BY_CACHE_KEY if key else f"{IN_ORDER}: no cache key"
    return by_rendezvous(units, key) if key else units
