"""Request controls: the client's routing wishes, read leniently."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from types import MappingProxyType

from decision_service.kernel.model import Controls, Request
from decision_service.kernel.weights import PACKS

MODE_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "balanced": "balanced",
        "default": "balanced",
        "fast": "ship-fast",
        "fastest": "ship-fast",
        "speed": "ship-fast",
        "quality": "quality-first",
        "best": "quality-first",
        "cheap": "cost-saver",
        "cost": "cost-saver",
        "saver": "cost-saver",
        "reliable": "reliability-first",
        "offline": "offline-friendly",
        **{name: name for name in PACKS},
    }
)
FALLBACK_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("cheapest", "cheapest-viable", "soft"), "cheapest"),
        **dict.fromkeys(("strict", "block", "hard"), "strict"),
    }
)


@dataclass(frozen=True, slots=True)
class Wishes:
    """Controls as understood. ``None``: the stored policy stays. ``ignored`` names what had no effect."""

    pack: str | None = None
    budget: float | None = None
    budget_fallback: str | None = None
    min_context: int = 0
    effort: bool = False
    ignored: tuple[str, ...] = ()


NO_WISHES = Wishes()
NO_CONTROLS = Controls()


def read_controls(request: Request) -> Wishes:
    """The controls of a request. A malformed or unknown one is named in ``ignored`` and has no effect."""
    controls = request.controls
    if controls == NO_CONTROLS:
        return NO_WISHES
    ignored = []
    mode = controls.mode.strip().lower()
    pack = MODE_ALIASES.get(mode)
    if mode and pack is None:
        ignored.append("mode")
    budget = controls.budget_usd if isfinite(controls.budget_usd) and controls.budget_usd > 0 else None
    if budget is None and controls.budget_usd != 0:
        ignored.append("budget_usd")
    fallback = controls.budget_fallback.strip().lower()
    if fallback and fallback not in FALLBACK_ALIASES:
        ignored.append("budget_fallback")
    if controls.min_context_tokens < 0:
        ignored.append("min_context_tokens")
    effort = controls.effort.strip().lower()
    if effort and effort != "auto":
        ignored.append("effort")
    return Wishes(
        pack=pack,
        budget=budget,
        budget_fallback=FALLBACK_ALIASES.get(fallback),
        min_context=max(0, controls.min_context_tokens),
        effort=effort == "auto",
        ignored=tuple(ignored),
    )


LOW_CHARS, LOW_TOKENS = 160, 4_000
HIGH_CHARS, HIGH_TOKENS, HIGH_RESULTS = 4_000, 60_000, 6


def adaptive_effort(request: Request, wishes: Wishes) -> str:
    """low, medium or high by what stands up to the last user message; empty when not asked for or already named."""
    if not wishes.effort or request.has_reasoning_params:
        return ""
    chars, tokens = request.last_user_chars, request.context_tokens_to_last_user
    results = request.tool_results_before_last_user
    if chars <= LOW_CHARS and tokens <= LOW_TOKENS and not results:
        return "low"
    if tokens >= HIGH_TOKENS or results >= HIGH_RESULTS or chars >= HIGH_CHARS:
        return "high"
    return "medium"
