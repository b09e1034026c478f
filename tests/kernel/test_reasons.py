"""The reason of a decision says why its first target is the first, in the same few words wherever that is so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from decision_service.kernel.decide import Decision
from decision_service.kernel.model import Controls, ModelFacts, OutcomeClass, QuotaWindow
from decision_service.kernel.recall import Good
from tests.kernel.rig import COMBO, Rig, combo, roster, step

TWO = ["p/m@a", "q/m@b"]
PRICED = {c: ModelFacts(input_price=price, context_window=8_000) for c, price in zip(TWO, (2.0, 1.0), strict=True)}


def asked(strategy: str, steps: list[Any] | None = None, **config: Any) -> Callable[[], Decision]:
    return lambda: Rig(roster(TWO, combo(strategy, steps or TWO, **config))).ask()


def priced(strategy: str, **request: Any) -> Callable[[], Decision]:
    return lambda: Rig(roster(TWO, combo(strategy, TWO), facts=PRICED)).ask(**request)


def served(strategy: str, kind: OutcomeClass = OutcomeClass.SUCCESS, **config: Any) -> Callable[[], Decision]:
    """After one outcome of the first target, in the same conversation."""

    def decide() -> Decision:
        over = Rig(roster(TWO, combo(strategy, TWO, **config)))
        over.decide(session_id="s", session_explicit=True)
        over.report(kind, retry_after_ms=1_000)
        return over.ask(session_id="s", session_explicit=True)

    return decide


def moved_away() -> Decision:
    """The last known good is locked; its provider has another model."""
    over = Rig(roster([*TWO, "p/other@a"], combo("lkgp", [*TWO, "p/other@a"])))
    over.decide()
    over.report(OutcomeClass.MODEL_NOT_FOUND)
    over.state.goods.put((COMBO,), Good(TWO[0], "p", "m", 0, None))
    return over.ask()


def busy() -> Decision:
    over = Rig(roster(TWO, combo("priority", [step(TWO[0], max_concurrent=1), TWO[1]])))
    over.decide()
    return over.ask()


def resets_known() -> Decision:
    over = Rig(roster(TWO, combo("reset-window", TWO)))
    over.state.account("p", "a").quota = {"weekly": QuotaWindow("weekly", 0.5, over.now + 1_000)}
    return over.ask()


CASES: dict[str, Callable[[], Decision]] = {
    "first available in order": asked("priority"),
    "first available in order, the busy ones last": busy,
    "first available in order: no cache key": asked("cache-optimized"),
    "first available in order: no price is known": asked("cost-optimized"),
    "first available in order: no window is known": asked("context-optimized"),
    "first by the prompt's cache key": priced("cache-optimized", prompt_cache_key="k"),
    "cheapest for this request": priced("cost-optimized"),
    "cheapest: all are over the budget": priced("auto", controls=Controls(budget_usd=1e-9)),
    "smallest window that fits": priced("context-optimized"),
    "the only one available": asked("p2c", TWO[:1]),
    "better of two drawn": asked("p2c"),
    "drawn at random": asked("random"),
    "drawn by weight": asked("weighted"),
    "drawn before and kept": served("weighted", sticky_weighted_limit=3, disable_session_stickiness=True),
    "drawn from the deck": asked("strict-random", strict_random_deck=True),
    "drawn from the steps as listed": asked("strict-random"),
    "explored: drawn at random": asked("auto", exploration_rate=1.0),
    "next in rotation": asked("round-robin"),
    "serving its batch": served("round-robin", disable_session_stickiness=True),
    "next by its share": asked("priority", quota_share=True),
    "earliest quota reset": resets_known,
    "no quota reset is known, shared by 2 in turn": asked("reset-window"),
    "best by quota left and time to its reset, shared by 2 in turn": asked("reset-aware"),
    "most quota left": asked("headroom"),
    "highest score, shared by 2 in turn": asked("auto", exploration_rate=0.0),
    "highest score": asked("lkgp", TWO[:1]),
    "last known good": served("lkgp", disable_session_stickiness=True),
    "same provider as the last known good": moved_away,
    "served this conversation before": served("least-used"),
    "a panel of 2, then a judge": asked("fusion"),
    "a panel of one: it answers directly": asked("fusion", TWO[:1]),
    "2 steps in order": asked("pipeline"),
    "no tools: the planner answers alone": asked("priority", agentic_enabled=True),
}


@pytest.mark.parametrize("reason", CASES)
def test_the_reason_says_why(reason: str) -> None:
    assert CASES[reason]().draft.reason == reason
