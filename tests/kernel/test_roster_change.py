"""Another roster while requests are under way: what is still there goes on, what is gone is let go."""

from __future__ import annotations

from dataclasses import replace

from decision_service.kernel.health import Exclusion
from decision_service.kernel.model import MINUTE, ModelFacts, OutcomeClass, Settings
from tests.kernel.rig import Rig, combo, ids, roster

TWO = ["p/m@a", "q/m@b"]
ERROR = OutcomeClass.UPSTREAM_ERROR


def rig() -> Rig:
    return Rig(roster(TWO, combo("priority", TWO)))


def test_a_new_connection_is_in_the_next_decision() -> None:
    over = rig()
    assert ids(over.decide("auto", seed=1)) == TWO
    over.state.change_roster(roster([*TWO, "a/m@c"]))
    assert sorted(ids(over.decide("auto"))) == ["a/m@c", *TWO]


def test_a_change_of_what_is_known_counts_from_the_next_decision() -> None:
    over = rig()
    assert len(ids(over.ask())) == 2
    over.state.change_roster(roster(TWO, combo("priority", TWO), facts={TWO[0]: ModelFacts(hidden=True)}))
    assert ids(over.ask()) == TWO[1:]
    over.state.change_roster(replace(over.state.roster, settings=Settings(hide_paid_models=True)))
    assert over.refused().reason == "POLICY_EXCLUDES_ALL"


def test_a_policy_that_is_gone_is_unknown_and_one_that_is_new_is_known() -> None:
    over = rig()
    over.decide()
    over.state.change_roster(roster(TWO, combo("priority", TWO[::-1], name="new")))
    assert over.refused().reason == "MODEL_NOT_FOUND"
    assert ids(over.decide("new")) == TWO[::-1]


def test_records_of_what_stays_go_on() -> None:
    over = rig()
    over.decide()
    over.report(OutcomeClass.RATE_LIMITED, retry_after_ms=60_000)
    over.state.exclusions["auto", TWO[1]] = Exclusion(until=over.now + MINUTE, length=MINUTE)
    over.state.change_roster(roster(TWO, combo("priority", TWO), facts={TWO[0]: ModelFacts(input_price=1.0)}))
    assert over.state.account("p", "a").cooldown.until == over.now + 60_000
    assert ids(over.ask("auto")) == [TWO[1]]


def test_leases_outlive_the_change() -> None:
    over = rig()
    old = over.decide()
    over.state.change_roster(roster(TWO, combo("priority", TWO[::-1])))
    assert over.in_flight("p", "a") == 1
    over.report(ERROR, old)
    assert (over.in_flight("p", "a"), over.in_flight("q", "b")) == (0, 1)
    over.report(OutcomeClass.SUCCESS, old, attempt=2)
    assert over.in_flight("q", "b") == 0
    assert over.state.step_leases == {}


def test_a_connection_that_is_gone_keeps_its_record_while_a_plan_names_it() -> None:
    over = rig()
    old = over.decide()
    over.state.change_roster(roster(TWO[1:], combo("priority", TWO[1:])))
    assert over.in_flight("p", "a") == 1
    over.report(ERROR, old)
    assert over.in_flight("q", "b") == 1
    over.report(OutcomeClass.SUCCESS, old, attempt=2)
    over.state.change_roster(roster(TWO[1:], combo("priority", TWO[1:])))
    assert ("p", "a") not in over.state.accounts
    assert ("p", "a", "m") not in over.state.targets
    assert ("q", "b", "m") in over.state.targets


def test_a_fallback_to_a_connection_that_came_back_counts_on_its_record() -> None:
    over = rig()
    old = over.decide()
    over.state.change_roster(roster(TWO[:1], combo("priority", TWO[:1])))
    over.state.change_roster(roster(TWO, combo("priority", TWO)))
    over.report(ERROR, old)
    assert over.in_flight("q", "b") == 1
    over.pass_time(old.lease_ms)
    assert over.in_flight("q", "b") == 0


def test_an_outcome_for_what_is_gone_is_taken_and_forgotten() -> None:
    over = rig()
    old = over.decide()
    over.state.change_roster(roster(TWO[1:], combo("priority", TWO[1:])))
    over.report(ERROR, old, final=True)
    assert over.ticket(old).over
    over.state.change_roster(over.state.roster)
    assert set(over.state.accounts) == {("q", "b")}
