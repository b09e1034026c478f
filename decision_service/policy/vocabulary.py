"""Words that a policy is written in."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from decision_service.kernel.routers import ROUTER_ALIASES, ROUTER_STRATEGIES

STRATEGIES = (
    "priority",
    "weighted",
    "round-robin",
    "context-relay",
    "fill-first",
    "p2c",
    "random",
    "least-used",
    "cost-optimized",
    "reset-aware",
    "reset-window",
    "headroom",
    "quota-weighted",
    "strict-random",
    "auto",
    "lkgp",
    "context-optimized",
    "cache-optimized",
    "fusion",
    "pipeline",
)
SEVERAL_CALLS = frozenset({"fusion", "pipeline"})
SINGLE_SHAPE = tuple(name for name in STRATEGIES if name not in SEVERAL_CALLS)
INTERNAL_STRATEGY = "quota-share"

# Name or alias -> name.
ROUTERS: Mapping[str, str] = MappingProxyType({name: name for name in ROUTER_STRATEGIES} | dict(ROUTER_ALIASES))

WINDOWS = ("session", "weekly", "monthly")
TASK_TYPES = ("coding", "review", "planning", "analysis", "debugging", "documentation")
ACCOUNT_TIERS = ("ultra", "pro", "standard", "free")
CAPABILITIES = ("tools", "vision", "audio", "structured_output", "reasoning", "embeddings")
# ``-name``: known not to be there.
CAPABILITY_WORDS = (*CAPABILITIES, *(f"-{name}" for name in CAPABILITIES))
