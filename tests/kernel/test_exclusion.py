"""Exclusion of a candidate by its score: when it starts, how long it lasts, and how it ends."""

from __future__ import annotations

from typing import Any

import pytest

from decision_service.kernel.decide import Decision
from decision_service.kernel.health import (
    NOT_EXCLUDED,
    Breaker,
    Exclusion,
    Verdict,
    fold_exclusion,
    readmit,
    start_exclusion,
)
from decision_service.kernel.model import (
    MINUTE,
    SECOND,
    Controls,
    ModelFacts,
    OutcomeClass,
    ProviderClass,
    QuotaWindow,
)
from decision_service.kernel.model import Combo as KernelCombo
from decision_service.kernel.roster import Roster
from decision_service.kernel.statistics import TargetStatistics
from tests.kernel.rig import Rig, combo, ids, roster

NOW = 10**12
GOOD, BAD = "p/good@c", "q/bad@c"


def scored(good: float, bad: float, *others: KernelCombo, **config: Any) -> Roster:
    """Two candidates whose scores are what their models are fit for."""
    config = {"exploration_rate": 0.0, "weights": {"taskFit": 1.0}, **config}
    facts = {GOOD: ModelFacts(fitness={"default": good}), BAD: ModelFacts(fitness={"default": bad}, input_price=2.0)}
    return roster([GOOD, BAD], combo("auto", [GOOD, BAD], **config), *others, facts=facts)


def excluded(decision: Decision) -> list[str]:
    return [candidate for candidate, stop in decision.rejected.items() if stop.filter == "exclusion"]


def rig(good: float = 0.9, bad: float = 0.1, **config: Any) -> Rig:
    return Rig(scored(good, bad, **config))


def rescore(over: Rig, bad: float, **config: Any) -> None:
    over.state.change_roster(scored(0.9, bad, **config))


def exclusion(over: Rig) -> Exclusion:
    return over.state.exclusion("combo", BAD)


def started_rig(bad: float, **config: Any) -> Rig:
    """A first exclusion has just run out, and from now on the candidate scores ``bad``."""
    over = rig(**config)
    over.decide()
    over.report()
    over.pass_time(5 * MINUTE)
    rescore(over, bad, **config)
    return over


# The values


def test_it_lasts_five_minutes_and_doubles_up_to_thirty() -> None:
    held = start_exclusion(NOT_EXCLUDED, NOW)
    lengths = [held.length]
    now = NOW
    for _ in range(4):
        now = held.until
        held = start_exclusion(readmit(held, now), now + 1)
        lengths.append(held.length)
    assert [length // MINUTE for length in lengths] == [5, 10, 20, 30, 30]


def test_thirty_minutes_without_one_are_forgiven() -> None:
    before = readmit(Exclusion(until=NOW, length=20 * MINUTE), NOW)
    assert start_exclusion(before, NOW + 30 * MINUTE - 1).length == 30 * MINUTE
    assert start_exclusion(before, NOW + 30 * MINUTE).length == 5 * MINUTE


@pytest.mark.parametrize(
    ("verdict", "after"),
    [
        (Verdict.SUCCESS, Exclusion(length=10 * MINUTE, ended_at=NOW, exempt_until=NOW + 30 * MINUTE)),
        (Verdict.FAILURE, Exclusion(until=NOW + 20 * MINUTE, length=20 * MINUTE)),
        (Verdict.NEUTRAL, Exclusion(until=NOW, length=10 * MINUTE)),
    ],
)
def test_the_outcome_of_its_probe(verdict: Verdict, after: Exclusion) -> None:
    probed = Exclusion(until=NOW, length=10 * MINUTE, probe="mine", probe_until=NOW + 9)
    assert fold_exclusion(probed, verdict, NOW) == after


def test_a_failed_probe_doubles_to_thirty_minutes_at_most() -> None:
    assert fold_exclusion(Exclusion(until=NOW, length=20 * MINUTE), Verdict.FAILURE, NOW).length == 30 * MINUTE


def test_what_a_new_request_sees() -> None:
    held = Exclusion(until=NOW, length=1)
    assert (held.out(NOW - 1), held.due(NOW - 1)) == (True, False)
    assert (held.out(NOW), held.due(NOW)) == (False, True)
    probed = Exclusion(until=NOW, length=1, probe="x", probe_until=NOW + 5)
    assert (probed.out(NOW + 4), probed.due(NOW + 4)) == (True, False)
    assert (probed.out(NOW + 5), probed.due(NOW + 5)) == (False, True), "a silent probe frees its place"
    assert (NOT_EXCLUDED.out(NOW), NOT_EXCLUDED.due(NOW)) == (False, False)


# In decisions


@pytest.mark.parametrize(("score", "out"), [(0.1999, True), (0.2, False), (0.25, False)])
def test_under_a_fifth_a_candidate_is_out_at_once_and_its_score_is_still_shown(score: float, out: bool) -> None:
    over = rig(bad=score)
    decision = over.decide()
    assert excluded(decision) == ([BAD] if out else [])
    assert ids(decision) == ([GOOD] if out else [GOOD, BAD])
    assert decision.draft.scores[BAD] == pytest.approx(score)
    assert exclusion(over).until == (over.now + 5 * MINUTE if out else 0)
    if out:
        assert decision.rejected[BAD].until == over.now + 5 * MINUTE


def test_while_it_lasts_a_better_score_does_not_help() -> None:
    over = rig()
    over.decide()
    rescore(over, 0.95)
    over.pass_time(5 * MINUTE - 1)
    decision = over.decide()
    assert ids(decision) == [GOOD]
    assert decision.rejected[BAD].until == over.now + 1
    over.pass_time(1)
    assert ids(over.decide()) == [BAD, GOOD]


def test_if_nobody_scores_better_all_stay_and_none_is_excluded() -> None:
    over = rig(good=0.1, bad=0.05)
    assert ids(over.decide()) == [GOOD, BAD]
    assert not over.state.exclusions


def test_if_only_excluded_ones_are_left_they_stay_best_first() -> None:
    over = rig()
    over.decide()
    over.state.exclusions["combo", GOOD] = Exclusion(until=over.now + MINUTE, length=MINUTE)
    rescore(over, 0.95)
    decision = over.decide()
    assert ids(decision) == [BAD, GOOD]
    assert not excluded(decision)


def test_an_exclusion_gates_its_own_scope_only() -> None:
    other = combo("auto", [GOOD, BAD], name="other", exploration_rate=0.0, weights={"quota": 1.0})
    over = Rig(scored(0.9, 0.1, other))
    over.decide()
    assert ids(over.decide("other")) == [GOOD, BAD]
    assert ids(over.decide("combo")) == [GOOD]


SPARE = "q/bad@d"
DOWN = ("x/m@c", "y/m@c", "z/m@c")


def everything_against_the_bad_one() -> Rig:
    """Slow, unsteady, unreliable, dear, nearly used up and busy; but the stored weights read none of that."""
    facts = {candidate: ModelFacts(input_price=2.0, fitness={"default": 0.0}) for candidate in (BAD, SPARE)}
    policy = combo("auto", [GOOD, BAD, SPARE, *DOWN], exploration_rate=0.0, weights={"contextAffinity": 1.0})
    over = Rig(
        roster(
            [GOOD, BAD, SPARE, *DOWN],
            policy,
            facts=facts,
            classes={"q": ProviderClass.OAUTH},
            connections={"c": {"account_tier": "free"}},
        )
    )
    account = over.state.account("q", "c")
    account.sessions_fixed = 10**6
    account.in_flight = 5
    account.quota["session"] = QuotaWindow("session", 0.001)
    worst = {"p95_ms": 1e6, "latency_std_ms": 1e6, "quality": 0.0, "failure_rate": 1.0}
    over.state.target("q", "c", "bad").statistics = TargetStatistics(worst)
    over.state.provider("q").breaker = Breaker(open=True, openings=1, open_until=over.now)
    return over


def test_a_score_under_a_mode_puts_out_of_this_decision_and_starts_nothing() -> None:
    over = everything_against_the_bad_one()
    assert ids(over.ask()) == [GOOD, BAD, SPARE, *DOWN], "under the stored weights it is as good as any"
    decision = over.decide(controls=Controls(mode="cheap"))
    assert decision.draft.scores[BAD] < 0.2
    assert excluded(decision) == [BAD]
    assert decision.rejected[BAD].until is None
    assert not over.state.exclusions


def test_a_score_in_an_incident_puts_out_of_this_decision_and_starts_nothing() -> None:
    over = everything_against_the_bad_one()
    for candidate in DOWN:
        over.state.provider(candidate[0]).breaker = Breaker(open=True, openings=1, open_until=over.now + 1)
    decision = over.decide()
    assert decision.incident
    assert decision.draft.scores[BAD] < 0.2
    assert excluded(decision) == [BAD]
    assert not over.state.exclusions


# At its end


def test_a_good_score_readmits_without_a_probe() -> None:
    over = started_rig(0.3, target_timeout_ms=120 * SECOND, router_strategy="score")
    rescore(over, 0.95)
    decision = over.decide()
    assert ids(decision)[0] == BAD
    assert not decision.probe, "it was re-admitted by its score"
    assert decision.timeouts[0] == 120 * SECOND
    assert exclusion(over) == Exclusion(length=5 * MINUTE, ended_at=over.now)


def test_three_tenths_are_good_enough_and_less_is_not() -> None:
    over = started_rig(0.3)
    over.decide()
    assert exclusion(over).until == 0
    over = started_rig(0.29)
    over.decide()
    assert exclusion(over).due(over.now)


@pytest.mark.parametrize("score", [0.05, 0.25])
def test_a_poor_score_leaves_it_in_its_place_with_a_short_time_out(score: float) -> None:
    over = started_rig(score)
    decision = over.decide()
    assert ids(decision) == [GOOD, BAD]
    assert (decision.probe, list(decision.timeouts)) == (False, [120 * SECOND, 30 * SECOND])
    assert not excluded(decision)


@pytest.mark.parametrize(("timeout", "reduced"), [(120_000, 30_000), (16_000, 5_000), (4_000, 4_000)])
def test_the_time_out_of_a_probe(timeout: int, reduced: int) -> None:
    assert started_rig(0.25, target_timeout_ms=timeout).ask().timeouts[1] == reduced


def probing_rig(**config: Any) -> tuple[Rig, Decision]:
    """A decision whose fallback has just begun to probe the excluded candidate."""
    over = started_rig(0.25, **config)
    decision = over.decide()
    over.report(OutcomeClass.INVALID_REQUEST, decision)
    assert exclusion(over).probe == "1"
    return over, decision


def test_the_first_attempt_that_reaches_it_is_the_probe_and_others_see_it_excluded() -> None:
    over, _ = probing_rig()
    second = over.decide()
    assert excluded(second) == [BAD]
    assert second.rejected[BAD].until == over.now + 60 * SECOND, "its own time-out and 30 s"


@pytest.mark.parametrize(
    ("outcome_class", "after"),
    [
        (OutcomeClass.SUCCESS, "in"),
        (OutcomeClass.UPSTREAM_ERROR, "out"),
        (OutcomeClass.RATE_LIMITED, "out"),
        (OutcomeClass.TIMEOUT, "out"),
        (OutcomeClass.CLIENT_CANCELLED, "due"),
        (OutcomeClass.CONTENT_POLICY, "due"),
        (OutcomeClass.LOCAL_CANCELLED, "due"),
    ],
)
def test_how_a_probe_ends(outcome_class: OutcomeClass, after: str) -> None:
    over, decision = probing_rig()
    over.report(outcome_class, decision, attempt=2)
    held = exclusion(over)
    assert held.probe == ""
    if after == "in":
        assert held.exempt_until == over.now + 30 * MINUTE
    elif after == "out":
        assert (held.length, held.until) == (10 * MINUTE, over.now + 10 * MINUTE)
    else:
        assert held.due(over.now)


def test_after_a_good_probe_the_check_is_off_for_thirty_minutes() -> None:
    over, decision = probing_rig()
    over.report(OutcomeClass.SUCCESS, decision, attempt=2)
    rescore(over, 0.05)
    assert not excluded(over.decide())
    over.pass_time(30 * MINUTE - 1)
    assert not excluded(over.decide())
    over.pass_time(1)
    assert excluded(over.decide()) == [BAD]
    assert exclusion(over).length == 5 * MINUTE


def test_a_probe_that_never_reports_frees_its_place() -> None:
    over, _ = probing_rig()
    over.pass_time(60 * SECOND)
    assert exclusion(over).due(over.now)


def test_after_its_permit_lapsed_a_probe_is_none() -> None:
    over, decision = probing_rig()
    over.pass_time(60 * SECOND)
    over.report(OutcomeClass.SUCCESS, decision, attempt=2)
    assert exclusion(over).due(over.now)
    assert exclusion(over).probe == ""


def test_a_time_out_that_was_cut_short_counts_for_the_exclusion_alone() -> None:
    over, decision = probing_rig()
    over.report(OutcomeClass.TIMEOUT, decision, attempt=2)
    assert over.state.provider("q").breaker.failures == 0
    assert over.state.target("q", "c", "bad").statistics.error_rate is None


def test_a_time_out_that_was_not_cut_short_counts_as_any() -> None:
    over, decision = probing_rig(target_timeout_ms=5_000)
    over.report(OutcomeClass.TIMEOUT, decision, attempt=2)
    assert over.state.provider("q").breaker.failures == 1
    assert over.state.target("q", "c", "bad").statistics.error_rate == 1.0


def test_a_second_call_that_was_cut_short_without_being_the_probe_is_held_against_nobody() -> None:
    over = started_rig(0.25)
    first, second = over.decide(), over.decide()
    for decision in (first, second):
        over.report(OutcomeClass.INVALID_REQUEST, decision)
    over.report(OutcomeClass.TIMEOUT, second, attempt=2)
    assert exclusion(over).probe == "1", "the first one's"
    assert over.state.provider("q").breaker.failures == 0


def test_any_other_failure_of_a_probe_counts_in_full() -> None:
    over, decision = probing_rig()
    over.report(OutcomeClass.UPSTREAM_ERROR, decision, attempt=2)
    assert over.state.provider("q").breaker.failures == 1


def test_of_a_fan_out_each_member_probes_its_own_exclusion() -> None:
    three = ["p/m@a", "q/m@b", "r/m@c"]
    over = Rig(roster(three))
    for candidate in three[:2]:
        over.state.exclusions["auto/chaos", candidate] = Exclusion(until=over.now, length=5 * MINUTE)
    over.decide("auto/chaos")
    held = [over.state.exclusion("auto/chaos", candidate) for candidate in three[:2]]
    over.report(OutcomeClass.SUCCESS, attempt=1, place=0)
    after = [over.state.exclusion("auto/chaos", candidate) for candidate in three[:2]]
    assert [exclusion.probe for exclusion in held] == ["0", "0"]
    assert after[0].until == 0
    assert after[1] == held[1], "the end of one is not the end of the other"
