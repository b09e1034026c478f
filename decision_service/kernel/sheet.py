"""Scores of a whole pool, kept ready: what only events change is summed per member once, and again when it changes.

A score is linear in what depends on the scored set or the request: cost, latency, deviation and window fit against
the set's maxima. The rest of it is one number a member, its base. ``scoring.score`` computes the same the long way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import filterfalse

from decision_service.kernel.factors import (
    BOOTSTRAP_P95_MS,
    FACTORS,
    HEALTH,
    LEAST_STD_MS,
    TIER_DISTANCE,
    median,
    survey,
)
from decision_service.kernel.knowledge.fitness import fitness
from decision_service.kernel.knowledge.tiers import TIER_RANK, tier_match
from decision_service.kernel.live import ChangeLog, Member, Record
from decision_service.kernel.model import EconomicTier, ProviderClass, Request
from decision_service.kernel.statistics import clamp01

UNKNOWN = -1.0
# What a row's base holds of the factors that are corrected at each decision.
ASSUMED = {"health": 1.0, "sessionAvailability": 1.0, "resetWindowAffinity": 0.5}
# Factors that only events change: an explanation has them kept. The others are told by column, or where they differ.
EVENTFUL = ("quota", "taskFit", "tierPriority", "tierAffinity", "specificityMatch", "quality", "reliability")
# Density of a provider's only connection, and of one among several while nothing is in flight.
ALONE, IDLE = 0.5, 1.0


@dataclass(slots=True)
class Columns:
    """One list a value, aligned to the members. Unknown latency and deviation read -1.

    ``inverses`` are 1/window, 0 where the window is unknown.
    """

    bases: list[float]
    costs: list[float]
    p95s: list[float]
    stds: list[float]
    inverses: list[float]

    def at(self, places: Sequence[int]) -> Columns:
        """The same for some members only."""
        lists = (self.bases, self.costs, self.p95s, self.stds, self.inverses)
        return Columns(*([values[i] for i in places] for values in lists))


class Sheet:
    """Kept columns of the members of a pool: for one set of ``weights``, one task type, and the economic tier that a
    specificity hint recommends (None: no hint).
    """

    def __init__(
        self, members: Sequence[Member], weights: Mapping[str, float], task: str, hinted: EconomicTier | None
    ) -> None:
        self._members = members
        self.weights = weights
        self._task = task
        self._hinted = hinted
        self._places: dict[Record, list[int]] = {}
        self._crowds: dict[int, Sequence[int]] = {}
        self._busy: set[int] = set()
        self._oauth = [i for i, m in enumerate(members) if m.candidate.provider_class is ProviderClass.OAUTH]
        self._open: set[int] = set()
        self._windowed: set[int] = set()
        self._seen: int | None = None
        self._stale_at: int | None = None
        self._columns = Columns([], [], [], [], [])
        self._eventful: dict[int, tuple[float, ...]] = {}
        self._index()

    def _index(self) -> None:
        by_provider: dict[str, list[int]] = {}
        for place, member in enumerate(self._members):
            for record in (member.provider, member.account, member.target):
                self._places.setdefault(record, []).append(place)
            by_provider.setdefault(member.provider.id, []).append(place)
        for places in by_provider.values():
            if len({self._members[i].account.key for i in places}) > 1:
                self._crowds.update(dict.fromkeys(places, places))

    # Keeping

    def sync(self, log: ChangeLog, now: int) -> None:
        """Takes in what changed since the last time."""
        changed = None if self._seen is None else log.since(self._seen)
        if changed is None or (self._stale_at is not None and now >= self._stale_at):
            self._stale_at = None
            self._columns = Columns(*([0.0] * len(self._members) for _ in range(5)))
            self._take(range(len(self._members)), now)
        else:
            for record in changed:
                self._take(self._places.get(record, ()), now)
        self._seen = log.count

    def _take(self, places: Iterable[int], now: int) -> None:
        columns = self._columns
        for place in places:
            member = self._members[place]
            self._eventful.pop(place, None)
            statistics = member.target.statistics
            alone = place not in self._crowds
            columns.bases[place] = self._base(member, ALONE if alone else IDLE, now)
            columns.costs[place] = member.cost
            columns.p95s[place] = UNKNOWN if statistics.p95_ms is None else statistics.p95_ms
            columns.stds[place] = UNKNOWN if statistics.std_ms is None else statistics.std_ms
            columns.inverses[place] = 1.0 / member.window if member.window else 0.0
            _keep(self._open, place, member.provider.breaker.open)
            _keep(self._busy, place, not alone and member.account.in_flight > 0)
            _keep(self._windowed, place, bool(member.account.quota))
            for window in member.account.quota.values():
                end = member.account.ends_at(window)
                if end is not None and end > now:
                    self._stale_at = min(self._stale_at or end, end)

    def _base(self, member: Member, density: float, now: int) -> float:
        weights, statistics = self.weights, member.target.statistics
        remaining, tier = member.account.remaining(now), member.candidate.economic_tier
        affinity = match = 0.5
        if self._hinted is not None:
            affinity = TIER_DISTANCE[abs(TIER_RANK[tier] - TIER_RANK[self._hinted])]
            match = tier_match(tier, self._hinted)
        return (
            sum(weights[name] * value for name, value in ASSUMED.items())
            + weights["connectionDensity"] * density
            + weights["costInv"]
            + weights["latencyInv"]
            + weights["stability"]
            + weights["quota"] * (1.0 if remaining is None else remaining)
            + weights["taskFit"] * clamp01(fitness(member.candidate, self._task))
            + weights["tierPriority"] * member.tier_priority
            + weights["tierAffinity"] * affinity
            + weights["specificityMatch"] * match
            + weights["contextAffinity"] * (1.0 if member.window else 0.5)
            + weights["quality"] * clamp01(statistics.quality)
            + weights["reliability"] * clamp01(statistics.reliability)
        )

    # Explaining

    def factors(
        self, places: Sequence[int] | None, request: Request, now: int, cache_winner: str
    ) -> dict[str, list[float]]:
        """Every factor of the members at these places (None: of all), in their order, each in [0,1].

        The long way is ``scoring.breakdown``, member by member.
        """
        members, columns = self._members, self._columns if places is None else self._columns.at(places)
        scored = range(len(members)) if places is None else places
        position = scored if places is None else {place: i for i, place in enumerate(places)}
        here = position.__contains__
        scene = survey((), request, self._task, now, cache_winner)
        for place in filterfalse(self._eventful.__contains__, scored):
            self._eventful[place] = tuple(clamp01(FACTORS[name](members[place], scene)) for name in EVENTFUL)
        rows = [self._eventful[place] for place in scored]
        table = dict(zip(EVENTFUL, map(list, zip(*rows, strict=True)), strict=True))
        p95s, stds = _known(columns)
        dearest, slowest, widest = max(0.001, *columns.costs), max(1.0, *p95s), max(0.001, *stds)
        table["costInv"] = [1.0 - cost / dearest for cost in columns.costs]
        table["latencyInv"] = [1.0 - p95 / slowest for p95 in p95s]
        table["stability"] = [1.0 - std / widest for std in stds]
        needed = scene.needed
        table["contextAffinity"] = [
            (1.0 - needed * i if needed * i < 1.0 else 0.0) if i else 0.5 for i in columns.inverses
        ]
        table["connectionDensity"] = [IDLE if place in self._crowds else ALONE for place in scored]
        table["cacheAffinity"] = [0.0] * len(scored)
        for name, differing in (
            ("health", self._open),
            ("sessionAvailability", self._oauth),
            ("resetWindowAffinity", self._windowed),
        ):
            table[name] = [ASSUMED[name]] * len(scored)
            for place in filter(here, differing):
                table[name][position[place]] = clamp01(FACTORS[name](members[place], scene))
        for place, density in self._densities(places):
            table["connectionDensity"][position[place]] = density
        for place in scored if cache_winner else ():
            table["cacheAffinity"][position[place]] = FACTORS["cacheAffinity"](members[place], scene)
        return {name: table[name] for name in FACTORS}

    # Scoring

    def scores(self, places: Sequence[int] | None, request: Request, now: int, cache_winner: str) -> list[float]:
        """Scores of the members at these places (None: of all), in their order, each in [0,1]."""
        columns = self._columns if places is None else self._columns.at(places)
        weights = self.weights
        p95s, stds = _known(columns)
        per_cost = weights["costInv"] / max(0.001, *columns.costs)
        per_ms = weights["latencyInv"] / max(1.0, *p95s)
        per_std = weights["stability"] / max(0.001, *stds)
        needed = request.input_tokens + (request.max_output_tokens or 0)
        per_inverse = weights["contextAffinity"] * needed
        totals = [
            base - per_cost * cost - per_ms * p95 - per_std * std - per_inverse * inverse
            for base, cost, p95, std, inverse in zip(
                columns.bases, columns.costs, p95s, stds, columns.inverses, strict=True
            )
        ]
        for position, change in self._corrections(places, request, now, cache_winner):
            totals[position] += change
        if min(totals) < 0.0 or max(totals) > 1.0:
            return [clamp01(total) for total in totals]
        return totals

    def _corrections(
        self, places: Sequence[int] | None, request: Request, now: int, cache_winner: str
    ) -> Iterator[tuple[int, float]]:
        """What changes from moment to moment, as differences from what the bases assume."""
        weights, members = self.weights, self._members
        position = range(len(members)) if places is None else {place: i for i, place in enumerate(places)}
        here = position.__contains__
        for place in filter(here, self._open):
            phase = members[place].provider.breaker.phase(now)
            yield position[place], weights["health"] * (HEALTH[phase] - ASSUMED["health"])
        if weights["sessionAvailability"] > 0.0:
            for place in filter(here, self._oauth):
                others = members[place].account.live_sessions(request.session_id, now)
                yield position[place], weights["sessionAvailability"] * (1.0 / (1 + others) - 1.0)
        if weights["connectionDensity"] > 0.0:
            for place, density in self._densities(places):
                yield position[place], weights["connectionDensity"] * (density - IDLE)
        if weights["resetWindowAffinity"] > 0.0:
            scene = survey((), request, self._task, now)
            for place in filter(here, self._windowed):
                value = clamp01(FACTORS["resetWindowAffinity"](members[place], scene))
                yield position[place], weights["resetWindowAffinity"] * (value - 0.5)
        if weights["cacheAffinity"] > 0.0 and cache_winner:
            for place, member in enumerate(members):
                if member.id == cache_winner and here(place):
                    yield position[place], weights["cacheAffinity"]

    def _densities(self, places: Sequence[int] | None) -> Iterator[tuple[int, float]]:
        """1 less a connection's share of its provider's live leases, for all where it is not what the bases assume."""
        busy = self._busy if places is None else self._crowds.keys() & places
        for crowd in {id(self._crowds[place]): self._crowds[place] for place in busy}.values():
            scored = crowd if places is None else [place for place in crowd if place in busy]
            in_flight = {self._members[i].account.key: self._members[i].account.in_flight for i in scored}
            total = sum(in_flight.values())
            for place in scored:
                if len(in_flight) == 1:
                    yield place, ALONE
                elif total > 0:
                    yield place, 1.0 - self._members[place].account.in_flight / total


def _keep(places: set[int], place: int, wanted: bool) -> None:
    if wanted:
        places.add(place)
    else:
        places.discard(place)


def _known(columns: Columns) -> tuple[list[float], list[float]]:
    """Latencies and deviations with what is unknown filled in, as ``factors`` does it."""
    p95s, stds = columns.p95s, columns.stds
    if min(p95s) < 0.0:
        known = [p95 for p95 in p95s if p95 >= 0.0]
        bootstrap = median(known) if known else BOOTSTRAP_P95_MS
        p95s = [bootstrap if p95 < 0.0 else p95 for p95 in p95s]
    if min(stds) < 0.0:
        stds = [max(LEAST_STD_MS, 0.1 * p95) if std < 0.0 else std for std, p95 in zip(stds, p95s, strict=True)]
    return p95s, stds
