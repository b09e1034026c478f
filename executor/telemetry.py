"""What the executor counts."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from executor.model import Attempt, OutcomeClass
from service_kit.metrics import REGISTRY

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

ATTEMPTS = Counter("omniroute_executor_attempts", "Ended attempts.", ("provider", "outcome_class"), registry=REGISTRY)
LATENCY = Histogram(
    "omniroute_executor_attempt_seconds", "Duration of attempts.", ("provider",), registry=REGISTRY, buckets=SECONDS
)
FIRST_CONTENT = Histogram(
    "omniroute_executor_first_content_seconds",
    "Time to the first content of streams.",
    ("provider",),
    registry=REGISTRY,
    buckets=SECONDS,
)
STREAM_BYTES = Counter("omniroute_executor_stream_bytes", "Bytes of streams sent to clients.", registry=REGISTRY)
EXECUTIONS = Gauge("omniroute_executor_in_flight", "Executions that run now.", registry=REGISTRY)
REFUSED = Counter(
    "omniroute_executor_refused", "Executions refused at once: full, or shutting down.", ("why",), registry=REGISTRY
)
WAITING = Gauge(
    "omniroute_executor_waiting", "Calls that wait for a turn with a host or a connection.", ("of",), registry=REGISTRY
)
NO_TURN = Counter(
    "omniroute_executor_no_turn",
    "Calls that got no turn with a host or a connection: the queue was full, or the wait too long (late).",
    ("of", "why"),
    registry=REGISTRY,
)


def attempt_ended(attempt: Attempt) -> None:
    provider = attempt.target.provider
    ATTEMPTS.labels(provider, attempt.outcome_class.value).inc()
    LATENCY.labels(provider).observe(attempt.latency_ms / 1000)
    if attempt.ttft_ms:
        FIRST_CONTENT.labels(provider).observe(attempt.ttft_ms / 1000)


def attempt_cancelled(provider: str) -> None:
    """The client hung up during an attempt."""
    ATTEMPTS.labels(provider, OutcomeClass.CLIENT_CANCELLED.value).inc()
