"""The gate over a pool: who may be chosen now. Only members that have something on record are looked at each time."""

from __future__ import annotations

from collections.abc import Sequence

from decision_service.kernel.live import ChangeLog, Member, Record
from decision_service.kernel.model import Rejection
from decision_service.kernel.screening import Needs, incapable, unavailable


class Gate:
    """Keeps which members of a pool are troubled, and what every member can do.

    ``least_window`` and ``least_output`` are the smallest known limits, ``common`` what all have, ``lacking`` what any
    is known to lack: a call that asks for less than that needs no look at single members.
    """

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members
        self._places: dict[Record, list[int]] = {}
        self._troubled: set[int] = set()
        self._seen: int | None = None
        facts = [member.candidate.facts for member in members]
        self._least_window = min((f.context_window for f in facts if f.context_window), default=None)
        self._least_output = min((f.max_output for f in facts if f.max_output), default=None)
        self._common = frozenset.intersection(*(f.has for f in facts)) if facts else frozenset()
        self._lacking = frozenset().union(*(f.lacks for f in facts))
        for place, member in enumerate(members):
            for record in (member.provider, member.account, member.target):
                self._places.setdefault(record, []).append(place)

    def stops(self, needs: Needs, log: ChangeLog, now: int) -> dict[int, Rejection]:
        """Who is stopped now, by place, and why."""
        self._sync(log)
        stops: dict[int, Rejection] = {}
        for place in sorted(self._troubled):
            stop = unavailable(self._members[place], now)
            if stop is not None:
                stops[place] = stop
        if not self._all_capable(needs):
            for place, member in enumerate(self._members):
                if place not in stops and (stop := incapable(member, needs)) is not None:
                    stops[place] = stop
        return stops

    def any_troubled(self, log: ChangeLog) -> bool:
        """Something is on record of some member."""
        self._sync(log)
        return bool(self._troubled)

    def _sync(self, log: ChangeLog) -> None:
        changed = None if self._seen is None else log.since(self._seen)
        if changed is None:
            self._troubled = {place for place, member in enumerate(self._members) if not member.untroubled}
        else:
            for record in changed:
                for place in self._places.get(record, ()):
                    if self._members[place].untroubled:
                        self._troubled.discard(place)
                    else:
                        self._troubled.add(place)
        self._seen = log.count

    def _all_capable(self, needs: Needs) -> bool:
        window, output = self._least_window, self._least_output
        return (
            needs.positive <= self._common
            and needs.tolerant.isdisjoint(self._lacking)
            and (window is None or (window >= needs.tokens and window >= needs.floor))
            and (output is None or output >= needs.output)
        )
