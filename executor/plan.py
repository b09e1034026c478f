"""What is to be called: chains of targets, and how they belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from executor.model import RetryRules, Shape, Target

TOOL_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Chain:
    """One call of a plan: its targets in order until one answers, or a plan of its own that stands for them."""

    targets: Sequence[Target] = ()
    nested: Plan | None = None

    @property
    def first(self) -> Target:
        """The target that is called first."""
        return self.targets[0] if self.nested is None else self.nested.chains[0].first


@dataclass(frozen=True, slots=True)
class FusionTuning:
    """``min_panel`` answers start the grace for the others; ``limit_s`` ends the panel."""

    min_panel: int = 2
    grace_s: float = 8.0
    limit_s: float = 90.0


@dataclass(frozen=True, slots=True)
class HandOff:
    """A ``summary`` to put in front, and whether to make one meanwhile; without a summarizer who serves makes it."""

    summary: str = ""
    summarize: bool = False
    summarizer: Target | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """SINGLE: one chain. FUSION, FANOUT: the panel. PIPELINE: the steps. AGENTIC: the planner, then executors.

    ``judge`` and ``tuning`` are read for FUSION, ``max_tool_rounds`` for AGENTIC.
    """

    shape: Shape
    chains: tuple[Chain, ...]
    retry: RetryRules = RetryRules()
    judge: Chain = Chain()
    tuning: FusionTuning = FusionTuning()
    max_tool_rounds: int = TOOL_ROUNDS
    hand_off: HandOff | None = None
