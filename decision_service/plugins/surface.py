"""What a plug-in is asked with, and what it answers: frozen values, free of the kernel's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from decision_service.kernel.dice import Dice, Rng
from decision_service.kernel.model import SlaTargets


def _nothing() -> Mapping[str, float]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PoolMember:
    """One candidate that may be picked: nothing stops it, the budget allows it, its score excludes it not.

    ``candidate`` is its id, ``provider/model@connection``. ``score`` is 0..1 under the context's weights, a key's
    multiplier included; ``factors`` are the sixteen values behind it, each 0..1, computed when they are first read:
    read them inside ``select``. Prices are USD per 1M tokens; ``cost`` is 0.6 x input + 0.4 x output price, 1.0 when
    unknown; ``estimated_cost_usd`` is that of this request. ``p95_ms`` is of latency; ``error_rate`` and
    ``quota_remaining`` are 0..1. ``breaker`` is CLOSED or HALF_OPEN. ``in_flight`` counts the connection's calls under
    way. ``context_window`` is in tokens. ``economic_tier`` is free, cheap or premium; ``account_tier`` free, standard,
    pro or ultra. None: unknown.
    """

    candidate: str
    provider: str
    model: str
    connection: str
    score: float
    factors: Mapping[str, float] = field(default_factory=_nothing, compare=False, repr=False)
    input_price: float | None = None
    output_price: float | None = None
    cost: float = 1.0
    estimated_cost_usd: float = 0.0
    p95_ms: float | None = None
    error_rate: float | None = None
    breaker: str = "CLOSED"
    quota_remaining: float | None = None
    in_flight: int = 0
    context_window: int | None = None
    economic_tier: str = "premium"
    account_tier: str = "standard"


@dataclass(frozen=True, slots=True)
class SelectContext:
    """What is known of the request and of the policy.

    ``input_tokens`` is an estimate. ``has_tools``: tools are there and may be called. ``last_known_good`` is the id of
    the candidate that last succeeded in this scope, perhaps none of the pool; empty: nothing is known.
    ``lkgp_enabled`` is the combo's switch for it. ``weights`` sum to 1. ``rng.random()`` is the only source of chance:
    with it a decision can be made again from its seed.
    """

    task_type: str = "default"
    has_tools: bool = False
    needs_vision: bool = False
    input_tokens: int = 0
    max_output_tokens: int | None = None
    sla: SlaTargets = SlaTargets()
    last_known_good: str = ""
    lkgp_enabled: bool = True
    weights: Mapping[str, float] = field(default_factory=_nothing)
    rng: Rng = field(default_factory=lambda: Dice(0))


@dataclass(frozen=True, slots=True)
class Choice:
    """The pick.

    ``candidate`` is the id of a pool member; ``reason`` a few words for the answer, of which 200 characters are shown;
    ``score`` is what the strategy makes of its pick, any finite number.
    """

    candidate: str
    reason: str
    score: float


class RouterStrategy(Protocol):
    """A router strategy: picks one of the scored. Other candidates follow it by score."""

    @property
    def name(self) -> str:
        """What ``config.routerStrategy`` calls it: 1 to 64 letters, digits, '.', '_' and '-'."""

    @property
    def description(self) -> str:
        """One line for people."""

    def select(self, pool: Sequence[PoolMember], context: SelectContext) -> Choice:
        """Pick one. The pool is in pool order and never empty. Must be quick: nothing else is decided meanwhile."""
