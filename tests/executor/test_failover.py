"""The next step, as a table: what has happened on the left, what follows on the right."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.failover import RetrySame, Step, Stop, TryNext, Why, next_step, slice_ms
from executor.model import MAX_ATTEMPTS, Attempt, Failure, OutcomeClass, RetryRules, Target

C = OutcomeClass
RULES = RetryRules()


def chain(*windows: int) -> list[Target]:
    return [Target(f"t{n}", "p", "m", "c", "http://x", context_window=window) for n, window in enumerate(windows)]


def failed(place: int = 0, outcome_class: OutcomeClass = C.UPSTREAM_ERROR, **fields: object) -> Attempt:
    defaults: dict[str, object] = {"retryable": outcome_class in (C.UPSTREAM_ERROR, C.RATE_LIMITED, C.OVERLOADED)}
    failure = Failure(outcome_class, "text", 502, **{**defaults, **fields})  # type: ignore[arg-type]
    return Attempt(1, place, chain(0, 0, 0)[place], outcome_class, 1, 0.0, failure=failure)


def overflowed(place: int, targets: list[Target]) -> Attempt:
    return replace(failed(place, C.CONTEXT_TOO_LONG), target=targets[place])


SUCCEEDED = Attempt(1, 0, chain(0)[0], C.SUCCESS, 1, 0.0)
TWO, THREE = chain(0, 0), chain(0, 0, 0)

STEPS: dict[str, tuple[list[Target], list[Attempt], float, Step]] = {
    "start": (TWO, [], 1000, TryNext(0)),
    "start after the deadline": (TWO, [], 0, Stop(Why.DEADLINE)),
    "success": (TWO, [SUCCEEDED], 1000, Stop(Why.SERVED)),
    "success after the deadline": (TWO, [SUCCEEDED], -5, Stop(Why.SERVED)),
    "broken after its first byte": (TWO, [replace(failed(), committed=True)], 1000, Stop(Why.SERVED)),
    "returned": (TWO, [failed(outcome_class=C.INVALID_REQUEST, returned=True)], 1000, Stop(Why.RETURNED)),
    "other 4xx": (TWO, [failed(outcome_class=C.INVALID_REQUEST)], 1000, TryNext(1)),
    "500": (TWO, [failed()], 1000, TryNext(1)),
    "auth": (TWO, [failed(outcome_class=C.AUTH_FAILED)], 1000, TryNext(1)),
    "deadline": (TWO, [failed()], 0, Stop(Why.DEADLINE)),
    "short hint": (TWO, [failed(retry_after_ms=2000)], 5000, RetrySame(0, 2000)),
    "no wait at all": (TWO, [failed(retry_after_ms=0)], 5000, RetrySame(0, 0)),
    "long hint": (TWO, [failed(retry_after_ms=2001)], 5000, TryNext(1)),
    "short hint past the deadline": (TWO, [failed(retry_after_ms=1500)], 1000, TryNext(1)),
    "short hint on a class that is not retried": (
        TWO,
        [failed(outcome_class=C.AUTH_FAILED, retry_after_ms=5)],
        1000,
        TryNext(1),
    ),
    "short hint, retried already": (TWO, [failed(retry_after_ms=5), failed(retry_after_ms=5)], 1000, TryNext(1)),
    "last": (TWO, [failed(0), failed(1)], 1000, RetrySame(1, 500)),
    "last, not retried": (TWO, [failed(0), failed(1, C.NETWORK)], 1000, Stop(Why.EXHAUSTED)),
    "last, long hint": (TWO, [failed(0), failed(1, retry_after_ms=9000)], 99_000, Stop(Why.EXHAUSTED)),
    "last, retried": (TWO, [failed(0), failed(1), failed(1)], 1000, Stop(Why.EXHAUSTED)),
    "last, no time to wait": (TWO, [failed(0), failed(1)], 400, Stop(Why.EXHAUSTED)),
    "the cap": (TWO, [failed(0)] * MAX_ATTEMPTS, 1000, Stop(Why.ATTEMPTS)),
    "overflow, larger": (w := chain(8, 4, 9), [overflowed(0, w)], 1000, TryNext(2)),
    "overflow, unknown": (w := chain(8, 0, 9), [overflowed(0, w)], 1000, TryNext(1)),
    "overflow of an unknown window": (w := chain(0, 8), [overflowed(0, w)], 1000, TryNext(1)),
    "overflow, none larger": (w := chain(8, 8, 4), [overflowed(0, w)], 1000, Stop(Why.RETURNED)),
    "overflow, last": (w := chain(4, 8), [overflowed(0, w), overflowed(1, w)], 1000, Stop(Why.RETURNED)),
}


@pytest.mark.parametrize("name", STEPS)
def test_next_step(name: str) -> None:
    targets, attempts, left_ms, expected = STEPS[name]
    assert next_step(targets, attempts, RULES, left_ms) == expected


def test_a_chain_does_not_start_when_others_have_used_the_attempts() -> None:
    assert next_step(TWO, [], RetryRules(max_attempts=0), 1000) == Stop(Why.ATTEMPTS)
    assert next_step(TWO, [], RetryRules(max_attempts=-3), 1000) == Stop(Why.ATTEMPTS)
    assert next_step(TWO, [failed()], RetryRules(max_attempts=1), 1000) == Stop(Why.ATTEMPTS)


@given(
    st.integers(1, 5),
    st.integers(1, 40),
    st.integers(0, 5),
    st.lists(
        st.tuples(st.sampled_from(list(C)), st.none() | st.integers(0, 3000), st.booleans()), min_size=250, max_size=250
    ),
)
def test_a_walk_always_ends_and_never_goes_back(
    length: int, most: int, retries: int, faults: list[tuple[OutcomeClass, int | None, bool]]
) -> None:
    targets, rules = chain(*[0] * length), RetryRules(most, retries)
    attempts: list[Attempt] = []
    for outcome_class, hint, retryable in faults:
        step = next_step(targets, attempts, rules, 1e9)
        if isinstance(step, Stop):
            break
        assert not attempts or step.place >= attempts[-1].place
        made = failed(0, outcome_class, retry_after_ms=hint, retryable=retryable)
        attempts.append(replace(made, place=step.place, target=targets[step.place]))
    else:
        pytest.fail("the walk did not end")
    assert len(attempts) <= min(most, MAX_ATTEMPTS)
    places = [attempt.place for attempt in attempts]
    assert all(places.count(place) <= 1 + retries for place in places)


SLICES = [
    (120.0, True, 600_000, 120_000),
    (120.0, True, 100_000, 50_000),
    (120.0, False, 100_000, 100_000),
    (5.0, False, 100_000, 5_000),
]


@pytest.mark.parametrize(("timeout_s", "another", "left_ms", "expected"), SLICES)
def test_slices_of_the_deadline(timeout_s: float, another: bool, left_ms: float, expected: float) -> None:
    target = replace(chain(0)[0], timeout_s=timeout_s)
    assert slice_ms(target, another=another, left_ms=left_ms) == expected
