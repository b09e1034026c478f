"""Strategies that spread requests over time: weighted draws and round-robin batches."""

from __future__ import annotations

from collections.abc import Mapping

from decision_service.kernel.draft import Ask, Draft, DropBatch, PinUnit, TurnRotation
from decision_service.kernel.model import ComboConfig, Settings
from decision_service.kernel.pool import Unit
from decision_service.kernel.state import Rotation
from decision_service.kernel.weights import shares

DEFAULT_STICKY_LIMIT = 3


def weighted(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    pinned = _pinned(units, ask, draft)
    if pinned is not None:
        first = pinned
        draft.reason = "drawn before and kept"
    else:
        first = _draw(units, ask, draft)
        if ask.combo.config.sticky_weighted_limit > 1:
            draft.effects.append(PinUnit(ask.scope, first.key))
    rest = [unit for unit in units if unit is not first]
    return [first, *sorted(rest, key=lambda unit: -unit.step.weight)]


def _pinned(units: list[Unit], ask: Ask, draft: Draft) -> Unit | None:
    rotation = ask.state.rotations.get(ask.scope)
    if rotation is None or rotation.batch is None or ask.combo.config.sticky_weighted_limit <= 1:
        return None
    for unit in units:
        if unit.key == rotation.batch.step:
            return unit
    draft.effects.append(DropBatch(ask.scope))
    return None


def _draw(units: list[Unit], ask: Ask, draft: Draft) -> Unit:
    parts = shares([unit.step.weight for unit in units])
    left = ask.turn.rng.random()
    chosen = max(range(len(units)), key=lambda i: parts[i])
    for index, part in enumerate(parts):
        left -= part
        if left < 0:
            chosen = index
            break
    drawn = units[chosen]
    draft.propensity = sum(part for unit, part in zip(units, parts, strict=True) if unit.head.id == drawn.head.id)
    draft.reason = "drawn by weight"
    return drawn


def sticky_limit(config: ComboConfig, settings: Settings) -> int:
    """Successes in a round-robin batch: the combo's value, else the settings', else 3."""
    for value in (
        config.sticky_round_robin_limit,
        settings.combo_sticky_round_robin_limit,
        settings.sticky_round_robin_limit,
    ):
        if value is not None:
            return value
    return DEFAULT_STICKY_LIMIT


def round_robin(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    declared = ask.pool.declared
    rotation = ask.state.rotations.get(ask.scope) or Rotation()
    start = counter_place(rotation, declared)
    limit = sticky_limit(ask.combo.config, ask.state.roster.settings)
    draft.reason = "next in rotation"
    if limit == 1:
        draft.effects.append(TurnRotation(ask.scope, *behind(start, declared)))
    elif (batch := rotation.batch) is not None:
        serving = next((unit for unit in units if unit.key == batch.step), None)
        if serving is None:
            draft.effects.append(DropBatch(ask.scope))
        else:
            start = declared[serving.key]
            serving.members.sort(key=lambda m: m.id != batch.member)
            draft.reason = "serving its batch"
    return sorted(units, key=lambda unit: (declared[unit.key] - start) % len(declared))


def counter_place(rotation: Rotation, declared: Mapping[str, int]) -> int:
    """Where a rotation stands among the declared units; a unit that is gone gives way to the one now in its place."""
    return declared.get(rotation.step, rotation.index % len(declared))


def behind(place: int, declared: Mapping[str, int]) -> tuple[str, int]:
    """Key and place of the declared unit behind one."""
    following = (place + 1) % len(declared)
    return tuple(declared)[following], following
