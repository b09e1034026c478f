"""Leases: what is in flight, where it stands, and how it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from decision_service.kernel.health import Breaker
from decision_service.kernel.model import (
    DAY,
    MINUTE,
    SECOND,
    Outcome,
    OutcomeClass,
    ProviderClass,
    QuotaWindow,
    Refused,
)
from decision_service.kernel.observe import Reception, observe, observe_unknown
from tests.kernel.rig import Rig, combo, ids, reference, roster, step

THREE = ["p/m@a", "q/m@b", "r/m@c"]
PLACES = (("p", "a"), ("q", "b"), ("r", "c"))
ERROR, SUCCESS = OutcomeClass.UPSTREAM_ERROR, OutcomeClass.SUCCESS


def rig() -> Rig:
    return Rig(roster(THREE, combo("priority", THREE)))


def flying(over: Rig) -> list[int]:
    return [over.in_flight(*place) for place in PLACES]


def test_a_decision_leases_its_first_call_and_only_that() -> None:
    over = rig()
    over.decide()
    assert flying(over) == [1, 0, 0]
    over.decide()
    assert flying(over) == [2, 0, 0]


def test_asking_leases_nothing() -> None:
    over = rig()
    over.ask()
    assert flying(over) == [0, 0, 0]


def test_a_failure_moves_the_lease_to_the_next_and_a_success_ends_it() -> None:
    over = rig()
    over.decide()
    over.report(ERROR)
    assert flying(over) == [0, 1, 0]
    over.report(ERROR, attempt=2)
    assert flying(over) == [0, 0, 1]
    over.report(SUCCESS, attempt=3)
    assert flying(over) == [0, 0, 0]
    assert over.ticket().over


def test_a_failure_of_the_last_ends_the_decision() -> None:
    over = rig()
    over.decide()
    for attempt in (1, 2, 3):
        over.report(ERROR, attempt=attempt)
    assert flying(over) == [0, 0, 0]
    assert over.ticket().over


@pytest.mark.parametrize(
    ("outcome_class", "final", "over_after"),
    [
        (SUCCESS, False, True),  # a success is always final
        (SUCCESS, True, True),
        (ERROR, True, True),
        (ERROR, False, False),
        (OutcomeClass.CLIENT_CANCELLED, False, True),
        (OutcomeClass.LOCAL_CANCELLED, False, False),
        (OutcomeClass.INVALID_REQUEST, False, False),
        (OutcomeClass.CONTENT_POLICY, True, True),
    ],
)
def test_what_ends_a_decision(outcome_class: OutcomeClass, final: bool, over_after: bool) -> None:
    over = rig()
    over.decide()
    over.report(outcome_class, final=final)
    assert over.ticket().over == over_after
    assert sum(flying(over)) == (0 if over_after else 1)


@pytest.mark.parametrize(("following", "places"), [(0, [1, 0, 0]), (1, [0, 1, 0]), (2, [0, 0, 1])])
def test_the_outcome_says_where_the_lease_goes(following: int, places: list[int]) -> None:
    over = rig()
    over.decide()
    over.report(ERROR, following=following)
    assert flying(over) == places


def test_a_retry_of_the_last_target_keeps_the_decision_alive() -> None:
    over = rig()
    over.decide()
    over.report(ERROR, following=2)
    over.report(ERROR, attempt=2, place=2, following=2)
    assert flying(over) == [0, 0, 1]


def test_the_same_outcome_twice_counts_once() -> None:
    over = rig()
    over.decide()
    assert over.report(ERROR) is Reception.ACCEPTED
    assert over.report(ERROR) is Reception.DUPLICATE
    assert over.report(SUCCESS) is Reception.DUPLICATE, "whatever it says the second time"
    assert over.state.provider("p").breaker.failures == 1
    assert flying(over) == [0, 1, 0]


def test_an_earlier_attempt_that_arrives_late_moves_no_lease() -> None:
    over = rig()
    over.decide()
    over.report(ERROR, attempt=2)
    assert flying(over) == [0, 0, 1]
    over.report(ERROR, attempt=1)
    assert flying(over) == [0, 0, 1]
    assert over.state.provider("p").breaker.failures == 1, "it still counts"


def test_an_earlier_attempt_that_arrives_late_does_not_end_a_retry_of_the_same_target() -> None:
    over = rig()
    over.decide()
    over.report(ERROR, attempt=2, place=1, following=0)
    assert flying(over) == [1, 0, 0]
    over.report(ERROR, attempt=1, place=0)
    assert flying(over) == [1, 0, 0]
    over.report(SUCCESS, attempt=3, place=0)
    assert flying(over) == [0, 0, 0]


def test_the_hint_less_failure_of_an_earlier_attempt_does_not_grow_the_rest_of_a_later_one() -> None:
    over = rig()
    first, second = over.decide(), over.decide()
    over.report(OutcomeClass.RATE_LIMITED, second)  # k rises to 1
    over.report(ERROR, first, attempt=2, place=1, following=0)  # a new call on the cooling connection
    over.report(OutcomeClass.RATE_LIMITED, first, attempt=1, place=0)  # which began before it cooled
    assert over.state.account("p", "a").cooldown.step == 1


def test_an_outcome_for_a_decision_that_is_over_is_counted_and_leases_nothing() -> None:
    over = rig()
    over.decide()
    over.report(SUCCESS, attempt=2)
    over.report(ERROR, attempt=1)
    assert flying(over) == [0, 0, 0]
    assert over.state.provider("p").breaker.failures == 1


@pytest.mark.parametrize("target", ["", "0", "4", "x", "p/m@a", "-1", "1.0"])
def test_a_target_that_is_not_in_the_plan_is_refused_and_nothing_changes(target: str) -> None:
    over = rig()
    over.decide()
    seq = over.state.seq
    with pytest.raises(Refused) as refused:
        observe(over.state, Outcome("0", 1, target, ERROR, over.now), over.now)
    assert (refused.value.reason, refused.value.field) == ("INVALID_FIELD", "target_id")
    assert over.state.seq == seq
    assert over.report(ERROR) is Reception.ACCEPTED


def test_a_next_target_that_is_not_in_the_plan_is_refused_by_its_own_name() -> None:
    over = rig()
    over.decide()
    outcome = Outcome("0", 1, "1", ERROR, over.now, next_target_id="9")
    with pytest.raises(Refused) as refused:
        observe(over.state, outcome, over.now)
    assert refused.value.field == "next_target_id"
    assert "9" in refused.value.message
    assert flying(over) == [1, 0, 0]


# Expiry


def test_a_decision_lives_its_deadline_and_thirty_seconds() -> None:
    over = rig()
    assert over.decide().lease_ms == 3 * 120 * SECOND + 30 * SECOND
    over = Rig(roster(THREE, combo("priority", THREE, target_timeout_ms=250 * SECOND)))
    assert over.decide().lease_ms == 600 * SECOND + 30 * SECOND


def test_at_its_end_everything_is_free_and_nobody_is_blamed() -> None:
    over = rig()
    decision = over.decide()
    over.report(ERROR)
    assert over.pass_time(decision.lease_ms - 1) == 0
    assert flying(over) == [0, 1, 0]
    assert over.pass_time(1) == 1
    assert flying(over) == [0, 0, 0]
    assert over.ticket().abandoned
    assert over.state.provider("q").breaker == Breaker()
    assert over.state.target("q", "b", "m").statistics.error_rate is None


def test_an_outcome_after_the_end_counts_for_statistics_alone() -> None:
    over = rig()
    decision = over.decide()
    over.pass_time(decision.lease_ms)
    assert over.report(ERROR, retry_after_ms=1_000) is Reception.ACCEPTED
    assert over.report(OutcomeClass.RATE_LIMITED, attempt=2) is Reception.ACCEPTED
    assert over.state.target("p", "a", "m").statistics.error_rate == 1.0
    assert over.state.provider("p").breaker == Breaker()
    assert over.wait() is None
    assert not over.state.account("q", "b").cooldown.active(over.now)
    assert flying(over) == [0, 0, 0]


def test_an_ended_decision_is_not_abandoned() -> None:
    over = rig()
    over.decide()
    over.report()
    assert over.pass_time(DAY) == 0


# Sessions


def test_a_session_is_leased_on_an_oauth_connection_for_ten_minutes() -> None:
    over = Rig(roster(["p/m@a"], combo("priority", ["p/m@a"]), classes={"p": ProviderClass.OAUTH}))
    account = over.state.account("p", "a")
    over.decide(session_id="one")
    over.pass_time(5 * MINUTE)
    over.decide(session_id="two")
    over.decide(session_id="two")
    over.decide()
    assert account.live_sessions("", over.now) == 2
    assert account.live_sessions("one", over.now) == 1
    over.pass_time(5 * MINUTE)
    assert account.live_sessions("", over.now) == 1
    over.pass_time(5 * MINUTE)
    assert account.live_sessions("", over.now) == 0


def test_other_connections_know_no_sessions() -> None:
    over = rig()
    over.decide(session_id="one")
    assert over.state.account("p", "a").live_sessions("", over.now) == 0


# Limits of a step


def test_a_step_at_its_limit_goes_to_the_tail_and_is_not_refused() -> None:
    steps = [step("p/m@a", max_concurrent=2), step("q/m@b"), step("r/m@c", max_concurrent=1)]
    over = Rig(roster(THREE, combo("priority", steps)))
    assert [ids(over.decide())[0] for _ in range(4)] == ["p/m@a", "p/m@a", "q/m@b", "q/m@b"]
    assert ids(over.ask()) == ["q/m@b", "r/m@c", "p/m@a"]
    over.report(SUCCESS, over.decisions[0])
    assert ids(over.ask())[0] == "p/m@a"


def test_the_combos_limit_is_the_default_and_zero_is_none() -> None:
    steps = [step("p/m@a"), step("q/m@b", max_concurrent=0), step("r/m@c")]
    over = Rig(roster(THREE, combo("priority", steps, max_concurrent=1)))
    assert [ids(over.decide())[0] for _ in range(3)] == ["p/m@a", "q/m@b", "q/m@b"]


def test_where_all_are_at_their_limit_the_order_stays() -> None:
    over = Rig(roster(THREE, combo("priority", THREE, max_concurrent=1)))
    for _ in range(3):
        over.decide()
    assert ids(over.ask()) == THREE


def test_the_limit_of_a_dynamic_step_counts_all_its_connections() -> None:
    accounts = ["p/m@a", "p/m@b", "q/m@c"]
    over = Rig(roster(accounts, combo("priority", [step("p/m", max_concurrent=2), step("q/m@c")])))
    assert [ids(over.decide())[0] for _ in range(3)] == ["p/m@a", "p/m@b", "q/m@c"]


def test_each_candidate_of_a_pool_without_steps_has_a_limit_of_its_own() -> None:
    over = Rig(roster(THREE, combo("auto", [], max_concurrent=1, exploration_rate=0.0, router_strategy="score")))
    assert [ids(over.decide())[0] for _ in range(3)] == THREE


def test_step_leases_move_with_the_lease_and_are_gone_at_the_end() -> None:
    over = Rig(roster(THREE, combo("priority", [reference("inner")]), combo("priority", THREE, name="inner")))
    over.decide()
    over.report(ERROR)
    assert over.state.step_leases == {("combo", "ref-inner.q/m@b"): 1}
    over.report(SUCCESS, attempt=2)
    assert over.state.step_leases == {}


# Of decisions that this state never made


def test_an_outcome_of_an_unknown_decision_is_told_so() -> None:
    over = rig()
    assert observe(over.state, Outcome("elsewhere", 1, "1", SUCCESS, over.now), over.now) is Reception.UNKNOWN


def test_an_outcome_of_an_unknown_decision_counts_and_moves_no_machine() -> None:
    over = rig()
    told = Outcome(
        "elsewhere",
        1,
        "1",
        OutcomeClass.RATE_LIMITED,
        over.now,
        provider="p",
        connection="a",
        model="m",
        retry_after_ms=9_000,
        quota=(QuotaWindow("weekly", 0.25),),
    )
    observe_unknown(over.state, told, over.now)
    for _ in range(20):
        observe_unknown(over.state, replace(told, outcome_class=ERROR), over.now)
    observe_unknown(over.state, replace(told, connection="nobody"), over.now)
    account = over.state.account("p", "a")
    assert account.remaining(over.now) == 0.25
    assert over.state.target("p", "a", "m").statistics.error_rate is not None
    assert not account.cooldown.active(over.now)
    assert over.state.provider("p").breaker == Breaker()
    assert over.state.touched == {("statistics", "p\0a\0m"), ("quota", "p\0a")}
    assert set(over.state.accounts) == {("p", "a")}


# Quota that outcomes tell of


def test_of_one_window_the_newer_word_wins() -> None:
    over = rig()
    over.decide()
    account = over.state.account("p", "a")
    over.report(ERROR, quota=(QuotaWindow("weekly", 0.5), QuotaWindow("session", 0.9)))
    over.report(ERROR, attempt=2, place=0, quota=(QuotaWindow("weekly", 0.8),), at=over.now - 1)
    assert account.remaining(over.now) == 0.5
    over.report(ERROR, attempt=3, place=0, quota=(QuotaWindow("weekly", 0.4),), at=over.now)
    assert account.remaining(over.now) == 0.4


def test_a_word_from_the_future_does_not_silence_those_that_follow() -> None:
    over = rig()
    over.decide()
    over.report(ERROR, quota=(QuotaWindow("weekly", 0.5),), at=over.now + 400 * DAY)
    over.pass_time(1)
    over.report(ERROR, attempt=2, place=0, quota=(QuotaWindow("weekly", 0.3),))
    assert over.state.account("p", "a").remaining(over.now) == 0.3
