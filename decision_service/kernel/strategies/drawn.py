"""Strategies that draw: shuffles, decks, quota-weighted draws and deficit rounds."""

from __future__ import annotations

from collections.abc import Sequence

from decision_service.kernel.affinity import SERVED_BEFORE
from decision_service.kernel.draft import Ask, DealCard, Draft, SettleDeficits
from decision_service.kernel.pool import Unit
from decision_service.kernel.recall import pinned
from decision_service.kernel.strategies.order import pick_index, shuffled, weighted_order
from decision_service.kernel.weights import shares

WHOLE = 1.0
EQUAL_TO_DIGITS = 9  # sums of shares that are no binary fractions differ behind that


def random(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    draft.reason = "drawn at random"
    first: dict[str, Unit] = {}
    repeats = [unit for unit in units if first.setdefault(unit.head.id, unit) is not unit]
    draft.propensity = 1.0 / len(first)
    return [*shuffled(list(first.values()), ask.turn.rng), *repeats]


def strict_random(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    """An independent draw over the steps as listed, or from a deck that deals every step once a cycle."""
    cards = _cards(units, ask) if ask.combo.config.strict_random_deck else units
    first = cards[pick_index(len(cards), ask.turn.rng)]
    same = sum(1 for unit in cards if unit.head.id == first.head.id)
    draft.propensity = same / len(cards)
    draft.reason = "drawn from the deck" if ask.combo.config.strict_random_deck else "drawn from the steps as listed"
    if ask.combo.config.strict_random_deck:
        draft.effects.append(DealCard(ask.scope, first.key, anew=not _left(units, ask)))
    rest = [unit for unit in units if unit is not first]
    return [first, *shuffled(rest, ask.turn.rng)]


def _left(units: Sequence[Unit], ask: Ask) -> list[Unit]:
    """The available units whose card is still in the deck."""
    deck = ask.state.decks.get(ask.scope)
    return [unit for unit in units if deck is None or unit.key not in deck.dealt]


def _cards(units: list[Unit], ask: Ask) -> list[Unit]:
    """The cards to draw from; a new cycle does not begin with the card that ended the last one."""
    left = _left(units, ask)
    if left:
        return left
    last = ask.state.decks[ask.scope].last
    return [unit for unit in units if unit.key != last] or units


def quota_weighted(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    """Drawn without replacement by what is left per request in flight; behind them those under the floor."""
    now, floor = ask.turn.now, ask.combo.config.quota_weighted_floor_percent / 100.0
    left = {unit.key: WHOLE if (r := unit.head.account.remaining(now)) is None else r for unit in units}
    above = [unit for unit in units if left[unit.key] >= floor]
    below = sorted((unit for unit in units if left[unit.key] < floor), key=lambda unit: -left[unit.key])
    home = pinned([unit.head for unit in above], ask.pin, now)
    weights = [left[unit.key] / (1 + unit.head.account.in_flight) for unit in above]
    ordered = weighted_order(above, weights, ask.turn.rng)
    if home is not None:
        draft.reason = SERVED_BEFORE
        ordered.sort(key=lambda unit: unit.head is not home)
    elif ordered:
        draft.reason = "drawn by quota left and requests in flight"
        total = sum(weights)
        draft.propensity = weights[above.index(ordered[0])] / total if total > 0 else 1.0 / len(above)
    else:
        draft.reason = "most quota left: all are under the floor"
    return [*ordered, *below]


def quota_share(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    """Deficit round-robin: each round everybody earns its share, the largest deficit serves and pays 1.

    Saturated accounts and those at their limit go to the tail and earn nothing; the runner-up takes over when it has
    strictly fewer requests in flight. A conversation that the client named stays where it was served, and that pays.
    """
    now, floor = ask.turn.now, ask.combo.config.quota_weighted_floor_percent / 100.0
    sharing = [unit for unit in units if _shares(unit, ask, floor, now)] or units
    earned = shares([unit.step.weight for unit in sharing])
    before = ask.state.deficits.get(ask.scope, {})
    deficits = {unit.key: before.get(unit.key, 0.0) + share for unit, share in zip(sharing, earned, strict=True)}
    ranked = sorted(sharing, key=lambda unit: -round(deficits[unit.key], EQUAL_TO_DIGITS))
    home = pinned([unit.head for unit in sharing], ask.pin, now) if ask.request.session_explicit else None
    draft.reason = "next by its share"
    if home is not None:
        draft.reason = SERVED_BEFORE
        ranked.sort(key=lambda unit: unit.head is not home)
    elif len(ranked) > 1 and ranked[1].head.account.in_flight < ranked[0].head.account.in_flight:
        draft.reason = "runner-up by its share, with fewer requests in flight"
        ranked[:2] = ranked[1], ranked[0]
    deficits[ranked[0].key] -= 1.0
    draft.effects.append(SettleDeficits(ask.scope, deficits))
    return [*ranked, *(unit for unit in units if unit not in ranked)]


def _shares(unit: Unit, ask: Ask, floor: float, now: int) -> bool:
    remaining = unit.head.account.remaining(now)
    if remaining is not None and remaining <= floor:
        return False
    own, default = unit.step.max_concurrent, ask.combo.config.max_concurrent
    limit = default if own is None else own
    return limit <= 0 or ask.state.step_leases.get((ask.scope, unit.key), 0) < limit
