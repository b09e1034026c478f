"""What changes while the service runs: live records of providers, connections and targets, and the members over them.

Only ``apply`` and ``observe`` write these. A record outlives a change of the roster; a member does not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice

from decision_service.kernel.health import NO_REST, QUOTA_BACKOFF, Breaker, Rest
from decision_service.kernel.model import Candidate, Connection, QuotaWindow, Step
from decision_service.kernel.statistics import TargetStatistics, clamp01

RECENT_MS = 60_000
CHANGES_KEPT = 4_096
TIER_PRIORITY = {"ultra": 1.0, "pro": 0.67, "standard": 0.33, "free": 0.0}
UNKNOWN_TIER_PRIORITY = 0.33
UNKNOWN_COST = 1.0


class ChangeLog:
    """Which records changed, in order, so that what is derived from them is made anew for those alone.

    ``count`` numbers the changes; only the last ones are kept.
    """

    __slots__ = ("_recent", "count")

    def __init__(self) -> None:
        self.count = 0
        self._recent: deque[Record] = deque(maxlen=CHANGES_KEPT)

    def note(self, record: Record) -> None:
        self.count += 1
        self._recent.append(record)

    def since(self, count: int) -> Iterable[Record] | None:
        """The records that changed after that many changes; None: too many to tell."""
        missed = self.count - count
        if missed > len(self._recent):
            return None
        return islice(reversed(self._recent), missed)


class Record:
    """Live state of something. Setting a ``noted`` attribute tells the log."""

    __slots__ = ("log",)
    noted: frozenset[str] = frozenset()

    def __init__(self, log: ChangeLog) -> None:
        self.log = log

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        if name in self.noted:
            self.log.note(self)


class ProviderRecord(Record):
    """Live state of one provider."""

    __slots__ = ("breaker", "id")
    noted = frozenset({"breaker"})

    def __init__(self, provider: str, log: ChangeLog) -> None:
        super().__init__(log)
        self.id = provider
        self.breaker = Breaker()


class AccountRecord(Record):
    """Live state of one connection.

    ``in_flight`` counts live leases; whoever moves it from or to 0 tells the log. ``cooldown`` and ``auth`` are its two
    rests. ``sessions`` maps a session to the instant at which its lease on this connection ends. What is ``fixed`` does
    not move with events.
    """

    __slots__ = (
        "auth",
        "cooldown",
        "fixed_quota",
        "in_flight",
        "key",
        "last_used",
        "provider",
        "quota",
        "quota_at",
        "recent",
        "recent_fixed",
        "sessions",
        "sessions_fixed",
    )

    noted = frozenset({"auth", "cooldown", "quota"})

    def __init__(self, provider: str, connection: str, log: ChangeLog) -> None:
        super().__init__(log)
        self.provider = provider
        self.key = connection
        self.cooldown: Rest = NO_REST
        self.auth: Rest = NO_REST
        self.quota: dict[str, QuotaWindow] = {}
        self.quota_at: dict[str, int] = {}
        self.fixed_quota = False
        self.in_flight = 0
        self.recent: deque[int] = deque()
        self.recent_fixed: int | None = None
        self.sessions: dict[str, int] = {}
        self.sessions_fixed: int | None = None
        self.last_used = 0

    def windows(self, now: int) -> Iterable[QuotaWindow]:
        """The quota windows that have not started anew."""
        return [w for w in self.quota.values() if (end := self.ends_at(w)) is None or end > now]

    def ends_at(self, window: QuotaWindow) -> int | None:
        """When a window starts anew; None: unknown.

        A limit that was told without its reset is believed for as long as a quota failure without a hint, so that the
        connection is tried again.
        """
        told = self.quota_at.get(window.name)
        if window.reset_at is None and window.limit_reached and told is not None:
            return told + QUOTA_BACKOFF.base
        return window.reset_at

    def remaining(self, now: int) -> float | None:
        """The smallest remaining fraction of the known windows; 0 where a limit is reached; None: unknown."""
        if not self.quota:
            return None
        fractions = [0.0 if w.limit_reached else clamp01(w.remaining) for w in self.windows(now)]
        return min(fractions) if fractions else None

    def recent_requests(self, now: int) -> int:
        """Leases taken in the last 60 s."""
        recent = self.recent
        while recent and recent[0] <= now - RECENT_MS:
            recent.popleft()
        return len(recent) if self.recent_fixed is None else self.recent_fixed

    def live_sessions(self, session: str, now: int) -> int:
        """Sessions other than ``session`` that are leased here."""
        if self.sessions_fixed is not None:
            return self.sessions_fixed
        return sum(1 for name, until in self.sessions.items() if until > now and name != session)


class TargetRecord(Record):
    """Live state of one model on one connection. ``failed_seq`` numbers the last outcome that it is blamed for."""

    __slots__ = ("failed_seq", "lockout", "statistics")
    noted = frozenset({"lockout", "statistics"})

    def __init__(self, log: ChangeLog) -> None:
        super().__init__(log)
        self.lockout: Rest = NO_REST
        self.statistics = TargetStatistics()
        self.failed_seq = -1


Records = tuple[ProviderRecord, AccountRecord, TargetRecord]


class Member:
    """A candidate in a pool, with its live records and what never changes of its factors.

    ``place`` is its position in pool order. ``step`` is the combo's step that it stands for,
    ``unit_key`` the unit of the pool.
    """

    __slots__ = (
        "account",
        "candidate",
        "connection",
        "cost",
        "id",
        "place",
        "provider",
        "step",
        "target",
        "tier_priority",
        "unit_key",
        "window",
    )

    def __init__(self, candidate: Candidate, connection: Connection, records: Records, step: Step) -> None:
        self.candidate = candidate
        self.id = candidate.id
        self.connection = connection
        self.provider, self.account, self.target = records
        self.step = step
        self.place = 0
        self.unit_key = ""
        self.cost = blended_cost(candidate)
        self.window = candidate.facts.context_window
        self.tier_priority = TIER_PRIORITY.get(candidate.account_tier.lower(), UNKNOWN_TIER_PRIORITY)

    @property
    def untroubled(self) -> bool:
        """Nothing is on record that could stop it: the gate needs no closer look."""
        connection, account = self.connection, self.account
        return (
            not self.provider.breaker.open
            and not account.cooldown.until
            and not account.auth.until
            and not any(window.limit_reached for window in account.quota.values())
            and not self.target.lockout.until
            and connection.enabled
            and connection.usable
            and connection.usable_until is None
        )


def blended_cost(candidate: Candidate) -> float:
    """0.6 x input + 0.4 x output price, USD per 1M tokens; 1.0 when the input price is unknown."""
    price_in, price_out = candidate.facts.input_price, candidate.facts.output_price
    if price_in is None:
        return UNKNOWN_COST
    return 0.6 * price_in + 0.4 * (price_in if price_out is None else price_out)
