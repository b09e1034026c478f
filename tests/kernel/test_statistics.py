"""What is measured of a target: latency, error rate, reliability and quality over 24 hours."""

from __future__ import annotations

from math import ceil, inf, nan, sqrt
from random import Random
from statistics import mean, pstdev
from typing import Any

import pytest

from decision_service.kernel.model import DAY, HOUR, Operation, Outcome, OutcomeClass
from decision_service.kernel.statistics import Quality, Samples, TargetStatistics, clamp01, ewma
from tests.kernel.rig import START, Rig, combo, roster


@pytest.mark.parametrize(
    ("x", "clamped"), [(-1, 0), (0, 0), (0.5, 0.5), (1, 1), (1.5, 1), (nan, 0), (inf, 0), (-inf, 0)]
)
def test_clamp01(x: float, clamped: float) -> None:
    assert clamp01(x) == clamped


def test_the_first_sample_seeds_a_moving_average() -> None:
    assert ewma(None, 0.7, 0.2) == 0.7
    assert ewma(0.5, 1.0, 0.2) == pytest.approx(0.6)


def outcome(outcome_class: OutcomeClass = OutcomeClass.SUCCESS, latency_ms: int = 100, **more: Any) -> Outcome:
    more = {"output_tokens": 5, **more}
    return Outcome("d", 1, "1", outcome_class, START, latency_ms=latency_ms, **more)


def fed(*outcomes: Outcome, now: int = START) -> TargetStatistics:
    statistics = TargetStatistics()
    for one in outcomes:
        statistics.add(one, now)
    return statistics


SUCCESS, FAILURE = outcome(), outcome(OutcomeClass.UPSTREAM_ERROR)


def test_without_a_sample_all_is_unknown() -> None:
    empty = TargetStatistics()
    assert (empty.p95_ms, empty.std_ms, empty.error_rate) == (None, None, None)
    assert (empty.reliability, empty.quality) == (1.0, 0.5)


# Latency


@pytest.mark.parametrize(
    "latencies",
    [
        pytest.param([0, 1, 2], id="tiny"),
        pytest.param([1000] * 50, id="all the same"),
        pytest.param(list(range(1, 2_000)), id="even"),
        pytest.param([int(Random(3).lognormvariate(6, 1.5)) for _ in range(999)], id="skewed"),
        pytest.param([5] * 95 + [60_000] * 5, id="two humps"),
        pytest.param([DAY] * 20, id="as long as there is"),
    ],
)
@pytest.mark.parametrize("q", [0.0, 0.5, 0.9, 0.95, 0.99, 1.0])
def test_the_sketch_is_within_two_percent_of_the_sorted_list(latencies: list[int], q: float) -> None:
    samples = Samples()
    for latency in latencies:
        samples.add_success(latency)
    exact = sorted(latencies)[int(q * (len(latencies) - 1))]
    estimate = samples.quantile(q)
    assert estimate is not None
    assert abs(estimate - exact) <= max(1.0, (0.02 + 1e-9) * exact)


def test_the_sketch_is_within_two_percent_of_every_single_value() -> None:
    for latency in [*range(1, 3_000), *range(3_000, 700_000, 997)]:
        one = Samples()
        one.add_success(latency)
        estimate = one.quantile(0.95)
        assert estimate is not None
        assert abs(estimate - latency) <= (0.02 + 1e-9) * latency, latency


def test_latency_is_trusted_from_ten_successes_and_the_live_mean_stands_in_before() -> None:
    few = fed(*[outcome(latency_ms=ms) for ms in (100, 200, 300, 400, 500, 600, 700, 800, 900)])
    live = 100.0
    for ms in range(200, 1000, 100):
        live += 0.1 * (ms - live)
    assert few.p95_ms == pytest.approx(live)
    assert few.std_ms is None
    few.add(outcome(latency_ms=1_000), START)
    assert few.p95_ms == pytest.approx(900, rel=0.02)
    assert few.std_ms == pytest.approx(pstdev(range(100, 1_001, 100)))


def test_failures_give_no_sample_of_latency() -> None:
    assert fed(FAILURE, FAILURE).p95_ms is None
    slow_failures = fed(SUCCESS, *[outcome(OutcomeClass.TIMEOUT, latency_ms=120_000)] * 30)
    assert slow_failures.p95_ms == 100.0


@pytest.mark.parametrize(("told", "taken"), [(-5, 0.0), (10**12, float(DAY))])
def test_an_impossible_latency_is_clamped(told: int, taken: float) -> None:
    assert fed(outcome(latency_ms=told)).p95_ms == taken


# Errors


def test_the_live_error_rate_is_a_moving_average() -> None:
    assert fed(FAILURE).error_rate == 1.0
    assert fed(SUCCESS).error_rate == 0.0
    assert fed(SUCCESS, FAILURE).error_rate == pytest.approx(0.2)
    assert fed(SUCCESS, FAILURE, FAILURE).error_rate == pytest.approx(0.36)


def test_reliability_is_the_live_rate_until_ten_samples_and_the_days_rate_from_there() -> None:
    nine = fed(*[FAILURE] * 3, *[SUCCESS] * 6)
    assert nine.reliability == pytest.approx(1 - 0.8**6)
    nine.add(SUCCESS, START)
    assert nine.reliability == pytest.approx(0.7)


# Time


def test_after_a_day_it_is_forgotten() -> None:
    statistics = fed(*[outcome(latency_ms=100)] * 10, *[FAILURE] * 10)
    statistics.expire(START + DAY - 1)
    assert statistics.reliability == pytest.approx(0.5)
    statistics.expire(START + DAY)
    assert statistics.std_ms is None
    assert statistics.p95_ms == 100.0, "the live mean stays"
    assert statistics.reliability == pytest.approx(1 - statistics.live_error_rate)  # type: ignore[operator]
    assert statistics.next_expiry() is None


def test_the_day_slides() -> None:
    statistics = TargetStatistics()
    for hour in range(48):
        statistics.add(outcome(latency_ms=1_000 if hour < 24 else 100), START + hour * HOUR)
    assert statistics.p95_ms == pytest.approx(100, rel=0.02)
    assert statistics.std_ms == pytest.approx(0.0, abs=1e-3)
    assert statistics._day.outcomes == 24


def known(statistics: TargetStatistics) -> bool:
    """Latency is trusted."""
    return statistics.std_ms is not None


def test_what_no_outcome_renews_is_forgotten_by_the_clock_alone() -> None:
    over = Rig(roster(["p/m@c"], combo("priority", ["p/m@c"])))
    for _ in range(10):
        over.decide()
        over.report(latency_ms=500, output_tokens=1)
    statistics = over.state.target("p", "c", "m").statistics
    over.pass_time(DAY - 1)
    assert known(statistics)
    over.pass_time(1)
    assert not known(statistics)
    over.decide()
    over.report(latency_ms=500)
    over.pass_time(2 * DAY)
    assert statistics.next_expiry() is None


def test_a_clock_that_stands_behind_the_last_sample_loses_none() -> None:
    statistics = fed(SUCCESS, now=START + 5 * HOUR)
    statistics.add(SUCCESS, START)
    assert statistics._day.successes == 2


# Quality


def test_quality_by_hand() -> None:
    quality = Quality()
    assert quality.value() == 0.5
    for ms in (1_000, 3_000):
        quality.add(outcome(latency_ms=ms), ms)
    raw = 1.0 - (1_000 + 0.1 * 2_000) / 60_000
    assert quality.value() == pytest.approx(0.5 + 2 / 50 * (raw - 0.5))
    quality.add(outcome(OutcomeClass.RATE_LIMITED), 9_000)
    raw = (1.0 + 0.2 * (0.5 - 1.0)) - 1_200 / 60_000  # a 429 is half a success, and no sample of latency
    assert quality.value() == pytest.approx(0.5 + 3 / 50 * (raw - 0.5))
    quality.add(outcome(OutcomeClass.MALFORMED), 9_000)
    raw = 0.9 * 0.8 - 1_200 / 60_000 - 0.5 * 1 / 4
    assert quality.value() == pytest.approx(0.5 + 4 / 50 * (raw - 0.5))


@pytest.mark.parametrize(
    ("odd", "kind"),
    [
        (True, {"outcome_class": OutcomeClass.MALFORMED}),
        (True, {"outcome_class": OutcomeClass.INTERRUPTED}),
        (True, {"finish_reason": "length"}),
        (True, {"output_tokens": 0}),
        (False, {}),
        (False, {"outcome_class": OutcomeClass.EMPTY, "output_tokens": 0}),
        (False, {"outcome_class": OutcomeClass.TIMEOUT}),
        (False, {"finish_reason": "stop"}),
    ],
)
def test_odd_answers(odd: bool, kind: dict[str, Any]) -> None:
    quality = Quality()
    quality.add(outcome(**kind), 1.0)
    assert quality.odd == odd


def test_quality_is_bounded_and_its_penalties_are_capped() -> None:
    slow = Quality()
    for _ in range(50):
        slow.add(outcome(finish_reason="length"), float(DAY))
    assert slow.value() == pytest.approx(1.0 - 0.2 - 0.25)
    bad = Quality()
    for _ in range(80):
        bad.add(outcome(OutcomeClass.MALFORMED), 1.0)
    assert bad.value() == 0.0


# Given values


def pinned(**signals: float) -> TargetStatistics:
    return TargetStatistics(signals)


@pytest.mark.parametrize(
    ("signals", "field", "value"),
    [
        ({"p95_ms": 800.0}, "p95_ms", 800.0),
        ({"p95_ms": 800.0, "samples": 10.0}, "p95_ms", 800.0),
        ({"p95_ms": 800.0, "samples": 9.0}, "p95_ms", None),
        ({"latency_std_ms": 7.0, "samples": 9.0}, "std_ms", None),
        ({"latency_std_ms": 7.0}, "std_ms", 7.0),
        ({"error_rate": 0.3}, "reliability", 0.7),
        ({"error_rate": 0.3, "failure_rate": 0.1}, "reliability", 0.9),
        ({"error_rate": 0.3, "failure_rate": 0.1, "samples": 9.0}, "reliability", 0.7),
        ({"failure_rate": nan}, "reliability", 1.0),
        ({"failure_rate": inf}, "reliability", 1.0),
        ({"failure_rate": -0.5}, "reliability", 1.0),
        ({"failure_rate": 7.0}, "reliability", 1.0),
        ({"error_rate": nan}, "error_rate", None),
        ({"error_rate": -3.0}, "error_rate", 0.0),
        ({"error_rate": 40.0}, "error_rate", 1.0),
        ({"p95_ms": nan}, "p95_ms", None),
        ({"p95_ms": -inf}, "p95_ms", None),
        ({"p95_ms": -100.0}, "p95_ms", None),
        ({"quality": 0.7}, "quality", 0.7),
        ({"quality": nan}, "quality", 0.5),
        ({"quality": 1.7}, "quality", 1.0),
    ],
)
def test_a_given_signal(signals: dict[str, float], field: str, value: float | None) -> None:
    got = getattr(pinned(**signals), field)
    assert got == (value if value is None else pytest.approx(value))


def test_a_given_signal_is_not_moved_by_outcomes_and_the_others_are() -> None:
    statistics = pinned(p95_ms=800.0, failure_rate=0.1)
    for _ in range(30):
        statistics.add(outcome(OutcomeClass.UPSTREAM_ERROR), START)
        statistics.add(outcome(latency_ms=50), START)
    assert statistics.p95_ms == 800.0
    assert statistics.reliability == pytest.approx(0.9)
    assert statistics.std_ms == pytest.approx(0.0, abs=1e-6)
    assert statistics.error_rate is not None
    assert statistics.error_rate > 0


# Kept over a restart


def test_it_comes_back_as_it_was() -> None:
    rng = Random(1)
    statistics = TargetStatistics()
    for n in range(200):
        kind = rng.choice([OutcomeClass.SUCCESS, OutcomeClass.SUCCESS, OutcomeClass.MALFORMED])
        statistics.add(outcome(kind, latency_ms=rng.randrange(10, 9_000)), START + n * HOUR // 4)
    stored = statistics.to_json()
    back = TargetStatistics.from_json(stored)
    for name in ("p95_ms", "std_ms", "error_rate", "reliability", "quality"):
        assert getattr(back, name) == pytest.approx(getattr(statistics, name)), name
    assert back.to_json() == stored


def test_standard_deviation_and_mean_by_hand() -> None:
    latencies = [120, 340, 560, 780, 99, 1_000, 450, 450, 10, 7]
    samples = Samples()
    for latency in latencies:
        samples.add_success(latency)
    assert samples.total_ms == sum(latencies) == mean(latencies) * 10
    assert samples.deviation() == pytest.approx(pstdev(latencies))
    assert Samples().deviation() is None
    assert ceil(sqrt(samples.squares)) > 0


def test_embeddings_are_no_odd_answers_for_having_no_output() -> None:
    """An answer without output tokens is an anomaly of a chat, not of an embedding."""
    quality = {}
    for operation in Operation:
        one = Rig(roster(["p/m@a"]))
        for _ in range(60):
            one.decide("p/m", operation=operation)
            one.report(OutcomeClass.SUCCESS, output_tokens=0)
        quality[operation] = one.state.target("p", "a", "m").statistics.quality
    assert quality[Operation.EMBEDDINGS] > quality[Operation.CHAT]
