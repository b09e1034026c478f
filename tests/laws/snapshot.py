"""Everything that routing state holds, as plain values: equal snapshots are equal states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from decision_service.kernel.live import AccountRecord, Member
from decision_service.kernel.state import RoutingState
from decision_service.kernel.statistics import TargetStatistics

# Made from the rest, and made again when it is gone.
DERIVED = frozenset({"_pools", "_combos", "log"})


def snapshot(state: RoutingState, now: int) -> dict[str, Any]:
    """Every attribute of the state but what is derived."""
    return {name: plain(value, now) for name, value in vars(state).items() if name not in DERIVED}


def plain(value: Any, now: int) -> Any:
    """A value as numbers, texts, tuples and mappings."""
    if isinstance(value, Mapping):
        return {plain(key, now): plain(item, now) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(plain(item, now) for item in value)
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    for kind, show in SHOWN.items():
        if isinstance(value, kind):
            return show(value, now)
    names = [f.name for f in fields(value)] if is_dataclass(value) else getattr(value, "__slots__", ())
    if names and not isinstance(value, str):
        return {name: plain(getattr(value, name), now) for name in names if name != "log"}
    return value


def _statistics(value: TargetStatistics, now: int) -> Any:
    names = ("p95_ms", "std_ms", "error_rate", "reliability", "quality", "pinned")
    return value.to_json(), [getattr(value, name) for name in names]


def _account(value: AccountRecord, now: int) -> Any:
    # What is older than a minute is trimmed by whoever looks; it counts for nothing either way.
    recent = [at for at in value.recent if at > now - 60_000]
    return {name: plain(getattr(value, name), now) for name in AccountRecord.__slots__ if name != "recent"}, recent


SHOWN: Mapping[type, Callable[[Any, int], Any]] = {
    Member: lambda member, now: member.id,
    TargetStatistics: _statistics,
    AccountRecord: _account,
}
