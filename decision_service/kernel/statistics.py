"""What is measured of one target: latency, errors and quality, kept ready as outcomes come in."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, exp, isfinite, log, sqrt
from typing import Any

from decision_service.kernel.model import DAY, HOUR, Outcome, OutcomeClass

TRUSTED_FROM = 10
MAX_LATENCY_MS = DAY
SKETCH_ERROR = 0.02
_LOG_GAMMA = log((1 + SKETCH_ERROR) / (1 - SKETCH_ERROR))


def clamp01(x: float) -> float:
    """Into [0,1]; NaN and infinities read 0."""
    if not isfinite(x):
        return 0.0
    return 0.0 if x < 0.0 else 1.0 if x > 1.0 else x


def ewma(old: float | None, sample: float, alpha: float) -> float:
    """Exponentially weighted mean; the first sample seeds it."""
    return sample if old is None else old + alpha * (sample - old)


@dataclass(slots=True)
class Samples:
    """Sums over some outcomes, mergeable both ways.

    ``buckets`` is a log-scale histogram of the latencies of successes, with a relative error of 2 %.
    """

    hour: int = 0
    buckets: dict[int, int] = field(default_factory=dict)
    successes: int = 0
    total_ms: float = 0.0
    squares: float = 0.0
    failures: int = 0

    @property
    def outcomes(self) -> int:
        return self.successes + self.failures

    def add_success(self, latency_ms: float) -> None:
        bucket = ceil(log(max(1.0, latency_ms)) / _LOG_GAMMA)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.successes += 1
        self.total_ms += latency_ms
        self.squares += latency_ms * latency_ms

    def merge(self, other: Samples, sign: int) -> None:
        """Adds (1) or takes away (-1) what ``other`` holds."""
        for bucket, count in other.buckets.items():
            left = self.buckets.get(bucket, 0) + sign * count
            if left:
                self.buckets[bucket] = left
            else:
                self.buckets.pop(bucket, None)
        self.successes += sign * other.successes
        self.total_ms += sign * other.total_ms
        self.squares += sign * other.squares
        self.failures += sign * other.failures

    def quantile(self, q: float) -> float | None:
        """The q-quantile of the latencies in milliseconds; None without one."""
        rank = q * (self.successes - 1)
        seen = 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen > rank:
                return exp(_LOG_GAMMA * bucket) * (1 - SKETCH_ERROR)
        return None

    def deviation(self) -> float | None:
        """Standard deviation of the latencies in milliseconds; None without one."""
        if not self.successes:
            return None
        mean = self.total_ms / self.successes
        return sqrt(max(0.0, self.squares / self.successes - mean * mean))


@dataclass(slots=True)
class Quality:
    """The quality tracker: moving averages of success and of the latency of successes, and a count of odd answers."""

    success: float = 0.0
    latency_ms: float | None = None
    samples: int = 0
    odd: int = 0

    def add(self, outcome: Outcome, latency_ms: float) -> None:
        kind = outcome.outcome_class
        success = kind is OutcomeClass.SUCCESS
        score = 1.0 if success else 0.5 if kind is OutcomeClass.RATE_LIMITED else 0.0
        self.success = ewma(self.success if self.samples else None, score, 0.2)
        if success:
            self.latency_ms = ewma(self.latency_ms, latency_ms, 0.1)
        self.samples += 1
        self.odd += kind in _ODD or outcome.finish_reason == "length" or (success and outcome.output_tokens <= 0)

    def value(self) -> float:
        """In [0,1]; 0.5 without a sample, trusted in full from 50 samples."""
        if not self.samples:
            return 0.5
        slow = min(0.2, (self.latency_ms or 0.0) / 60_000)
        odd = min(0.25, 0.5 * self.odd / self.samples)
        return 0.5 + min(1.0, self.samples / 50) * (clamp01(self.success - slow - odd) - 0.5)


_FRACTIONS = frozenset({"error_rate", "quality"})


def _believable(name: str, given: float) -> float | None:
    """A value that is given instead of measured, as far as it can be one; None: it says nothing.

    A failure rate outside 0..1 reads as no failures; a latency below 0 as unknown.
    """
    if name == "failure_rate":
        return given if 0.0 <= given <= 1.0 else 0.0
    if not isfinite(given):
        return None
    if name in _FRACTIONS:
        return clamp01(given)
    return given if given >= 0.0 else None


_ODD = frozenset({OutcomeClass.MALFORMED, OutcomeClass.INTERRUPTED})


class TargetStatistics:
    """Statistics of one model on one connection over 24 hours.

    Always current: ``p95_ms`` and ``std_ms`` (None: unknown), ``error_rate`` (live, None: unknown), ``reliability``
    and ``quality`` in [0,1]. ``pinned`` holds values that outcomes do not move.
    """

    __slots__ = (
        "_day",
        "_hours",
        "_mean_ms",
        "_quality",
        "error_rate",
        "live_error_rate",
        "p95_ms",
        "pinned",
        "quality",
        "reliability",
        "std_ms",
    )

    def __init__(self, pinned: Mapping[str, float] | None = None) -> None:
        self._hours: deque[Samples] = deque()
        self._day = Samples()
        self._mean_ms: float | None = None
        self._quality = Quality()
        self.live_error_rate: float | None = None
        given = {name: _believable(name, x) for name, x in (pinned or {}).items()}
        self.pinned = {name: x for name, x in given.items() if x is not None}
        self._refresh()

    def add(self, outcome: Outcome, now: int) -> None:
        """One sampled outcome: a success, or a failure that is the target's fault."""
        success = outcome.outcome_class is OutcomeClass.SUCCESS
        latency = float(min(MAX_LATENCY_MS, max(0, outcome.latency_ms)))
        self.expire(now)
        hour = now // HOUR
        if not self._hours or self._hours[-1].hour < hour:
            self._hours.append(Samples(hour))
        for samples in (self._hours[-1], self._day):
            if success:
                samples.add_success(latency)
            else:
                samples.failures += 1
        self.live_error_rate = ewma(self.live_error_rate, 0.0 if success else 1.0, 0.2)
        if success:
            self._mean_ms = ewma(self._mean_ms, latency, 0.1)
        self._quality.add(outcome, latency)
        self._refresh()

    def expire(self, now: int) -> bool:
        """Forgets what is older than 24 hours; answers whether there was something."""
        oldest = (now - DAY) // HOUR
        stale = False
        while self._hours and self._hours[0].hour <= oldest:
            self._day.merge(self._hours.popleft(), -1)
            stale = True
        if stale:
            self._refresh()
        return stale

    def next_expiry(self) -> int | None:
        """The instant at which the oldest samples are forgotten; None: there are none."""
        return self._hours[0].hour * HOUR + DAY if self._hours else None

    def _trusted(self, name: str, count: int) -> bool:
        if "samples" in self.pinned:
            return self.pinned["samples"] >= TRUSTED_FROM
        return name in self.pinned or count >= TRUSTED_FROM

    def _refresh(self) -> None:
        pinned, day = self.pinned, self._day
        p95 = std = rate = None
        if self._trusted("p95_ms", day.successes):
            p95 = pinned.get("p95_ms", day.quantile(0.95))
        if self._trusted("latency_std_ms", day.successes):
            std = pinned.get("latency_std_ms", day.deviation())
        self.p95_ms: float | None = self._mean_ms if p95 is None else p95
        self.std_ms: float | None = std
        self.error_rate: float | None = pinned.get("error_rate", self.live_error_rate)
        if self._trusted("failure_rate", day.outcomes):
            rate = pinned.get("failure_rate", day.failures / day.outcomes if day.outcomes else None)
        rate = self.error_rate if rate is None else rate
        self.reliability: float = 1.0 if rate is None else 1.0 - clamp01(rate)
        self.quality: float = pinned.get("quality", self._quality.value())

    def to_json(self) -> dict[str, Any]:
        """Everything that outlives a restart."""
        quality = self._quality
        return {
            "hours": [
                [s.hour, sorted(s.buckets.items()), s.successes, s.total_ms, s.squares, s.failures] for s in self._hours
            ],
            "mean_ms": self._mean_ms,
            "error_rate": self.live_error_rate,
            "quality": [quality.success, quality.latency_ms, quality.samples, quality.odd],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> TargetStatistics:
        """What ``to_json`` gave."""
        statistics = cls()
        for hour, buckets, successes, total, squares, failures in stored["hours"]:
            samples = Samples(hour, {int(b): int(n) for b, n in buckets}, successes, total, squares, failures)
            statistics._hours.append(samples)
            statistics._day.merge(samples, 1)
        statistics._mean_ms = stored["mean_ms"]
        statistics.live_error_rate = stored["error_rate"]
        statistics._quality = Quality(*stored["quality"])
        statistics._refresh()
        return statistics
