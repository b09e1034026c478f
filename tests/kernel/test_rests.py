"""Cooldown of a connection, `auth_failed`, and lockout of a model on one: when they begin, grow and end."""

from __future__ import annotations

import pytest

from decision_service.kernel.health import (
    AUTH_BACKOFF,
    MISSING_MODEL_BACKOFF,
    NO_REST,
    OVERLOAD_BACKOFF,
    QUOTA_BACKOFF,
    RATE_LIMIT_BACKOFF,
    Backoff,
    Failure,
    Rest,
    Wait,
    fold_cooldown_success,
    fold_lockout_success,
    fold_wait,
    usable_hint,
)
from decision_service.kernel.model import DAY, HOUR, MINUTE, SECOND, OutcomeClass, ProviderClass, QuotaWindow
from tests.kernel.rig import Rig, combo, roster

NOW = 1_000_000


@pytest.mark.parametrize(
    ("hint_ms", "counts_as"),
    [
        (None, None),
        (0, None),
        (-5, None),
        (1, 1),
        (1_500, 1_500),
        (8 * DAY, 8 * DAY),
        (8 * DAY + 1, HOUR),
        (10**15, HOUR),
    ],
)
def test_a_hint(hint_ms: int | None, counts_as: int | None) -> None:
    assert usable_hint(hint_ms) == counts_as


@pytest.mark.parametrize(
    ("backoff", "rests_s"),
    [
        pytest.param(RATE_LIMIT_BACKOFF[ProviderClass.API_KEY], [3, 6, 12, 24, 48, 96, 96], id="429, api_key"),
        pytest.param(RATE_LIMIT_BACKOFF[ProviderClass.LOCAL], [3, 6, 12, 24, 48, 96, 96], id="429, local"),
        pytest.param(RATE_LIMIT_BACKOFF[ProviderClass.OAUTH], [5, 10, 20, 40, 80, 160, 160], id="429, oauth"),
        pytest.param(AUTH_BACKOFF, [300, 600, 1200, 2400, 3600, 3600], id="401 and 403"),
        pytest.param(OVERLOAD_BACKOFF, [120, 240, 480, 960, 1800, 1800], id="an overloaded model"),
        pytest.param(QUOTA_BACKOFF, [3600, 3600], id="quota"),
        pytest.param(MISSING_MODEL_BACKOFF, [3600, 3600], id="a missing model"),
    ],
)
def test_rests_without_a_hint(backoff: Backoff, rests_s: list[int]) -> None:
    rest, now = NO_REST, NOW
    for n, expected in enumerate(rests_s):
        rest = fold_wait(rest, Failure(Wait.RATE_LIMITED, lease_seq=2 * n, seq=2 * n + 1, now=now), backoff)
        assert rest.until - now == expected * SECOND
        assert rest.active(rest.until - 1)
        assert not rest.active(rest.until), "it is over at its end instant"
        now = rest.until


GROWN = Rest(until=NOW + 10_000, wait=Wait.RATE_LIMITED, step=2, stepped_seq=20, set_seq=20)
BACKOFF = RATE_LIMIT_BACKOFF[ProviderClass.API_KEY]


@pytest.mark.parametrize(
    ("failure", "after"),
    [
        pytest.param(
            Failure(Wait.RATE_LIMITED, lease_seq=21, seq=30, now=NOW),
            Rest(NOW + 12_000, Wait.RATE_LIMITED, step=3, stepped_seq=30, set_seq=30),
            id="a later lease raises k",
        ),
        pytest.param(
            Failure(Wait.RATE_LIMITED, lease_seq=20, seq=30, now=NOW),
            GROWN,
            id="one that began before the last step does not, and the end is not moved earlier",
        ),
        pytest.param(
            Failure(Wait.RATE_LIMITED, lease_seq=20, seq=30, now=NOW + 9_000),
            Rest(NOW + 15_000, Wait.RATE_LIMITED, step=2, stepped_seq=20, set_seq=30),
            id="it repeats that step",
        ),
        pytest.param(
            Failure(Wait.RATE_LIMITED, lease_seq=21, seq=30, now=NOW, hint_ms=60_000),
            Rest(NOW + 60_000, Wait.RATE_LIMITED, step=2, stepped_seq=20, set_seq=30),
            id="a hint sets the end and leaves k",
        ),
        pytest.param(
            Failure(Wait.RATE_LIMITED, lease_seq=21, seq=30, now=NOW, hint_ms=1_000),
            GROWN,
            id="a shorter hint moves nothing",
        ),
        pytest.param(
            Failure(Wait.RATE_LIMITED, lease_seq=21, seq=30, now=NOW - 5_000),
            Rest(NOW + 10_000, Wait.RATE_LIMITED, step=3, stepped_seq=30, set_seq=20),
            id="k rises also where the end stays",
        ),
    ],
)
def test_a_failure_during_a_cooldown(failure: Failure, after: Rest) -> None:
    assert fold_wait(GROWN, failure, BACKOFF) == after


def test_a_success_ends_a_cooldown_only_if_its_lease_began_after_it_was_set() -> None:
    assert fold_cooldown_success(GROWN, lease_seq=21) == NO_REST
    older = fold_cooldown_success(GROWN, lease_seq=20)
    assert (older.until, older.step) == (GROWN.until, 0), "k is reset either way"


def test_a_success_halves_the_count_of_a_lockout() -> None:
    locked = Rest(until=NOW, wait=Wait.OVERLOADED, step=5, stepped_seq=20, set_seq=20)
    assert fold_lockout_success(locked, lease_seq=20).step == 2
    assert fold_lockout_success(locked, lease_seq=20).until == NOW
    ended = fold_lockout_success(locked, lease_seq=21)
    assert (ended.until, ended.step) == (0, 2)
    assert fold_lockout_success(Rest(until=NOW, step=1, set_seq=2), lease_seq=3) == NO_REST


TWO = ("p/m@a", "p/m@b", "p/n@a")


def rig(provider_class: ProviderClass = ProviderClass.API_KEY) -> Rig:
    combos = [combo("priority", [candidate], name=candidate) for candidate in TWO]
    return Rig(roster(TWO, *combos, classes={"p": provider_class}))


OUTCOMES = [
    # class, status, model-scoped, hint: what rests for how long: m on a, n on a (same connection), m on b
    (OutcomeClass.RATE_LIMITED, 429, False, None, 3 * SECOND, 3 * SECOND),
    (OutcomeClass.RATE_LIMITED, 429, False, 7_000, 7_000, 7_000),
    (OutcomeClass.RATE_LIMITED, 429, False, 9 * DAY, HOUR, HOUR),
    (OutcomeClass.RATE_LIMITED, 429, True, None, 120 * SECOND, None),
    (OutcomeClass.RATE_LIMITED, 429, True, 7_000, 7_000, None),
    (OutcomeClass.QUOTA_EXHAUSTED, 402, False, None, HOUR, HOUR),
    (OutcomeClass.QUOTA_EXHAUSTED, 402, False, 2 * DAY, 2 * DAY, 2 * DAY),
    (OutcomeClass.QUOTA_EXHAUSTED, 429, True, None, 120 * SECOND, None),
    (OutcomeClass.AUTH_FAILED, 401, False, None, 5 * MINUTE, 5 * MINUTE),
    (OutcomeClass.AUTH_FAILED, 403, False, 1_000, 5 * MINUTE, 5 * MINUTE),
    (OutcomeClass.MODEL_NOT_FOUND, 404, False, None, HOUR, None),
    (OutcomeClass.MODEL_NOT_FOUND, 404, False, 5_000, HOUR, None),
    (OutcomeClass.OVERLOADED, 503, False, None, 120 * SECOND, None),
    (OutcomeClass.OVERLOADED, 503, False, 4_000, 4_000, None),
    (OutcomeClass.UPSTREAM_ERROR, 529, False, 4_000, 4_000, None),
    (OutcomeClass.UPSTREAM_ERROR, 503, False, 60_000, None, None),
    (OutcomeClass.TIMEOUT, 0, False, 60_000, None, None),
    (OutcomeClass.INVALID_REQUEST, 400, False, 60_000, None, None),
    (OutcomeClass.SUCCESS, 200, False, 60_000, None, None),
]


@pytest.mark.parametrize(("outcome_class", "status", "scoped", "hint", "own", "neighbour"), OUTCOMES)
def test_what_rests_after_an_outcome(
    outcome_class: OutcomeClass, status: int, scoped: bool, hint: int | None, own: int | None, neighbour: int | None
) -> None:
    over = rig()
    over.decide("p/m@a")
    over.report(outcome_class, http_status=status, model_scoped=scoped, retry_after_ms=hint)
    assert over.wait("p/m@a") == own
    assert over.wait("p/n@a") == neighbour
    assert over.wait("p/m@b") is None


@pytest.mark.parametrize(
    ("resets_in", "hint", "rest"),
    [(30 * MINUTE, None, 30 * MINUTE), (30 * MINUTE, 2 * HOUR, 2 * HOUR), (None, None, HOUR), (9 * DAY, None, HOUR)],
)
def test_a_used_up_quota_rests_until_the_reset_that_it_tells(
    resets_in: int | None, hint: int | None, rest: int
) -> None:
    over = rig()
    over.decide("p/m@a")
    reset_at = None if resets_in is None else over.now + resets_in
    told = (QuotaWindow("session", 0.0, reset_at), QuotaWindow("weekly", 0.7, over.now + DAY))
    over.report(OutcomeClass.QUOTA_EXHAUSTED, http_status=402, retry_after_ms=hint, quota=told)
    assert over.state.account("p", "a").cooldown.until - over.now == rest


def test_auth_failed_ends_by_itself_and_grows_again() -> None:
    over = rig()
    waits = []
    for _ in range(5):
        over.decide("p/m@a")
        over.report(OutcomeClass.AUTH_FAILED, http_status=401)
        waits.append(over.wait("p/m@a"))
        over.pass_time(waits[-1] or 0)
    assert waits == [5 * MINUTE, 10 * MINUTE, 20 * MINUTE, 40 * MINUTE, HOUR]
    over.decide("p/m@a")
    over.report()
    over.decide("p/m@a")
    over.report(OutcomeClass.AUTH_FAILED)
    assert over.wait("p/m@a") == 5 * MINUTE, "a success forgot them"


def test_the_failures_of_one_burst_are_one_step() -> None:
    over = rig()
    burst = [over.decide("p/m@a") for _ in range(10)]
    for decision in burst:
        over.report(OutcomeClass.RATE_LIMITED, decision)
    assert over.wait("p/m@a") == 3 * SECOND
    over.pass_time(3 * SECOND)
    over.decide("p/m@a")
    over.report(OutcomeClass.RATE_LIMITED)
    assert over.wait("p/m@a") == 6 * SECOND


def test_a_success_that_was_under_way_does_not_lift_a_cooldown() -> None:
    over = rig()
    first, second = over.decide("p/m@a"), over.decide("p/m@a")
    over.report(OutcomeClass.RATE_LIMITED, first, retry_after_ms=20_000)
    over.report(OutcomeClass.SUCCESS, second)
    assert over.wait("p/m@a") == 20_000


def test_the_later_of_two_rests_decides_and_both_are_named_by_the_first() -> None:
    over = rig()
    first, second = over.decide("p/m@a"), over.decide("p/m@a")
    over.report(OutcomeClass.RATE_LIMITED, first)
    over.report(OutcomeClass.OVERLOADED, second)
    refusal = over.refused("p/m@a")
    (stop,) = refusal.rejected.values()
    assert (stop.filter, stop.reason) == ("cooldown", "rate_limited")
    assert stop.until == refusal.retry_at == over.now + 120 * SECOND
    assert not refusal.rate_limited, "an overload is no rate limit"


def test_the_base_is_by_class() -> None:
    over = rig(ProviderClass.OAUTH)
    for k in range(6):
        over.decide("p/m@a")
        over.report(OutcomeClass.RATE_LIMITED)
        wait = over.wait("p/m@a")
        assert wait == 5 * SECOND << k
        over.pass_time(wait)
