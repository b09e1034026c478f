"""Waits and quota windows in every notation."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.hints import MAX_MS, answered_wait_ms, quota_windows, retry_after_ms
from executor.model import QuotaWindow

NOW = datetime(2026, 1, 1, tzinfo=UTC).timestamp()

RETRY_AFTER: dict[str, int | None] = {
    "7": 7_000,
    "0": 0,
    "1.5": 1_500,
    " 3 ": 3_000,
    "Thu, 01 Jan 2026 00:00:10 GMT": 10_000,
    "Wed, 31 Dec 2025 23:59:00 GMT": None,
    "2026-01-01T00:01:00Z": 60_000,
    "2026-01-01T01:00:30+01:00": 30_000,
    "1h2m3s": 3_723_000,
    "6m0s": 360_000,
    "250ms": 250,
    "1m2.5s": 62_500,
    "1d": 86_400_000,
    "1767225610": 10_000,
    "1767225610000": 10_000,
    "-5": None,
    "NaN": None,
    "inf": None,
    "soon": None,
    "": None,
    "99999999999999999999999": None,
    "900000000": MAX_MS,
}


@pytest.mark.parametrize("text", RETRY_AFTER)
def test_retry_after(text: str) -> None:
    assert retry_after_ms({"retry-after": text}, NOW) == RETRY_AFTER[text]


def test_milliseconds_go_before_seconds() -> None:
    assert retry_after_ms({"retry-after-ms": "1500.5", "retry-after": "9"}, NOW) == 1_501
    assert retry_after_ms({"retry-after-ms": "-1", "retry-after": "9"}, NOW) == 9_000


@given(st.text(max_size=30))
def test_no_text_makes_it_fall_over(text: str) -> None:
    wait = retry_after_ms({"retry-after": text}, NOW)
    assert wait is None or 0 <= wait <= MAX_MS
    quota_windows({"x-ratelimit-remaining-requests": text, "x-ratelimit-reset-requests": text}, NOW)


QUOTAS: dict[str, tuple[dict[str, str], list[QuotaWindow]]] = {
    "openai": (
        {
            "x-ratelimit-limit-requests": "60",
            "x-ratelimit-remaining-requests": "15",
            "x-ratelimit-reset-requests": "1s",
            "x-ratelimit-limit-tokens": "150000",
            "x-ratelimit-remaining-tokens": "0",
            "x-ratelimit-reset-tokens": "6m0s",
        },
        [QuotaWindow("requests", 0.25, NOW + 1), QuotaWindow("tokens", 0.0, NOW + 360, limit_reached=True)],
    ),
    "epoch in ms, no name": (
        {"x-ratelimit-limit": "20", "x-ratelimit-remaining": "10", "x-ratelimit-reset": str(int(NOW + 30) * 1000)},
        [QuotaWindow("requests", 0.5, NOW + 30)],
    ),
    "anthropic": (
        {
            "anthropic-ratelimit-tokens-limit": "100",
            "anthropic-ratelimit-tokens-remaining": "90",
            "anthropic-ratelimit-tokens-reset": "2026-01-01T00:01:00Z",
        },
        [QuotaWindow("tokens", 0.9, NOW + 60)],
    ),
    "standard": (
        {"ratelimit-limit": "100, 100;w=60", "ratelimit-remaining": "50", "ratelimit-reset": "5"},
        [QuotaWindow("requests", 0.5, NOW + 5)],
    ),
    "several of one name: the tightest": (
        {
            "x-ratelimit-limit-tokens-minute": "100",
            "x-ratelimit-remaining-tokens-minute": "90",
            "x-ratelimit-limit-tokens-day": "1000",
            "x-ratelimit-remaining-tokens-day": "100",
        },
        [QuotaWindow("tokens", 0.1)],
    ),
    "remaining alone says nothing": ({"x-ratelimit-remaining-requests": "7"}, []),
    "but none left does": ({"x-ratelimit-remaining-requests": "0"}, [QuotaWindow("requests", 0.0, limit_reached=True)]),
    "nonsense": ({"x-ratelimit-limit-requests": "many", "x-ratelimit-remaining-requests": "-3"}, []),
    "a reset beyond all calendars": (
        {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "999999999999999"},
        [QuotaWindow("requests", 0.0, limit_reached=True)],
    ),
}


@pytest.mark.parametrize("name", QUOTAS)
def test_quota_windows(name: str) -> None:
    headers, expected = QUOTAS[name]
    assert list(quota_windows(headers, NOW)) == expected


def test_a_429_without_words_waits_for_its_used_up_windows() -> None:
    windows = (QuotaWindow("requests", 0.0, NOW + 5, limit_reached=True), QuotaWindow("tokens", 0.5, NOW + 50))
    assert answered_wait_ms(429, {}, windows, NOW) == 5_000
    assert answered_wait_ms(500, {}, windows, NOW) is None
    assert answered_wait_ms(429, {"retry-after": "1"}, windows, NOW) == 1_000


def test_windows_of_a_subscription() -> None:
    headers = {
        "anthropic-ratelimit-unified-status": "allowed",
        "anthropic-ratelimit-unified-5h-utilization": "0.25",
        "anthropic-ratelimit-unified-5h-reset": str(int(NOW) + 600),
        "anthropic-ratelimit-unified-5h-status": "allowed",
        "anthropic-ratelimit-unified-7d-utilization": "1.02",
        "anthropic-ratelimit-unified-7d-reset": "soon",
        "anthropic-ratelimit-unified-7d-status": "rejected",
        "anthropic-ratelimit-unified-9d-utilization": "0.5",
    }
    assert quota_windows(headers, NOW) == (
        QuotaWindow("session", 0.75, NOW + 600, limit_reached=False),
        QuotaWindow("weekly", 0.0, None, limit_reached=True),
    )
