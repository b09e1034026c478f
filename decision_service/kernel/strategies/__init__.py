"""The table of strategies, in documentation order.

A strategy takes the available units in pool order, never none, and answers the same units in the order of the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from decision_service.kernel.draft import Ask, Draft
from decision_service.kernel.pool import Unit
from decision_service.kernel.strategies.auto import auto, lkgp
from decision_service.kernel.strategies.drawn import quota_share, quota_weighted, random, strict_random
from decision_service.kernel.strategies.fixed import cache_optimized, context_relay, fill_first, priority
from decision_service.kernel.strategies.measured import context_optimized, cost_optimized, least_used, p2c
from decision_service.kernel.strategies.quota import headroom, reset_aware, reset_window
from decision_service.kernel.strategies.rotation import round_robin, weighted

Strategy = Callable[[list[Unit], Ask, Draft], list[Unit]]

# `fusion` and `pipeline` are plan shapes: see ``shapes``. The last row is chosen by a combo's `quotaShare` alone.
STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "priority": priority,
        "weighted": weighted,
        "round-robin": round_robin,
        "context-relay": context_relay,
        "fill-first": fill_first,
        "p2c": p2c,
        "random": random,
        "least-used": least_used,
        "cost-optimized": cost_optimized,
        "reset-aware": reset_aware,
        "reset-window": reset_window,
        "headroom": headroom,
        "quota-weighted": quota_weighted,
        "strict-random": strict_random,
        "auto": auto,
        "lkgp": lkgp,
        "context-optimized": context_optimized,
        "cache-optimized": cache_optimized,
        "quota-share": quota_share,
    }
)
