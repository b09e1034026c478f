"""The latency sketch and the sliding day, against plain lists."""

from __future__ import annotations

from statistics import pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decision_service.kernel.model import DAY, HOUR, Outcome, OutcomeClass
from decision_service.kernel.statistics import Samples, TargetStatistics, clamp01

latencies = st.integers(0, DAY)
quantiles = st.floats(0.0, 1.0)


def exact(values: list[int], q: float) -> float:
    """The quantile of a sorted list; below a millisecond nobody asks."""
    return max(1.0, float(sorted(values)[int(q * (len(values) - 1))]))


def filled(values: list[int]) -> Samples:
    samples = Samples()
    for value in values:
        samples.add_success(value)
    return samples


@given(values=st.lists(latencies, min_size=1, max_size=300), q=quantiles)
def test_a_quantile_is_within_two_percent(values: list[int], q: float) -> None:
    estimate = filled(values).quantile(q)
    assert estimate is not None
    assert abs(estimate - exact(values, q)) <= (0.02 + 1e-9) * exact(values, q)


@given(parts=st.lists(st.lists(latencies, max_size=40), min_size=1, max_size=6), q=quantiles)
def test_merging_is_as_good_as_adding_one_by_one(parts: list[list[int]], q: float) -> None:
    merged = Samples()
    for part in parts:
        merged.merge(filled(part), 1)
    whole = filled([value for part in parts for value in part])
    assert (merged.buckets, merged.successes) == (whole.buckets, whole.successes)
    assert merged.quantile(q) == whole.quantile(q)
    merged.merge(filled(parts[0]), -1)
    rest = filled([value for part in parts[1:] for value in part])
    assert (merged.buckets, merged.successes) == (rest.buckets, rest.successes)


@given(
    history=st.lists(
        st.tuples(st.integers(0, 5 * HOUR), st.sampled_from(list(OutcomeClass)), st.integers(-10, 100_000)), max_size=80
    )
)
def test_the_day_is_that_of_a_list_with_instants(history: list[tuple[int, OutcomeClass, int]]) -> None:
    """An hour at a time is forgotten, so a sample lives for 23 to 24 hours."""
    statistics = TargetStatistics()
    seen: list[tuple[int, OutcomeClass, int]] = []
    live: float | None = None
    now = 10 * DAY
    for wait, kind, latency in history:
        now += wait
        statistics.add(Outcome("d", 1, "1", kind, now, latency_ms=latency), now)
        seen.append((now, kind, max(0, latency)))
        failed = 0.0 if kind is OutcomeClass.SUCCESS else 1.0
        live = failed if live is None else live + 0.2 * (failed - live)
        kept = [one for one in seen if one[0] // HOUR > (now - DAY) // HOUR]
        good = [ms for _, outcome_class, ms in kept if outcome_class is OutcomeClass.SUCCESS]
        assert statistics.live_error_rate == pytest.approx(live)
        if len(good) >= 10:
            assert statistics.std_ms == pytest.approx(pstdev(good), abs=0.5)
            assert statistics.p95_ms is not None
            assert abs(statistics.p95_ms - exact(good, 0.95)) <= (0.02 + 1e-9) * exact(good, 0.95)
        else:
            assert statistics.std_ms is None
        if len(kept) >= 10:
            assert statistics.reliability == pytest.approx(len(good) / len(kept))
        assert 0.0 <= statistics.quality <= 1.0
        assert 0.0 <= statistics.reliability <= 1.0


@given(x=st.floats(allow_nan=True, allow_infinity=True))
def test_clamp01_is_in_bounds(x: float) -> None:
    assert 0.0 <= clamp01(x) <= 1.0
