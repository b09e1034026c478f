"""What a strategy is asked, and the draft of a decision that it fills in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from decision_service.kernel.controls import Wishes
from decision_service.kernel.factors import Scene
from decision_service.kernel.live import Member
from decision_service.kernel.model import Combo, Rejection, Request, Turn
from decision_service.kernel.pool import Pool
from decision_service.kernel.state import RoutingState


@dataclass(frozen=True, slots=True)
class Advance:
    """The counter of a scope moves by one."""

    scope: str


@dataclass(frozen=True, slots=True)
class TurnRotation:
    """A rotation stands at another unit from now on, without a batch."""

    scope: str
    unit: str
    index: int


@dataclass(frozen=True, slots=True)
class DropBatch:
    """The batch under way ends: its unit is not available."""

    scope: str


@dataclass(frozen=True, slots=True)
class PinUnit:
    """A sticky draw: this unit goes first until its batch is full."""

    scope: str
    unit: str


@dataclass(frozen=True, slots=True)
class Exclude:
    """A candidate scored under the bar in a scope."""

    scope: str
    candidate: str


@dataclass(frozen=True, slots=True)
class Readmit:
    """A candidate scored well again after its exclusion."""

    scope: str
    candidate: str


Effect = Advance | TurnRotation | DropBatch | PinUnit | Exclude | Readmit


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to a strategy. ``scope`` names the policy in rotations, counters and exclusions."""

    state: RoutingState
    request: Request
    combo: Combo
    pool: Pool
    turn: Turn
    wishes: Wishes
    scope: str
    incident: bool


@dataclass(slots=True)
class Draft:
    """A decision in the making: what a strategy adds beside the order."""

    reason: str = ""
    router_strategy: str = ""
    exploration: bool = False
    propensity: float = 1.0
    task_type: str = ""
    weights: Mapping[str, float] = field(default_factory=dict)
    weights_source: str = ""
    scored: Sequence[Member] = ()
    scores: dict[str, float] = field(default_factory=dict)
    scene: Scene | None = None
    opened: list[str] = field(default_factory=list)
    rejected: dict[str, Rejection] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
