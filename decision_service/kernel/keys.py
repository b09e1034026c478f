"""Limits of API keys: requests and tokens a minute, USD a UTC day and month. Reserved by Decide, settled by Report."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from decision_service.kernel.model import DAY, MINUTE, KeyPolicy, Refused

DAYS_IN_400_YEARS = 146_097
EPOCH_SHIFT_DAYS = 719_468
LONGEST_MONTH = 31


def month_of(day: int) -> int:
    """Number of the UTC month, 12 a year from year 0, that a day since the epoch lies in (proleptic Gregorian)."""
    shifted = day + EPOCH_SHIFT_DAYS
    era, of_era = divmod(shifted, DAYS_IN_400_YEARS)
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    march_month = (5 * of_year + 2) // 153
    return 12 * (year + 400 * era) + march_month + 2


@dataclass(slots=True)
class Spend:
    """USD spent in one period; another period starts at 0."""

    period: int = 0
    usd: float = 0.0

    def add(self, period: int, usd: float) -> None:
        if period != self.period:
            self.period, self.usd = period, 0.0
        self.usd += usd

    def within(self, period: int) -> float:
        return self.usd if period == self.period else 0.0


class KeyUsage:
    """What one key has used. ``reserved_usd`` and ``reserved_tokens`` belong to decisions that are under way."""

    __slots__ = ("day", "month", "requests", "reserved_tokens", "reserved_usd", "tokens")

    def __init__(self) -> None:
        self.requests: deque[int] = deque()
        self.tokens: deque[tuple[int, int]] = deque()
        self.day = Spend()
        self.month = Spend()
        self.reserved_usd = 0.0
        self.reserved_tokens = 0

    def spend(self, usd: float, tokens: int, now: int) -> None:
        """What an attempt has cost."""
        day = now // DAY
        self.day.add(day, usd)
        self.month.add(month_of(day), usd)
        if tokens:
            self.tokens.append((now, tokens))
        self.forget(now)

    def forget(self, now: int) -> None:
        """Sheds what is older than a minute."""
        while self.requests and self.requests[0] <= now - MINUTE:
            self.requests.popleft()
        while self.tokens and self.tokens[0][0] <= now - MINUTE:
            self.tokens.popleft()


@dataclass(frozen=True, slots=True)
class Demand:
    """What a decision would reserve of its key."""

    tokens: int
    usd: float


Check = Callable[[KeyPolicy, KeyUsage, Demand, int], Refused | None]


def _requests(policy: KeyPolicy, usage: KeyUsage, demand: Demand, now: int) -> Refused | None:
    limit = policy.requests_per_minute
    if not limit or len(usage.requests) < limit:
        return None
    retry_at = usage.requests[len(usage.requests) - limit] + MINUTE
    return _limited(f"{limit} requests per minute", retry_at)


def _tokens(policy: KeyPolicy, usage: KeyUsage, demand: Demand, now: int) -> Refused | None:
    limit = policy.tokens_per_minute
    used = sum(count for _, count in usage.tokens)
    excess = used + usage.reserved_tokens + demand.tokens - limit
    if not limit or excess <= 0:
        return None
    return _limited(f"{limit} tokens per minute", _freed_at(usage, excess))


def _freed_at(usage: KeyUsage, wanted: int) -> int | None:
    """When so many of the tokens that were used are a minute old; None: they are fewer."""
    freed = accumulate(count for _, count in usage.tokens)
    return next((at + MINUTE for (at, _), sum_ in zip(usage.tokens, freed, strict=True) if sum_ >= wanted), None)


def _limited(what: str, retry_at: int | None) -> Refused:
    return Refused("RATE_LIMIT_EXCEEDED", f"this key is limited to {what}", retry_at=retry_at)


def _day(policy: KeyPolicy, usage: KeyUsage, demand: Demand, now: int) -> Refused | None:
    today = now // DAY
    spent = usage.day.within(today) + usage.reserved_usd
    if not policy.usd_per_day or spent + demand.usd <= policy.usd_per_day:
        return None
    return _overspent(policy.usd_per_day, "day", spent, demand, (today + 1) * DAY)


def _month(policy: KeyPolicy, usage: KeyUsage, demand: Demand, now: int) -> Refused | None:
    today = now // DAY
    spent = usage.month.within(month_of(today)) + usage.reserved_usd
    if not policy.usd_per_month or spent + demand.usd <= policy.usd_per_month:
        return None
    return _overspent(policy.usd_per_month, "month", spent, demand, next(_days_of_next_month(today)) * DAY)


def _days_of_next_month(today: int) -> Iterator[int]:
    this = month_of(today)
    return (day for day in range(today + 1, today + LONGEST_MONTH + 1) if month_of(day) != this)


def _overspent(cap: float, period: str, spent: float, demand: Demand, renewed_at: int) -> Refused:
    text = f"this key may spend {cap:.6g} USD a {period}: {spent:.6g} are spent or reserved, this request needs "
    retry_at = renewed_at if demand.usd <= cap else None  # else it never fits
    return Refused("KEY_BUDGET_EXCEEDED", f"{text}{demand.usd:.6g}", retry_at=retry_at)


CHECKS: tuple[Check, ...] = (_requests, _tokens, _day, _month)


def over_limit(policy: KeyPolicy, usage: KeyUsage, demand: Demand, now: int) -> Refused | None:
    """The first limit of a key that a demand would pass; None: it fits."""
    usage.forget(now)
    for check in CHECKS:
        refused = check(policy, usage, demand, now)
        if refused is not None:
            return refused
    return None


def limited(policy: KeyPolicy | None) -> bool:
    """The key has a limit that Decide has to keep."""
    return policy is not None and bool(
        policy.requests_per_minute or policy.tokens_per_minute or policy.usd_per_day or policy.usd_per_month
    )
