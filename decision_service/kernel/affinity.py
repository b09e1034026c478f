"""What goes before a strategy's own order: the conversation's home, and the connection with the prompt's cache."""

from __future__ import annotations

from collections.abc import Sequence

from decision_service.kernel.draft import Ask, Draft
from decision_service.kernel.pool import Unit
from decision_service.kernel.recall import cache_key, pinned, rendezvous
from decision_service.kernel.weights import shares

# `auto` and the quota strategies place the pin themselves; `priority` never follows one between steps.
PLACES_ITS_OWN = frozenset({"auto", "quota-weighted", "quota-share", "priority"})
ALWAYS_STICKY = frozenset({"lkgp", "cache-optimized"})
CACHE_ROTATED = frozenset({"round-robin", "weighted"})
SERVED_BEFORE = "served this conversation before"
BY_CACHE_KEY = "first by the prompt's cache key"


def home_first(units: list[Unit], strategy: str, ask: Ask, draft: Draft) -> list[Unit]:
    """The unit that the conversation was served by goes first; for most strategies only if the client named it."""
    explicit = ask.request.session_explicit or strategy in ALWAYS_STICKY
    if ask.pin is None or strategy in PLACES_ITS_OWN or not explicit:
        return units
    member = pinned([unit.head for unit in units], ask.pin, ask.turn.now)
    if member is None:
        return units
    draft.reason, draft.propensity = SERVED_BEFORE, 1.0
    return sorted(units, key=lambda unit: unit.head is not member)


def by_rendezvous(units: Sequence[Unit], key: str) -> list[Unit]:
    """The units by the weight of their connections for a cache key, highest first."""
    return sorted(units, key=lambda unit: rendezvous(key, unit.head.candidate.connection), reverse=True)


def by_cache(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    """Pinned steps of one model trade places among themselves: the highest for the cache key stands first of them."""
    key = cache_key(ask.request, ask.state.roster)
    if not key:
        return units
    places: dict[tuple[str, str], list[int]] = {}
    for place, unit in enumerate(units):
        if unit.step.connection is not None:
            places.setdefault((unit.step.provider, unit.step.model), []).append(place)
    ordered = list(units)
    for group in places.values():
        ranked = sorted(
            (units[i] for i in group), key=lambda u: rendezvous(key, u.head.candidate.connection), reverse=True
        )
        for place, unit in zip(group, ranked, strict=True):
            ordered[place] = unit
    if ordered[0] is not units[0]:
        draft.reason = BY_CACHE_KEY
    if draft.propensity < 1.0:
        parts = shares([unit.step.weight for unit in units])
        draft.propensity = sum(parts[i] for i in next((group for group in places.values() if 0 in group), [0]))
    return ordered
