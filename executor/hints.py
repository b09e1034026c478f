"""What an answer's headers and texts say of waiting and of quota. Pure; now is an argument, in Unix seconds."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from executor.model import QuotaWindow

MAX_MS = 2**32 - 1
MAX_RESET_S = 366 * 86_400.0
EPOCH_FROM = 1_000_000_000  # a number this large is an instant, not a wait
EPOCH_MS_FROM = 100_000_000_000

_NUMBER = re.compile(r"\d{1,15}(?:\.\d{0,15})?|\.\d{1,15}")
_DURATION = re.compile("".join(rf"(?:(\d{{1,9}}(?:\.\d+)?){unit})?" for unit in ("d", "h", "m(?!s)", "s", "ms")))
_DURATION_SCALES = (86_400.0, 3_600.0, 60.0, 1.0, 0.001)
_TRY_AGAIN = re.compile(
    r"(?:try again|retry|wait|available again|resets?)\s+(?:again\s+)?(?:in|after|for)\s+"
    r"((?:\d+(?:\.\d+)?(?:ms|[dhms]))+|\d+(?:\.\d+)?(?=\s*sec))",
    re.IGNORECASE,
)
_SUBSCRIPTION = re.compile(r"anthropic-ratelimit-unified-(5h|7d)-utilization")
_SUBSCRIPTION_NAMES = {"5h": "session", "7d": "weekly"}
_QUOTA = re.compile(
    r"(?:x-|anthropic-)?ratelimit-"
    r"(?:(?P<kind>limit|remaining|reset)(?:-(?P<of>req(?:uests?)?|tokens?)(?:-\w+)?)?"
    r"|(?P<of_first>requests|tokens)-(?P<kind_last>limit|remaining|reset))"
)


def retry_after_ms(headers: Mapping[str, str], now: float) -> int | None:
    """The wait that ``retry-after-ms`` or ``retry-after`` asks for; None without a usable one."""
    in_ms = headers.get("retry-after-ms", "").strip()
    if _NUMBER.fullmatch(in_ms):
        return _whole_ms(float(in_ms) / 1000)
    return _whole_ms(wait_s(headers.get("retry-after", ""), now))


def wait_s(text: str, now: float) -> float | None:
    """Seconds from now: a number, an HTTP date, RFC 3339, ``1h2m3s``, or an epoch. Past, negative and NaN: None."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        number = float(text)
        if number >= EPOCH_FROM:
            return _not_past((number / 1000 if number >= EPOCH_MS_FROM else number) - now)
        return number
    match = _DURATION.fullmatch(text.lower())
    if text and match:
        return sum(float(part) * scale for part, scale in zip(match.groups(), _DURATION_SCALES, strict=True) if part)
    instant = _instant(text)
    return None if instant is None else _not_past(instant.timestamp() - now)


def wait_in_text_ms(text: str) -> int | None:
    """The wait that a message names: "Please try again in 1m2.5s"."""
    match = _TRY_AGAIN.search(text)
    return _whole_ms(wait_s(match.group(1), 0.0)) if match else None


def answered_wait_ms(status: int, headers: Mapping[str, str], windows: Iterable[QuotaWindow], now: float) -> int | None:
    """The wait that an error answer's headers ask for: in so many words, or on a 429 by its used-up windows."""
    asked = retry_after_ms(headers, now)
    return _reset_ms(windows, now) if asked is None and status == 429 else asked


def _reset_ms(windows: Iterable[QuotaWindow], now: float) -> int | None:
    """The wait until every window that is used up starts anew; None when none is, or one of them is unknown."""
    resets = [window.reset_at for window in windows if window.limit_reached]
    known = [reset for reset in resets if reset is not None]
    if not known or len(known) < len(resets):
        return None
    return _whole_ms(_not_past(max(known) - now))


def quota_windows(headers: Mapping[str, str], now: float) -> tuple[QuotaWindow, ...]:
    """Windows told by the ``ratelimit`` headers in their several spellings; the tightest of each name."""
    seen: dict[tuple[str, str], dict[str, str]] = {}
    for header, value in headers.items():
        match = _QUOTA.fullmatch(header.lower())
        if match:
            kind = "kind" if match["kind"] else "kind_last"
            window = header[: match.start(kind)] + header[match.end(kind) :]
            name = "tokens" if (match["of"] or match["of_first"] or "").startswith("token") else "requests"
            seen.setdefault((name, window.lower()), {})[match[kind]] = value.partition(",")[0]
    tightest: dict[str, QuotaWindow] = {window.name: window for window in _subscription_windows(headers, now)}
    for (name, _), values in seen.items():
        read = _window(name, values, now)
        if read and (name not in tightest or read.remaining_fraction < tightest[name].remaining_fraction):
            tightest[name] = read
    return tuple(tightest[name] for name in sorted(tightest))


def _subscription_windows(headers: Mapping[str, str], now: float) -> Iterable[QuotaWindow]:
    """Windows of Anthropic's subscriptions: how much of each is used, and when it starts anew."""
    for header, value in headers.items():
        match = _SUBSCRIPTION.fullmatch(header.lower())
        used = _amount(value) if match else None
        if match is None or used is None:
            continue
        prefix = header[: -len("utilization")]
        wait = wait_s(headers.get(f"{prefix}reset", ""), now)
        reached = used >= 1 or headers.get(f"{prefix}status", "") == "rejected"
        reset_at = now + wait if wait is not None and wait <= MAX_RESET_S else None
        yield QuotaWindow(_SUBSCRIPTION_NAMES[match[1]], max(0.0, 1 - used), reset_at, limit_reached=reached)


def _window(name: str, values: Mapping[str, str], now: float) -> QuotaWindow | None:
    remaining, limit = _amount(values.get("remaining")), _amount(values.get("limit"))
    if remaining is None or (remaining > 0 and not limit):
        return None
    fraction = min(1.0, remaining / limit) if limit else 0.0
    wait = wait_s(values.get("reset", ""), now)
    reset_at = now + wait if wait is not None and wait <= MAX_RESET_S else None
    return QuotaWindow(name, fraction, reset_at, limit_reached=remaining <= 0)


def _amount(text: str | None) -> float | None:
    text = (text or "").strip()
    return float(text) if _NUMBER.fullmatch(text) else None


def _instant(text: str) -> datetime | None:
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            instant = parse(text)
        except (ValueError, OverflowError):
            continue
        return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return None


def _not_past(seconds: float) -> float | None:
    return seconds if seconds >= 0 else None


def _whole_ms(seconds: float | None) -> int | None:
    if seconds is None or not math.isfinite(seconds):
        return None
    return min(MAX_MS, math.ceil(round(seconds * 1000, 3)))
