"""What a strategy is asked, and the draft of a decision that it fills in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from decision_service.kernel.controls import Wishes
from decision_service.kernel.live import Member
from decision_service.kernel.model import Advice, Combo, Rejection, Request, Turn
from decision_service.kernel.pool import Pool
from decision_service.kernel.recall import Pin
from decision_service.kernel.sheet import Sheet
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


@dataclass(frozen=True, slots=True)
class DealCard:
    """A card leaves the deck of a scope; ``anew``: the first of a new cycle."""

    scope: str
    unit: str
    anew: bool


@dataclass(frozen=True, slots=True)
class SettleDeficits:
    """The deficits of a scope after a round; units that are not named start at 0 when they return."""

    scope: str
    deficits: Mapping[str, float]


Effect = Advance | TurnRotation | DropBatch | PinUnit | Exclude | Readmit | DealCard | SettleDeficits


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to a strategy. ``scope`` names the policy in rotations, counters and exclusions.

    ``pin`` is where the conversation was served last; None: nowhere, or stickiness is off. ``advice`` is what a remote
    router answered, if one was asked. ``trail`` names the combos that led to this one.
    """

    state: RoutingState
    request: Request
    combo: Combo
    pool: Pool
    turn: Turn
    wishes: Wishes
    scope: str
    incident: bool
    pin: Pin | None = None
    advice: Advice | None = None
    trail: tuple[str, ...] = ()

    @property
    def floor(self) -> int:
        """The smallest context window that client or policy asks for, tokens."""
        return max(self.wishes.min_context, self.combo.config.min_context_window or 0)


@dataclass(slots=True)
class Draft:
    """A decision in the making: what a strategy adds beside the order.

    ``reason`` says in a few words why the first call is the first. ``values`` are the scores of ``scored``, place by
    place; both are empty where a strategy does not score. ``sheet`` gave them, for the members at its ``places`` (None:
    all); without one they were scored the long way.
    """

    reason: str = ""
    router_strategy: str = ""
    exploration: bool = False
    propensity: float = 1.0
    task_type: str = ""
    weights: Mapping[str, float] = field(default_factory=dict)
    weights_source: str = ""
    scored: Sequence[Member] = ()
    values: Sequence[float] = ()
    sheet: Sheet | None = None
    places: Sequence[int] | None = None
    opened: list[str] = field(default_factory=list)
    rejected: dict[str, Rejection] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)

    @property
    def scores(self) -> dict[str, float]:
        """Scores by candidate id."""
        return {member.id: value for member, value in zip(self.scored, self.values, strict=True)}


def shared(reason: str, count: int) -> str:
    """A reason that ``count`` candidates have alike and take in turn."""
    return reason if count == 1 else f"{reason}, shared by {count} in turn"
