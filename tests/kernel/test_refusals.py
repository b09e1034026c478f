"""The three ways in which a pool may come out empty, and when to come back."""

from __future__ import annotations

import pytest

from decision_service.kernel.health import Breaker, Rest, Wait
from decision_service.kernel.model import (
    HOUR,
    Controls,
    KeyPolicy,
    ModelFacts,
    Override,
    QuotaWindow,
    Settings,
)
from tests.kernel.rig import Rig, combo, roster

TWO = ["p/m@a", "q/m@b"]
BLIND = ModelFacts(lacks=frozenset({"vision", "tools"}), context_window=1_000)
SMALL = ModelFacts(has=frozenset({"vision"}), context_window=100)


def rig(facts: dict[str, ModelFacts] | None = None) -> Rig:
    return Rig(roster(TWO, combo("priority", TWO), facts=facts))


# Incapable, whatever is available


def test_nobody_can_do_it() -> None:
    refusal = rig(dict.fromkeys(TWO, BLIND)).refused(needs_vision=True)
    assert (refusal.reason, refusal.retry_at, refusal.rate_limited) == ("CAPABILITY_MISMATCH", None, False)
    assert "vision" in refusal.message
    assert set(refusal.rejected) == set(TWO)


def test_the_window_alone_is_to_blame() -> None:
    over = rig(dict.fromkeys(TWO, SMALL))
    assert over.refused(input_tokens=101).reason == "CONTEXT_LENGTH_EXCEEDED"
    assert over.refused(input_tokens=60, max_output_tokens=41).reason == "CONTEXT_LENGTH_EXCEEDED"


def test_the_window_is_not_alone_to_blame() -> None:
    over = rig({TWO[0]: BLIND, TWO[1]: SMALL})
    assert over.refused(needs_vision=True, input_tokens=101).reason == "CAPABILITY_MISMATCH"


def test_a_minimum_context_is_named_as_the_client_wrote_it() -> None:
    refusal = rig(dict.fromkeys(TWO, SMALL)).refused(controls=Controls(min_context_tokens=101))
    assert refusal.reason == "CONTEXT_LENGTH_EXCEEDED"
    assert "X-OmniRoute-Min-Context" in refusal.message


def test_a_minimum_may_be_the_combos() -> None:
    over = Rig(roster(TWO, combo("priority", TWO, min_context_window=101), facts=dict.fromkeys(TWO, SMALL)))
    refusal = over.refused(controls=Controls(min_context_tokens=5))
    assert refusal.reason == "CONTEXT_LENGTH_EXCEEDED"
    assert "minContextWindow" in refusal.message
    assert "101" in refusal.message


def test_a_mixed_incapability_tells_of_each() -> None:
    refusal = rig({TWO[0]: BLIND, TWO[1]: SMALL}).refused(needs_vision=True, controls=Controls(min_context_tokens=101))
    assert refusal.reason == "CAPABILITY_MISMATCH"
    assert "lacks vision" in refusal.message


def test_who_is_incapable_and_unavailable_counts_as_incapable() -> None:
    over = rig(dict.fromkeys(TWO, BLIND))
    over.state.provider("p").breaker = Breaker(open=True, open_until=over.now + 5)
    refusal = over.refused(needs_vision=True)
    assert refusal.reason == "CAPABILITY_MISMATCH"
    assert refusal.rejected[TWO[0]].filter == "breaker", "it is listed under the first gate"


# Unavailable


def test_a_capable_one_is_merely_unavailable() -> None:
    over = rig({TWO[0]: BLIND})
    over.state.account("q", "b").cooldown = Rest(over.now + 7_000, Wait.RATE_LIMITED)
    refusal = over.refused(has_tools=True)
    assert (refusal.reason, refusal.rate_limited) == ("NO_AVAILABLE_TARGET", True)
    assert refusal.retry_at == over.now + 7_000


def test_come_back_at_the_earliest_recovery_of_a_capable_one() -> None:
    over = rig()
    over.state.provider("p").breaker = Breaker(open=True, open_until=over.now + 9_000)
    over.state.account("q", "b").cooldown = Rest(over.now + 7_000, Wait.RATE_LIMITED)
    assert over.refused().retry_at == over.now + 7_000
    over.state.change_roster(roster(TWO, combo("priority", TWO), facts={TWO[1]: BLIND}))
    assert over.refused(has_tools=True).retry_at == over.now + 9_000, "the other could not do it anyway"


def test_the_recovery_of_one_is_its_latest_end() -> None:
    over = rig()
    for provider, connection in (("p", "a"), ("q", "b")):
        over.state.provider(provider).breaker = Breaker(open=True, open_until=over.now + 5_000)
        over.state.account(provider, connection).cooldown = Rest(over.now + 8_000, Wait.RATE_LIMITED)
    assert over.refused().retry_at == over.now + 8_000


def test_a_probe_in_flight_counts_until_its_lease_ends() -> None:
    over = rig()
    over.state.provider("p").breaker = Breaker(open=True, probe="x", probe_until=over.now + 90_000)
    over.state.provider("q").breaker = Breaker(open=True, open_until=over.now + 100_000)
    assert over.refused().retry_at == over.now + 90_000


@pytest.mark.parametrize("other_limit", [True, False])
def test_it_is_a_rate_limit_only_if_every_reason_is_one(other_limit: bool) -> None:
    over = rig()
    over.state.account("p", "a").quota["weekly"] = QuotaWindow("weekly", 0.0, over.now + HOUR, limit_reached=True)
    wait = Wait.RATE_LIMITED if other_limit else Wait.AUTH_FAILED
    over.state.account("q", "b").cooldown = Rest(over.now + 1, wait)
    assert over.refused().rate_limited == other_limit


def test_a_recovery_that_nobody_knows_gives_no_time() -> None:
    over = Rig(roster(TWO, combo("priority", TWO), connections={"a": {"enabled": False}, "b": {"usable": False}}))
    refusal = over.refused()
    assert (refusal.reason, refusal.retry_at) == ("NO_AVAILABLE_TARGET", None)


def test_nothing_is_configured() -> None:
    assert Rig(roster([])).refused("auto").reason == "NO_AVAILABLE_TARGET"


# Policy

POLICIES = [
    ("hidden", {"facts": dict.fromkeys(TWO, ModelFacts(hidden=True))}),
    ("paid", {"settings": Settings(hide_paid_models=True)}),
    ("key_models", {"keys": {"k": KeyPolicy("k", allowed_models=("other-*",))}}),
    ("key_connections", {"keys": {"k": KeyPolicy("k", allowed_connections=frozenset({"z"}))}}),
    ("override", {"overrides": {("k", "auto"): Override(excluded=frozenset(TWO))}}),
]


@pytest.mark.parametrize(("rule", "roster_parts"), POLICIES, ids=[name for name, _ in POLICIES])
def test_a_policy_never_opens(rule: str, roster_parts: dict[str, object]) -> None:
    over = Rig(roster(TWO, **roster_parts))  # type: ignore[arg-type]
    refusal = over.refused("auto", api_key_id="k")
    assert refusal.reason == "POLICY_EXCLUDES_ALL"
    assert rule in refusal.message
    assert {stop.filter for stop in refusal.rejected.values()} == {rule}


def test_two_rules_that_empty_it_together_are_both_named() -> None:
    facts = {TWO[0]: ModelFacts(hidden=True)}
    keys = {"k": KeyPolicy("k", allowed_connections=frozenset({"a"}))}
    refusal = Rig(roster(TWO, facts=facts, keys=keys)).refused("auto", api_key_id="k")
    assert "hidden" in refusal.message
    assert "key_connections" in refusal.message


def test_what_policy_leaves_and_is_unavailable_is_unavailable() -> None:
    over = Rig(roster(TWO, overrides={("k", "auto"): Override(excluded=frozenset(TWO[:1]))}))
    over.state.provider("q").breaker = Breaker(open=True, open_until=over.now + 5)
    assert over.refused("auto", api_key_id="k").reason == "NO_AVAILABLE_TARGET"


# Budget


def test_a_strict_budget_names_the_cap_and_the_cheapest_estimate() -> None:
    facts = {TWO[0]: ModelFacts(input_price=5.0), TWO[1]: ModelFacts(input_price=2.0)}
    over = Rig(roster(TWO, combo("auto", TWO), facts=facts))
    refusal = over.refused(
        input_tokens=900_000, max_output_tokens=100_000, controls=Controls(budget_usd=1.5, budget_fallback="strict")
    )
    assert refusal.reason == "BUDGET_EXCEEDED"
    assert "1.5" in refusal.message
    assert "2 USD" in refusal.message
