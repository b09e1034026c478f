"""The breaker of a provider: a table of (phase, verdict), and rests that grow."""

from __future__ import annotations

import pytest

from decision_service.kernel.health import (
    BREAKER_LIMITS,
    Breaker,
    BreakerLimits,
    Phase,
    Verdict,
    fold_breaker,
    grant_probe,
    rest_multiplier,
    withdraw_probe,
)
from decision_service.kernel.model import OutcomeClass, ProviderClass
from tests.kernel.rig import START, Rig, combo, roster

LIMITS = BreakerLimits(failures=3, reset_ms=1_000)
NOW = 50_000
OPEN = Breaker(open=True, openings=1, generation=4, open_until=NOW + 10, moved_seq=7)
RESTED = Breaker(open=True, openings=1, generation=4, open_until=NOW, moved_seq=7)
PROBED = grant_probe(RESTED, "mine", NOW + 100)


def fold(breaker: Breaker, verdict: Verdict, decision: str = "mine") -> Breaker:
    return fold_breaker(breaker, verdict, decision, NOW, LIMITS, seq=9)


@pytest.mark.parametrize(
    ("provider_class", "failures", "reset_ms"),
    [(ProviderClass.OAUTH, 8, 60_000), (ProviderClass.API_KEY, 12, 30_000), (ProviderClass.LOCAL, 2, 15_000)],
)
def test_limits_by_class(provider_class: ProviderClass, failures: int, reset_ms: int) -> None:
    assert BREAKER_LIMITS[provider_class] == BreakerLimits(failures, reset_ms)


REOPENED = Breaker(open=True, openings=2, generation=5, open_until=NOW + 1_000, moved_seq=9)
CLOSED_AGAIN = Breaker(generation=5, moved_seq=9)
TABLE = [
    ("closed, clean", Breaker(), Verdict.SUCCESS, Breaker()),
    ("closed, clean", Breaker(), Verdict.FAILURE, Breaker(failures=1)),
    ("closed, clean", Breaker(), Verdict.NEUTRAL, Breaker()),
    ("closed, two failures", Breaker(failures=2), Verdict.SUCCESS, Breaker(failures=1)),
    ("closed, two failures", Breaker(failures=2), Verdict.NEUTRAL, Breaker(failures=2)),
    (
        "closed, two failures",
        Breaker(failures=2),
        Verdict.FAILURE,
        Breaker(open=True, openings=1, generation=1, open_until=NOW + 1_000, moved_seq=9),
    ),
    ("open", OPEN, Verdict.SUCCESS, OPEN),
    ("open", OPEN, Verdict.FAILURE, OPEN),
    ("open", OPEN, Verdict.NEUTRAL, OPEN),
    ("half open, its probe", PROBED, Verdict.SUCCESS, CLOSED_AGAIN),
    ("half open, its probe", PROBED, Verdict.FAILURE, REOPENED),
    ("half open, its probe", PROBED, Verdict.NEUTRAL, RESTED),
    ("half open, permit free", RESTED, Verdict.SUCCESS, CLOSED_AGAIN),
    ("half open, permit free", RESTED, Verdict.FAILURE, REOPENED),
    ("half open, permit free", RESTED, Verdict.NEUTRAL, RESTED),
]


@pytest.mark.parametrize(("phase", "before", "verdict", "after"), TABLE, ids=[f"{t[0]} + {t[2]}" for t in TABLE])
def test_one_outcome(phase: str, before: Breaker, verdict: Verdict, after: Breaker) -> None:
    assert fold(before, verdict) == after


@pytest.mark.parametrize("verdict", Verdict)
def test_beside_a_running_probe_nobody_else_moves_it(verdict: Verdict) -> None:
    assert fold(PROBED, verdict, "another") == PROBED


def test_what_a_new_request_sees() -> None:
    assert Breaker().phase(NOW) is Phase.CLOSED
    assert OPEN.phase(NOW) is Phase.OPEN
    assert OPEN.phase(NOW + 9) is Phase.OPEN
    assert OPEN.phase(NOW + 10) is Phase.HALF_OPEN
    assert PROBED.phase(NOW + 99) is Phase.OPEN
    assert PROBED.phase(NOW + 100) is Phase.HALF_OPEN


def test_when_it_recovers() -> None:
    assert OPEN.recovers_at(NOW) == NOW + 10
    assert PROBED.recovers_at(NOW) == NOW + 100


def test_only_the_holder_gives_the_permit_back() -> None:
    assert withdraw_probe(PROBED, "mine") == RESTED
    assert withdraw_probe(PROBED, "another") is PROBED


@pytest.mark.parametrize(
    ("openings", "times"), [(1, 1), (2, 1), (3, 1), (4, 2), (5, 4), (6, 8), (7, 16), (8, 16), (99, 16)]
)
def test_rests_grow_with_the_openings_since_the_last_close(openings: int, times: int) -> None:
    assert rest_multiplier(openings) == times


def local_rig() -> Rig:
    return Rig(roster(["p/m@c"], combo("priority", ["p/m@c"]), classes={"p": ProviderClass.LOCAL}))


def fail_once(rig: Rig) -> None:
    rig.decide()
    rig.report(OutcomeClass.UPSTREAM_ERROR, http_status=500)


def test_a_provider_that_never_recovers_rests_longer_and_longer_and_a_success_forgets_it_all() -> None:
    rig = local_rig()
    fail_once(rig)
    rests = []
    for _ in range(8):
        fail_once(rig)
        retry_at = rig.refused().retry_at
        assert retry_at is not None
        rests.append((retry_at - rig.now) // 15_000)
        rig.pass_time(retry_at - rig.now)
    assert rests == [1, 1, 1, 2, 4, 8, 16, 16]
    assert rig.decide().probe
    rig.report()
    assert not rig.decide().probe
    rig.report()
    fail_once(rig)
    fail_once(rig)
    assert rig.refused().retry_at == rig.now + 15_000


def test_a_success_takes_one_failure_off() -> None:
    rig = local_rig()
    for _ in range(5):
        fail_once(rig)
        rig.decide()
        rig.report()
    assert not rig.state.provider("p").breaker.open
    fail_once(rig)
    fail_once(rig)
    assert rig.state.provider("p").breaker.open


def test_two_see_one_half_open_breaker_and_only_the_first_gets_through() -> None:
    rig = opened_rig()
    assert rig.decide().probe
    refusal = rig.refused()
    assert (refusal.reason, refusal.rate_limited) == ("NO_AVAILABLE_TARGET", False)
    assert refusal.retry_at == rig.now + 150_000  # the probe's lease: 120 s and 30 s


def opened_rig() -> Rig:
    rig = local_rig()
    fail_once(rig)
    fail_once(rig)
    rig.pass_time(15_000)
    return rig


@pytest.mark.parametrize(
    "outcome_class", [OutcomeClass.RATE_LIMITED, OutcomeClass.INVALID_REQUEST, OutcomeClass.CLIENT_CANCELLED]
)
def test_a_probe_that_ends_uncounted_gives_its_permit_back(outcome_class: OutcomeClass) -> None:
    rig = opened_rig()
    rig.decide()
    rig.report(outcome_class)
    breaker = rig.state.provider("p").breaker
    assert (breaker.open, breaker.probe, breaker.openings) == (True, "", 1)
    rig.pass_time(3_000)
    assert rig.decide().probe


def test_outcomes_of_calls_that_began_before_it_opened_move_nothing() -> None:
    rig = local_rig()
    old = [rig.decide() for _ in range(6)]
    for decision in old[:2]:
        rig.report(OutcomeClass.TIMEOUT, decision)
    opened = rig.state.provider("p").breaker
    assert opened.open
    rig.report(OutcomeClass.TIMEOUT, old[2])
    rig.pass_time(15_000)
    rig.report(OutcomeClass.SUCCESS, old[3])
    rig.report(OutcomeClass.TIMEOUT, old[4])
    assert rig.state.provider("p").breaker == opened
    rig.decide()
    rig.report()
    rig.report(OutcomeClass.TIMEOUT, old[5])
    assert rig.state.provider("p").breaker.failures == 0


def test_after_its_permit_lapsed_a_probe_is_none() -> None:
    rig = opened_rig()
    # Two targets to wait for, so that the decision outlives the permit of its first call.
    rig.state.change_roster(
        roster(["p/m@c", "q/m@c"], combo("priority", ["p/m@c", "q/m@c"]), classes={"p": ProviderClass.LOCAL})
    )
    late = rig.decide()
    rig.pass_time(150_000)
    assert not rig.ticket(late).over
    before = rig.state.provider("p").breaker
    rig.report(OutcomeClass.SUCCESS, late)
    assert rig.state.provider("p").breaker.open
    assert rig.state.provider("p").breaker.openings == before.openings
    assert rig.state.target("p", "c", "m").statistics.p95_ms is not None, "it counts for statistics"
    assert rig.decide().probe


def test_a_late_probe_does_not_take_its_successors_place() -> None:
    rig = opened_rig()
    rig.state.change_roster(
        roster(["p/m@c", "q/m@c"], combo("priority", ["p/m@c", "q/m@c"]), classes={"p": ProviderClass.LOCAL})
    )
    late = rig.decide()
    rig.pass_time(150_000)
    second = rig.decide()
    assert second.probe
    rig.report(OutcomeClass.TIMEOUT, late)
    assert rig.state.provider("p").breaker.probe == "3"
    rig.report(OutcomeClass.SUCCESS, second)
    assert not rig.state.provider("p").breaker.open


def test_a_fallback_on_a_half_open_target_is_its_probe_if_the_permit_is_free_when_it_ends() -> None:
    two = roster(["q/m@c", "p/m@c"], combo("priority", ["q/m@c", "p/m@c"]), classes={"p": ProviderClass.LOCAL})
    for taken in (False, True):
        rig = opened_rig()
        rig.state.change_roster(two)
        fallback = rig.decide()
        rig.report(OutcomeClass.TIMEOUT, fallback)
        assert rig.in_flight("p", "c") == 1
        if taken:
            rig.state.provider("p").breaker = grant_probe(rig.state.provider("p").breaker, "other", rig.now + 9_000)
        rig.report(OutcomeClass.SUCCESS, fallback, attempt=2)
        assert rig.state.provider("p").breaker.open == taken


def test_the_clock_alone_moves_no_generation() -> None:
    rig = opened_rig()
    generation = rig.state.provider("p").breaker.generation
    rig.pass_time(10**9)
    assert rig.state.provider("p").breaker.generation == generation
    assert rig.now == START + 15_000 + 10**9


def test_of_a_panel_only_the_member_that_holds_the_permit_is_the_probe() -> None:
    panel = ["p/m@a", "p/m@b", "q/m@c"]
    over = Rig(roster(panel, combo("fusion", panel), classes={"p": ProviderClass.LOCAL}))
    over.state.provider("p").breaker = Breaker(open=True, openings=1, open_until=over.now)
    over.decide()
    assert over.state.provider("p").breaker.probe == "0"
    over.report(OutcomeClass.SUCCESS, attempt=2, place=1)
    assert over.state.provider("p").breaker.probe == "0", "the other member's end is not the probe's"
    assert over.state.provider("p").breaker.open
    over.report(OutcomeClass.SUCCESS, attempt=1, place=0)
    assert not over.state.provider("p").breaker.open
