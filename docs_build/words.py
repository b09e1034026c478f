"""What the tables of the code do not say themselves: what a strategy is for, what a config key means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

ALL = ("all",)


@dataclass(frozen=True, slots=True)
class Use:
    """What a strategy does, and what it is for."""

    does: str
    good_for: str


STRATEGIES: Mapping[str, Use] = MappingProxyType(
    {
        "priority": Use("as declared", "one preferred model, others for when it is away"),
        "weighted": Use(
            "one draw by weight, the rest by weight, heaviest first",
            "a split of traffic, such as nine in ten to the cheap model",
        ),
        "round-robin": Use(
            "in rotation, in batches of successes", "equal accounts; a batch keeps an account's prompt cache warm"
        ),
        "context-relay": Use(
            "as declared; a summary goes along when a conversation moves to another account",
            "long conversations on accounts with a quota",
        ),
        "fill-first": Use(
            "as declared; a target is left only when its quota is used up or it is unavailable",
            "using one subscription to its end before the next is touched",
        ),
        "p2c": Use(
            "two are drawn, the better one goes first, the rest as declared",
            "many alike targets: avoids the worst without sending everything to the best",
        ),
        "random": Use("shuffled", "spreading load with no state at all"),
        "least-used": Use(
            "fewest calls in flight, then fewest in the last minute", "servers of equal strength under load"
        ),
        "cost-optimized": Use(
            "cheapest first for this very request, unknown prices last", "batch work where any of the models will do"
        ),
        "reset-aware": Use(
            "best mix of quota left and time to its reset; those within 0.05 of the best take turns",
            "subscriptions with a session window and a weekly one",
        ),
        "reset-window": Use(
            "earliest quota reset first; those within a minute of it take turns",
            "quota whose rest is lost at its reset",
        ),
        "headroom": Use("most quota left first", "no account should run dry while others are full"),
        "quota-weighted": Use(
            "drawn by quota left per call in flight; conversations stay where they are",
            "many accounts, each used as much as it has left",
        ),
        "strict-random": Use(
            "drawn anew for each request over the steps as listed, or dealt from a deck",
            "shares by repetition, or an even deal",
        ),
        "auto": Use("the pick of its [router strategy](#the-strategy-auto), the rest by score", "“choose for me”"),
        "lkgp": Use("the last known good first, then by score", "staying with what works"),
        "context-optimized": Use(
            "the smallest window that fits first", "keeping large windows free for who needs them"
        ),
        "cache-optimized": Use(
            "by the prompt's cache key: the same prefix goes to the same connection",
            "long system prompts on many accounts",
        ),
        "fusion": Use("no order: the panel answers at once, then a judge", "questions that are worth a second opinion"),
        "pipeline": Use(
            "no order: one step after the other, each on the text of the one before", "draft, criticise, write"
        ),
    }
)

# Policies that are no strategies: what they are called, what they do, what they are for, their transcript.
OTHERS = (
    (
        "`quotaShare: true` in any combo but fusion and pipeline",
        "each step gets its share by weight, exact to one request",
        "dividing traffic by contract",
        "strategy-quota-share",
    ),
    (
        "`agenticOrchestration.enabled: true` in a combo of two steps or more",
        "the first step plans and writes, the others call the tools",
        "agents with tools",
        "shape-agentic",
    ),
    (
        "the channel `auto/chaos`",
        "one model of each provider at once, all answers shown",
        "comparing models",
        "shape-fanout",
    ),
)

ROUTERS: Mapping[str, Use] = MappingProxyType(
    {
        "rules": Use("the highest score; equals take turns", "nearly always: it is the default"),
        "score": Use("the highest score; of equals the first", "the same pick for the same state, without turns"),
        "cost": Use("the lowest price", "saving, whatever the score"),
        "latency": Use("the lowest p95, with errors counted in", "speed, whatever the score"),
        "sla-aware": Use("the best by the targets `sla...`", "promises of latency, errors and price"),
        "lkgp": Use("the last known good, else as `rules`", "staying with what works; channels pick so"),
        "nadir": Use(
            "what the remote router Nadir chooses for the prompt, if it answers in time; else as `rules`, and the "
            "reason says why",
            "a choice by what the prompt says",
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Key:
    """What a config key means and which strategies read it. ``unset`` says what holds while it is not given."""

    means: str
    read_by: tuple[str, ...] = ALL
    unset: str = ""


# By field of the kernel's ComboConfig.
KEYS: Mapping[str, Key] = MappingProxyType(
    {
        "router_strategy": Key("how `auto` picks", ("auto",)),
        "weights": Key(
            "weights of the factors; divided by their sum, and what is not named counts 0",
            ("auto", "lkgp"),
            "the pack's",
        ),
        "candidate_pool": Key("keeps these providers only", ("auto",), "all"),
        "mode_pack": Key("a weight pack, in the place of weights", ("auto", "lkgp"), "none"),
        "budget_cap": Key("the most that a request may cost, USD", ("auto",), "none"),
        "budget_fallback": Key("when all cost more: the cheapest first, or a refusal", ("auto",)),
        "exploration_rate": Key("part of the requests whose first target is drawn at random", ("auto",)),
        "sla.p95_ms": Key("target of `sla-aware`: p95, ms", ("auto",)),
        "sla.max_error_rate": Key("target of `sla-aware`: errors", ("auto",)),
        "sla.max_cost": Key("target of `sla-aware`: USD per 1M tokens", ("auto",), "none"),
        "sla.hard": Key("keeping the targets of `sla-aware` goes before merit", ("auto",)),
        "nadir_api_key": Key("for `nadir`; encrypted and never shown", ("auto",), "the service's"),
        "nadir_base_url": Key("for `nadir`", ("auto",), "the service's"),
        "nadir_timeout_ms": Key("for `nadir`: longest wait, ms", ("auto",)),
        "lkgp_enabled": Key("remembers and uses the last known good", ("auto",)),
        "lkgp_scope": Key("whom it is remembered for: the combo, or a conversation", ("auto", "lkgp")),
        "sticky_round_robin_limit": Key("successes in a batch", ("round-robin",)),
        "sticky_weighted_limit": Key("successes for which a drawn step is kept", ("weighted",)),
        "connection_aware_expansion": Key("makes every account a target of its own"),
        "disable_session_stickiness": Key("conversations are not followed"),
        "strict_random_deck": Key("deals every step once a cycle", ("strict-random",)),
        "quota_share": Key("shares the requests by weight instead"),
        "quota_weighted_floor_percent": Key(
            "accounts with less quota left come last, %", ("quota-weighted", "quota-share")
        ),
        "reset_window_windows": Key("the windows whose reset counts", ("reset-window",)),
        "reset_window_include_session": Key("adds the session window to them", ("reset-window",), "false"),
        "handoff_threshold": Key("part of the quota from whose use on a summary is made; 0: never", ("context-relay",)),
        "handoff_model": Key("makes the summary", ("context-relay",), "the serving model"),
        "judge_model": Key("judges", ("fusion",), "the first of the panel"),
        "fusion.min_panel": Key("answers from which on stragglers get their grace", ("fusion",)),
        "fusion.straggler_grace_ms": Key("how long they get, ms", ("fusion",)),
        "fusion.panel_hard_timeout_ms": Key("longest time of a panel, ms", ("fusion",)),
        "agentic_enabled": Key("planner and executors instead"),
        "max_tool_rounds": Key("of an agentic plan"),
        "complexity_aware_routing": Key("derives a specificity from the prompt", ("auto",)),
        "target_timeout_ms": Key("of one attempt, ms"),
        "max_attempts": Key("attempts of one request"),
        "max_retries": Key("attempts more at the same target"),
        "max_concurrent": Key("live calls of a step before it goes last; 0: no limit"),
        "min_context_window": Key("smallest window, tokens", ALL, "none"),
    }
)

SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "hidePaidModels": "drops every model that is not known to be free",
        "comboStickyRoundRobinLimit": "successes in a batch of `round-robin`",
        "stickyRoundRobinLimit": "the same, where the one above is unset",
        "connectionAwareExpansion": "in the place of the combos' key where it is not given",
        "disableSessionStickiness": "in the place of the combos' key where it is not given",
        "promptCacheAffinityEnabled": "requests with the same prompt prefix go to the same connection",
        "comboRefMaxDepth": "references between combos in a row",
    }
)
