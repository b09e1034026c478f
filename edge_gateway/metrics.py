"""The edge's own figures."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from service_kit.metrics import REGISTRY

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)

REQUESTS = Counter("omniroute_edge_requests", "Requests served.", ("route", "status"), registry=REGISTRY)
REQUEST_SECONDS = Histogram(
    "omniroute_edge_request_seconds",
    "From the head of a request to the end of its answer.",
    ("route",),
    registry=REGISTRY,
    buckets=SECONDS,
)
IN_FLIGHT = Gauge("omniroute_edge_in_flight", "Requests being served, probes left out.", registry=REGISTRY)
REFUSED_BUSY = Counter("omniroute_edge_refused_busy", "Requests over the limit of concurrency.", registry=REGISTRY)
REFUSED_BUSY_KEY = Counter(
    "omniroute_edge_refused_busy_key", "Requests over the limit of concurrency of their API key.", registry=REGISTRY
)
HANGUPS = Counter("omniroute_edge_hangups", "Requests whose client closed the connection first.", registry=REGISTRY)
DECIDE_SECONDS = Histogram(
    "omniroute_edge_decide_seconds",
    "Round trip of a decision.",
    registry=REGISTRY,
    buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)
DEGRADED = Counter(
    "omniroute_edge_degraded", "Requests without the decision service, by what helped.", ("by",), registry=REGISTRY
)
FIRST_CHUNK_SECONDS = Histogram(
    "omniroute_edge_first_chunk_seconds",
    "From the head of a request to the first bytes of its answer.",
    registry=REGISTRY,
    buckets=SECONDS,
)
AUTHENTICATIONS = Counter(
    "omniroute_edge_authentications",
    "Look-ups of presented keys: fresh, cached, stale (kept through an outage).",
    ("source",),
    registry=REGISTRY,
)

REPORT_QUEUED = Gauge("omniroute_edge_report_queued", "Outcomes that wait for delivery.", registry=REGISTRY)
REPORTED = Counter("omniroute_edge_reported", "Outcomes delivered.", ("result",), registry=REGISTRY)
REPORT_DROPPED = Counter("omniroute_edge_report_dropped", "Outcomes lost.", ("why",), registry=REGISTRY)
REPORT_RETRIES = Counter(
    "omniroute_edge_report_retries", "Deliveries that failed and are tried again.", registry=REGISTRY
)
