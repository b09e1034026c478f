"""What is kept ready between decisions follows every change: warm answers are those of a state that keeps nothing.

Two more requests are in flight on the account throughout, so that no change hides behind the end of the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from decision_service.kernel.model import (
    DAY,
    HOUR,
    MINUTE,
    ModelFacts,
    OutcomeClass,
    ProviderClass,
    QuotaWindow,
)
from decision_service.kernel.scoring import breakdown, scene_of
from tests.kernel.rig import Rig, combo, ids, roster

THREE = ["p/m@a", "p/m@b", "q/m@c"]
WEIGHTS = dict.fromkeys(
    ("quota", "health", "latencyInv", "stability", "sessionAvailability", "connectionDensity", "quality"), 1.0
) | {"resetWindowAffinity": 1.0, "reliability": 1.0}


def rig() -> Rig:
    policy = combo("auto", THREE, exploration_rate=0.0, weights=WEIGHTS, router_strategy="score")
    return Rig(
        roster(
            THREE,
            policy,
            combo("priority", THREE, name="busy"),
            classes={"p": ProviderClass.OAUTH, "q": ProviderClass.LOCAL},
            facts={c: ModelFacts(context_window=1_000) for c in THREE},
        )
    )


def told(over: Rig) -> dict[str, Any]:
    """The answer now, all of it that depends on what is kept."""
    decision = over.ask(session_id="mine", input_tokens=10)
    return {
        "chain": ids(decision),
        "scores": decision.draft.scores,
        "factors": decision.factors(),
        "rejected": dict(decision.rejected),
        "incident": decision.incident,
        "probe": decision.probe,
    }


def report(outcome_class: OutcomeClass, **outcome: Any) -> Callable[[Rig], None]:
    def change(over: Rig) -> None:
        over.report(outcome_class, over.decisions[0], **{"latency_ms": 700, "output_tokens": 1, **outcome})

    return change


def fail_all(over: Rig) -> None:
    """The provider of the account fails until its breaker opens."""
    for _ in range(8):
        over.decide("busy")
        over.report(OutcomeClass.UPSTREAM_ERROR, final=True)


def later(change: Callable[[Rig], object], ms: int) -> Callable[[Rig], None]:
    def both(over: Rig) -> None:
        change(over)
        told(over)
        over.pass_time(ms)

    return both


def learn(over: Rig) -> None:
    for latency in range(100, 1_300, 100):
        over.decide("busy")
        over.report(latency_ms=latency, output_tokens=1)


def quota(*windows: QuotaWindow) -> Callable[[Rig], None]:
    return report(OutcomeClass.CONTENT_POLICY, quota=windows)


def low_quota(over: Rig) -> None:
    quota(QuotaWindow("session", 0.3, over.now + MINUTE))(over)


def reached(over: Rig) -> None:
    quota(QuotaWindow("session", 0.0))(over)


CHANGES: dict[str, Callable[[Rig], object]] = {
    "a success": report(OutcomeClass.SUCCESS),
    "a failure": report(OutcomeClass.UPSTREAM_ERROR),
    "an odd answer": report(OutcomeClass.MALFORMED),
    "latency that is trusted": learn,
    "a day": later(learn, DAY),
    "a cooldown": report(OutcomeClass.RATE_LIMITED),
    "the end of a cooldown": later(report(OutcomeClass.RATE_LIMITED), MINUTE),
    "a refused credential": report(OutcomeClass.AUTH_FAILED),
    "a lockout": report(OutcomeClass.OVERLOADED),
    "the end of a lockout": later(report(OutcomeClass.OVERLOADED), 2 * MINUTE),
    "an open breaker": fail_all,
    "a rested breaker": later(fail_all, MINUTE),
    "less quota": low_quota,
    "a quota window that starts anew": later(low_quota, MINUTE),
    "a reached limit": reached,
    "a reached limit that is believed no longer": later(reached, HOUR),
    "one more in flight": lambda over: over.decide("busy", session_id="other"),
    "the first in flight elsewhere": lambda over: over.report(OutcomeClass.CONTENT_POLICY),
    "the end of all leases": lambda over: over.pass_time(HOUR),
    "the end of a session": later(lambda over: over.decide("busy", session_id="other"), 10 * MINUTE),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_kept_follows(change: str) -> None:
    over = rig()
    for _ in range(3):
        over.decide("busy")
    before = told(over)
    CHANGES[change](over)
    warm = told(over)
    over.state._pools.clear()
    assert warm == told(over)
    assert warm != before, "the change shows"


@pytest.mark.parametrize("change", CHANGES)
def test_kept_factors_are_those_of_the_long_way(change: str) -> None:
    over = rig()
    for _ in range(3):
        over.decide("busy")
    told(over)
    CHANGES[change](over)
    for hint in (None, 5.0, 90.0):
        decision = over.ask(session_id="mine", input_tokens=10, specificity=hint, prompt_cache_key="prefix")
        draft, scene = decision.draft, scene_of(decision.ask, decision.draft)
        assert draft.sheet is not None
        rows = zip(*decision.factors().values(), strict=True)
        for member, row in zip(draft.scored, rows, strict=True):
            assert list(row) == pytest.approx(list(breakdown(member, scene).values()), abs=1e-12), member.id


def test_more_changes_than_are_kept_are_none_lost() -> None:
    over = rig()
    told(over)
    for _ in range(5_000):
        over.state.log.note(over.state.provider("q"))
    over.state.account("p", "a").quota = {"weekly": QuotaWindow("weekly", 0.1)}
    for _ in range(5_000):
        over.state.log.note(over.state.provider("q"))
    warm = told(over)
    over.state._pools.clear()
    assert warm == told(over)
    assert warm["chain"][0] != "p/m@a"
