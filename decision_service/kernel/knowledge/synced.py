"""What outside sources tell of models, as fitness by task: ratings of an arena, and listed capabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from decision_service.kernel.knowledge.names import same_model, without_effort
from decision_service.kernel.knowledge.tasks import TASK_TYPES, TASKS

GENERAL_BOARD, CODE_BOARD = "text", "code"
BOARDS: Mapping[str, tuple[str, ...]] = MappingProxyType({GENERAL_BOARD: TASKS, CODE_BOARD: ("coding", "debugging")})
"""The tasks that each board rates; a later board has the say where both rate one."""

CAPABILITIES = "capabilities"
"""Name of what is told by the listings of models, beside the names of the boards."""

STANDARD_WINDOW = 128_000


class Capability(StrEnum):
    """What a model's listing says that it can do, in four steps."""

    PREMIUM = "premium"
    STANDARD = "standard"
    FAST = "fast"
    BUDGET = "budget"


CAPABILITY_RANK = {step: -place for place, step in enumerate(Capability)}
CAPABILITY_FITNESS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        step: dict(zip(TASK_TYPES, values, strict=True))
        for step, values in (
            (Capability.PREMIUM, (0.92, 0.93, 0.94, 0.95, 0.90, 0.88)),
            (Capability.STANDARD, (0.85, 0.84, 0.85, 0.85, 0.82, 0.85)),
            (Capability.FAST, (0.78, 0.72, 0.70, 0.72, 0.75, 0.80)),
            (Capability.BUDGET, (0.65, 0.60, 0.55, 0.58, 0.60, 0.70)),
        )
    }
)


@dataclass(frozen=True, slots=True)
class Synced:
    """``boards`` map board -> model -> fitness, ``capabilities`` model -> step; models read as in ``same_model``."""

    boards: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    capabilities: Mapping[str, str] = field(default_factory=dict)


NOTHING_SYNCED = Synced()


def board_fitness(ratings: Mapping[str, float]) -> dict[str, float]:
    """Fitness by model from one board's ratings by listed name: 0.5 at its lowest, 1 at its highest.

    A model that is listed several times has its best rating. Empty when there are not two different ratings.
    """
    lowest, highest = min(ratings.values(), default=0.0), max(ratings.values(), default=0.0)
    if not lowest < highest:
        return {}
    best: dict[str, float] = {}
    for listed, rating in ratings.items():
        name = same_model(listed)
        best[name] = max(rating, best.get(name, rating))
    for name in list(best):
        best.setdefault(without_effort(name), best[name])
    return {name: 0.5 + 0.5 * (rating - lowest) / (highest - lowest) for name, rating in best.items()}


def capability(reasons: bool, tools: bool, window: int) -> Capability:
    """The step of a listing; ``window`` in tokens, 0 when unknown."""
    if reasons:
        return Capability.PREMIUM
    if not tools:
        return Capability.BUDGET
    return Capability.STANDARD if window >= STANDARD_WINDOW else Capability.FAST


def better(one: str, other: str) -> str:
    """The higher of two steps."""
    return max(one, other, key=lambda step: CAPABILITY_RANK[Capability(step)])
