"""Live records that outlive a restart, to JSON and back: one row a record, by (kind, key)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any

import orjson

from decision_service.kernel.health import NO_REST, Breaker, Exclusion, Rest, Wait
from decision_service.kernel.keys import Spend
from decision_service.kernel.live import AccountRecord
from decision_service.kernel.model import QuotaWindow
from decision_service.kernel.state import RoutingState
from decision_service.kernel.statistics import TargetStatistics

SEPARATOR = "\0"
STORED_SEPARATOR = "\x1f"  # PostgreSQL keeps no NUL in a text
Row = tuple[str, str, bytes]


def _dump_breaker(state: RoutingState, key: str) -> Any:
    return asdict(state.provider(key).breaker)


def _load_breaker(state: RoutingState, key: str, stored: Any) -> None:
    state.provider(key).breaker = replace(Breaker(**stored), moved_seq=0, probe="", probe_until=0)


def _account(state: RoutingState, key: str) -> AccountRecord:
    provider, connection = key.split(SEPARATOR)
    return state.account(provider, connection)


def _load_rest(stored: Any) -> Rest:
    """A stored rest; every lease of this process is newer than it."""
    if stored is None:
        return NO_REST
    wait = Wait(stored["wait"]) if stored["wait"] else None
    return Rest(stored["until"], wait, stored["step"], stepped_seq=0, set_seq=0)


def _dump_rest(rest: Rest) -> Any:
    return None if rest is NO_REST else {"until": rest.until, "wait": rest.wait, "step": rest.step}


def _dump_cooldown(state: RoutingState, key: str) -> Any:
    account = _account(state, key)
    return {"cooldown": _dump_rest(account.cooldown), "auth": _dump_rest(account.auth)}


def _load_cooldown(state: RoutingState, key: str, stored: Any) -> None:
    account = _account(state, key)
    account.cooldown, account.auth = _load_rest(stored["cooldown"]), _load_rest(stored["auth"])


def _dump_quota(state: RoutingState, key: str) -> Any:
    account = _account(state, key)
    return [[*asdict(window).values(), account.quota_at[window.name]] for window in account.quota.values()]


def _load_quota(state: RoutingState, key: str, stored: Any) -> None:
    account = _account(state, key)
    account.quota = {name: QuotaWindow(name, *window) for name, *window, _ in stored}
    account.quota_at = {row[0]: row[-1] for row in stored}


def _dump_lockout(state: RoutingState, key: str) -> Any:
    return _dump_rest(state.target(*key.split(SEPARATOR)).lockout)


def _load_lockout(state: RoutingState, key: str, stored: Any) -> None:
    state.target(*key.split(SEPARATOR)).lockout = _load_rest(stored)


def _dump_statistics(state: RoutingState, key: str) -> Any:
    return state.target(*key.split(SEPARATOR)).statistics.to_json()


def _load_statistics(state: RoutingState, key: str, stored: Any) -> None:
    statistics = TargetStatistics.from_json(stored)
    state.target(*key.split(SEPARATOR)).statistics = statistics
    state.expect_expiry(statistics.next_expiry())


def _dump_exclusion(state: RoutingState, key: str) -> Any:
    scope, candidate = key.split(SEPARATOR)
    return asdict(state.exclusion(scope, candidate))


def _load_exclusion(state: RoutingState, key: str, stored: Any) -> None:
    scope, candidate = key.split(SEPARATOR)
    state.exclusions[scope, candidate] = replace(Exclusion(**stored), probe="", probe_until=0)


def _dump_key(state: RoutingState, key: str) -> Any:
    usage = state.key(key)
    return [usage.day.period, usage.day.usd, usage.month.period, usage.month.usd]


def _load_key(state: RoutingState, key: str, stored: Any) -> None:
    day, day_usd, month, month_usd = stored
    usage = state.key(key)
    usage.day, usage.month = Spend(day, day_usd), Spend(month, month_usd)


Dump = Callable[[RoutingState, str], Any]
Load = Callable[[RoutingState, str, Any], None]
KINDS: Mapping[str, tuple[Dump, Load]] = MappingProxyType(
    {
        "breaker": (_dump_breaker, _load_breaker),
        "cooldown": (_dump_cooldown, _load_cooldown),
        "lockout": (_dump_lockout, _load_lockout),
        "quota": (_dump_quota, _load_quota),
        "exclusion": (_dump_exclusion, _load_exclusion),
        "key": (_dump_key, _load_key),
        "statistics": (_dump_statistics, _load_statistics),
    }
)


def dump(state: RoutingState, touched: Iterable[tuple[str, str]]) -> list[Row]:
    """The rows of these records as they are now."""
    return [(kind, stored_key(key), orjson.dumps(KINDS[kind][0](state, key))) for kind, key in touched]


def stored_key(key: str) -> str:
    """The key of a record as it is in its row."""
    return key.replace(SEPARATOR, STORED_SEPARATOR)


def as_seen(state: RoutingState, kind: str, key: str, now: int) -> Any:
    """A record for another process that decides now: what a probe in flight closes here is closed there."""
    value = KINDS[kind][0](state, key)
    if kind == "breaker":
        value["open_until"] = state.provider(key).breaker.recovers_at(now)
    if kind == "exclusion":
        exclusion = state.exclusion(*key.split(SEPARATOR))
        value["until"] = exclusion.recovers_at(now) if exclusion.until else 0
    return value


def load(state: RoutingState, rows: Iterable[Row]) -> list[tuple[str, str]]:
    """Puts stored records into a fresh state. Answers (kind, key) of the rows that could not be read."""
    unreadable = []
    for kind, key, text in rows:
        try:
            KINDS[kind][1](state, key.replace(STORED_SEPARATOR, SEPARATOR), orjson.loads(text))
        except (KeyError, TypeError, ValueError, IndexError):
            unreadable.append((kind, key))
    return unreadable
