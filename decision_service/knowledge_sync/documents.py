"""What outside sources send, read into knowledge by model. Anything may come; what does not fit is passed over."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from decision_service.kernel.knowledge.names import LONGEST, same_model
from decision_service.kernel.knowledge.synced import better, board_fitness, capability

MOST_RATINGS = 5_000
MOST_LISTINGS = 50_000
NAMES = ("model", "name")
RATINGS = ("score", "elo", "rating")


class Unreadable(Exception):
    """The document is not what its source is known to send; the text says what is missing."""


def arena_board(document: Any) -> dict[str, float]:
    """Fitness by model, of a board ``{"models": [{"model": name, "score": Elo}, ...]}``.

    Raises Unreadable unless there are two different ratings.
    """
    rows = document.get("models") if isinstance(document, Mapping) else None
    if not isinstance(rows, list):
        raise Unreadable("no list `models`")
    found: dict[str, float] = {}
    for name, rating in _ratings(rows[:MOST_RATINGS]):
        found[name] = max(rating, found.get(name, rating))
    fitness = board_fitness(found)
    if not fitness:
        raise Unreadable("no two different ratings")
    return fitness


def _ratings(rows: list[Any]) -> Iterator[tuple[str, float]]:
    for row in rows:
        if isinstance(row, Mapping):
            name = next((row[key] for key in NAMES if key in row), None)
            rating = next((row[key] for key in RATINGS if key in row), None)
            if _is_name(name) and _is_rating(rating):
                yield name, float(rating)


def _is_name(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= LONGEST


def _is_rating(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def listed_capabilities(document: Any) -> dict[str, str]:
    """Capability step by model, of listings ``{provider: {"models": {id: listing}}}``.

    Where providers list one model differently the best listing counts: a model can do what it does anywhere. Raises
    Unreadable when there is no listing at all.
    """
    found: dict[str, str] = {}
    for model, listing in _listings(document):
        name, step = same_model(model), _step(listing)
        found[name] = better(found.get(name, step), step)
        if len(found) >= MOST_LISTINGS:
            break
    if not found:
        raise Unreadable("no provider with an object `models`")
    return found


def _listings(document: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for provider in document.values() if isinstance(document, Mapping) else ():
        models = provider.get("models") if isinstance(provider, Mapping) else None
        for model, listing in models.items() if isinstance(models, Mapping) else ():
            if _is_name(model) and isinstance(listing, Mapping):
                yield model, listing


def _step(listing: Mapping[str, Any]) -> str:
    limit = listing.get("limit")
    window = limit.get("context") if isinstance(limit, Mapping) else None
    return capability(
        reasons=listing.get("reasoning") is True,
        tools=listing.get("tool_call") is True,
        window=int(window) if _is_rating(window) else 0,
    )
