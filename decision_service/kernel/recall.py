"""What is remembered of served requests: session pins, the last known good, and prompt-cache affinity."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Generic, TypeVar

from decision_service.kernel.live import Member
from decision_service.kernel.model import MINUTE, Combo, Request
from decision_service.kernel.roster import Roster

SESSION_TTL_MS = 15 * MINUTE
LEAST_QUOTA_LEFT = 0.15
KEPT = 100_000

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A bounded map that forgets its oldest entries."""

    __slots__ = ("_entries", "_most")

    def __init__(self, most: int = KEPT) -> None:
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._most = most

    def get(self, key: K) -> V | None:
        return self._entries.get(key)

    def put(self, key: K, value: V) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def drop(self, key: K) -> None:
        self._entries.pop(key, None)

    def keep(self, wanted: Callable[[V], bool]) -> None:
        """Forgets every entry that is not wanted."""
        for key in [key for key, value in self._entries.items() if not wanted(value)]:
            del self._entries[key]

    def __len__(self) -> int:
        return len(self._entries)


PinKey = tuple[str, str, str]
GoodKey = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pin:
    """Where a conversation was served last. ``seq`` numbers the success; a later failure of the target voids it."""

    candidate: str
    provider: str
    connection: str
    seq: int
    until: int


@dataclass(frozen=True, slots=True)
class Good:
    """The candidate that last succeeded in a scope. ``seq`` numbers its decision; ``until`` None: it does not age."""

    candidate: str
    provider: str
    model: str
    seq: int
    until: int | None


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of a conversation, made while one connection served it. Held in memory only."""

    text: str
    provider: str
    connection: str
    until: int


def summary_key(request: Request, combo: Combo) -> GoodKey | None:
    """Summaries belong to (API key, combo, session)."""
    return (request.api_key_id, combo.name, request.session_id) if request.session_id else None


def pin_key(request: Request) -> PinKey | None:
    """Pins belong to (API key, requested model string, session); without a session there are none."""
    return (request.api_key_id, request.model, request.session_id) if request.session_id else None


def good_key(request: Request, combo: Combo) -> GoodKey:
    """Scope of the last known good: of a channel the key, channel and session; of a combo itself or the session."""
    if combo.channel is not None:
        return (combo.name, request.api_key_id, request.session_id)
    if combo.config.lkgp_scope == "session" and request.session_id:
        return (combo.name, request.api_key_id, request.session_id)
    return (combo.name,)


def remembers_good(combo: Combo) -> bool:
    """Successes under this combo are remembered as last known good."""
    return combo.strategy == "lkgp" or (combo.strategy == "auto" and combo.config.lkgp_enabled)


def sticky(request: Request, combo: Combo, roster: Roster) -> bool:
    """Session stickiness is on for this combo."""
    off = combo.config.disable_session_stickiness
    return bool(request.session_id) and not (roster.settings.disable_session_stickiness if off is None else off)


def pinned(members: Iterable[Member], pin: Pin | None, now: int) -> Member | None:
    """The member that a conversation goes back to: its candidate, else the first one of its connection.

    None when the pin has aged, its target has failed since, or its connection has little quota left.
    """
    if pin is None or now >= pin.until:
        return None
    found: Member | None = None
    for member in members:
        if member.id == pin.candidate:
            found = member
            break
        same = member.candidate.connection == pin.connection and member.candidate.provider == pin.provider
        if same and found is None:
            found = member
    if found is None or found.target.failed_seq > pin.seq:
        return None
    remaining = found.account.remaining(now)
    return None if remaining is not None and remaining <= LEAST_QUOTA_LEFT else found


def last_good(members: Sequence[Member], good: Good | None, now: int) -> Member | None:
    """The last known good if it is there, else another candidate of its provider, one of its model first."""
    if good is None or (good.until is not None and now >= good.until):
        return None
    ranked = [m for m in members if m.candidate.provider == good.provider]
    if not ranked:
        return None
    return min(ranked, key=lambda m: (m.id != good.candidate, m.candidate.model != good.model))


def cache_key(request: Request, roster: Roster) -> str:
    """The key by which requests with a common prefix find the same connection; empty: none, or switched off."""
    if not roster.settings.prompt_cache_affinity_enabled:
        return ""
    return request.prompt_cache_key or request.prompt_prefix_hash


def rendezvous(key: str, connection: str) -> bytes:
    """The weight of a connection for a key; the highest wins."""
    return sha256(f"{key}\0{connection}".encode()).digest()


def rendezvous_winner(members: Iterable[Member], key: str) -> str:
    """Id of the member whose connection wins a key."""
    best = max(members, key=lambda m: rendezvous(key, m.candidate.connection))
    return best.id


def displaces(good: Good | None, newer: Good, explored: Mapping[str, float] | None) -> bool:
    """Whether a success becomes the last known good of its scope.

    An earlier-decided success never overwrites a later one's. What was explored displaces only what it scored at least
    as high as, in that decision's own scores, or what was not in its pool.
    """
    if good is None:
        return True
    if newer.seq < good.seq:
        return False
    if explored is None or good.candidate not in explored or good.candidate == newer.candidate:
        return True
    return explored[newer.candidate] >= explored[good.candidate]
