"""All routing state in one place. Only ``apply`` and ``observe`` write it; everything else reads."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from types import MappingProxyType
from typing import TYPE_CHECKING

from decision_service.kernel.grammar import resolve
from decision_service.kernel.health import NOT_EXCLUDED, Exclusion
from decision_service.kernel.keys import Demand, KeyUsage
from decision_service.kernel.live import AccountRecord, ChangeLog, Member, ProviderRecord, Records, TargetRecord
from decision_service.kernel.model import Candidate, Combo, Operation, Shape
from decision_service.kernel.plan import Plan
from decision_service.kernel.pool import Pool, compile_pool
from decision_service.kernel.recall import Good, GoodKey, Pin, PinKey, Recent, Summary
from decision_service.kernel.roster import Roster

if TYPE_CHECKING:
    from decision_service.kernel.routers import RouterStrategy

POOLS_KEPT = 4_096
TICKETS_KEPT = 100_000
SUMMARIES_KEPT = 2_000


@dataclass(slots=True)
class Lease:
    """One in-flight slot: a call of a decision that is under way.

    ``seq`` numbers its start, ``after`` is the attempt whose end it began at. ``probes_breaker`` and
    ``probes_exclusion`` say which probe permits it holds, ``permit_until`` when they lapse; 0: it holds none.
    """

    member: Member
    place: int
    seq: int
    after: int = 0
    probes_breaker: bool = False
    probes_exclusion: bool = False
    permit_until: int = 0

    def lapsed(self, now: int) -> bool:
        """It was a probe, and took too long to count as one."""
        return 0 < self.permit_until <= now


@dataclass(slots=True)
class Ticket:
    """What is remembered of a decision.

    ``chain`` holds the plan's calls in order, ``timeouts`` their time-outs; ``plan`` says how they belong together,
    None: one after the other. ``leases`` are the live ones by place in the chain. ``seq`` numbers the decision: a
    breaker that moved later is of a newer generation. ``expires_at`` ends every lease. ``pin_key`` and ``good_key`` say
    where a success is remembered. ``explored`` holds the scores of a decision whose first call was explored.
    ``reserved`` is what it holds of its key's limits. ``strategy`` is the one that ordered the chain.
    """

    id: str
    seq: int
    at: int
    expires_at: int
    combo: Combo
    scope: str
    shape: Shape
    operation: Operation
    api_key_id: str
    session_id: str
    chain: Sequence[Member]
    timeouts: Sequence[int]
    strategy: str
    plan: Plan | None = None
    pin_key: PinKey | None = None
    good_key: GoodKey | None = None
    explored: Mapping[str, float] | None = None
    reserved: Demand | None = None
    leases: dict[int, Lease] = field(default_factory=dict)
    applied: set[int] = field(default_factory=set)
    latest: int = 0
    over: bool = False
    abandoned: bool = False

    def place_of(self, target_id: str) -> int | None:
        """The place in the plan that a target id names."""
        if self.plan is not None:
            return next((place for place, call in enumerate(self.plan.calls) if call.id == target_id), None)
        if target_id.isdecimal() and 1 <= int(target_id) <= len(self.chain):
            return int(target_id) - 1
        return None

    def scope_of(self, place: int) -> str:
        """The policy that a call belongs to: a nested plan's combo, else the decision's own."""
        return (self.plan.calls[place].scope if self.plan is not None else "") or self.scope

    def following(self, place: int) -> int | None:
        """The place that is tried when the call at this one fails."""
        if self.plan is not None:
            return self.plan.following(place)
        return place + 1 if place + 1 < len(self.chain) else None


@dataclass(slots=True)
class Batch:
    """Consecutive successes on one step: of round-robin, or of a sticky weighted draw."""

    step: str
    member: str
    successes: int


@dataclass(slots=True)
class Rotation:
    """Where a rotating strategy stands: a step id with its index as declared, and the batch under way."""

    step: str = ""
    index: int = 0
    batch: Batch | None = None


@dataclass(slots=True)
class Deck:
    """Cards dealt in this cycle, by unit, and the last one."""

    dealt: set[str] = field(default_factory=set)
    last: str = ""


class Exclusions(dict[tuple[str, str], Exclusion]):
    """Exclusions by (scope, candidate id), readable by scope too."""

    def __init__(self) -> None:
        super().__init__()
        self._scopes: dict[str, dict[str, Exclusion]] = {}

    def __setitem__(self, key: tuple[str, str], exclusion: Exclusion) -> None:
        super().__setitem__(key, exclusion)
        self._scopes.setdefault(key[0], {})[key[1]] = exclusion

    def of(self, scope: str) -> Mapping[str, Exclusion]:
        """The exclusions of one scope, by candidate id."""
        return self._scopes.get(scope, _NO_EXCLUSIONS)


_NO_EXCLUSIONS: Mapping[str, Exclusion] = {}
NO_ROUTERS: Mapping[str, RouterStrategy] = MappingProxyType({})


class RoutingState:
    """The state that decisions read and events change.

    ``seq`` numbers events; ``log`` tells which records changed. ``counters`` belong to rotating groups; ``rotations``,
    ``decks`` and ``deficits`` to combos; ``exclusions`` to (scope, candidate id); ``step_leases`` to (scope, unit key);
    ``pins``, ``goods`` and ``summaries`` to conversations. ``touched`` collects what changed and outlives a restart, as
    (kind, key); whoever stores it clears it. ``routers`` are the router strategies beside the built-in ones, by name.
    """

    def __init__(self, roster: Roster, routers: Mapping[str, RouterStrategy] = NO_ROUTERS) -> None:
        self.roster = roster
        self.routers = routers
        self.seq = 0
        self.log = ChangeLog()
        self.providers: dict[str, ProviderRecord] = {}
        self.accounts: dict[tuple[str, str], AccountRecord] = {}
        self.targets: dict[tuple[str, str, str], TargetRecord] = {}
        self.exclusions = Exclusions()
        self.counters: dict[str, int] = {}
        self.rotations: dict[str, Rotation] = {}
        self.decks: dict[str, Deck] = {}
        self.deficits: dict[str, Mapping[str, float]] = {}
        self.step_leases: dict[tuple[str, str], int] = {}
        self.keys: dict[str, KeyUsage] = {}
        self.pins: Recent[PinKey, Pin] = Recent()
        self.goods: Recent[GoodKey, Good] = Recent()
        self.summaries: Recent[GoodKey, Summary] = Recent(SUMMARIES_KEPT)
        self.tickets: OrderedDict[str, Ticket] = OrderedDict()
        self.touched: set[tuple[str, str]] = set()
        self._pools: OrderedDict[tuple[str, str, str], Pool] = OrderedDict()
        self._combos: OrderedDict[str, Combo] = OrderedDict()
        self._timers: list[tuple[int, int, str]] = []
        self._expiry: int | None = None

    def records(self, candidate: Candidate) -> Records:
        """The live records of a candidate, made when it is first seen."""
        provider = self.provider(candidate.provider)
        account = self.account(candidate.provider, candidate.connection)
        return provider, account, self.target(candidate.provider, candidate.connection, candidate.model)

    def provider(self, provider: str) -> ProviderRecord:
        record = self.providers.get(provider)
        if record is None:
            record = self.providers[provider] = ProviderRecord(provider, self.log)
        return record

    def account(self, provider: str, connection: str) -> AccountRecord:
        record = self.accounts.get((provider, connection))
        if record is None:
            record = self.accounts[provider, connection] = AccountRecord(provider, connection, self.log)
        return record

    def target(self, provider: str, connection: str, model: str) -> TargetRecord:
        record = self.targets.get((provider, connection, model))
        if record is None:
            record = self.targets[provider, connection, model] = TargetRecord(self.log)
        return record

    def combo(self, model: str) -> Combo:
        """The policy that a model string names; refuses unknown ones."""
        combo = self._combos.get(model)
        if combo is None:
            combo = resolve(model, self.roster)
            self._combos[model] = combo
            if len(self._combos) > POOLS_KEPT:
                self._combos.popitem(last=False)
        return combo

    def pool(self, combo: Combo, model: str, key_id: str) -> Pool:
        """The compiled pool of a policy for a key."""
        key = (combo.name, model, key_id)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = compile_pool(combo, model, self.roster, key_id, self.records)
            if len(self._pools) > POOLS_KEPT:
                self._pools.popitem(last=False)
        return pool

    def change_roster(self, roster: Roster) -> None:
        """Another roster from now on; records of what is still there, or still in a plan under way, go on.

        No conversation is bound to a connection that has changed.
        """
        changed = {key for key, old in self.roster.connections.items() if roster.connections.get(key) != old}
        if changed:
            self.pins.keep(lambda pin: (pin.provider, pin.connection) not in changed)
        self.roster = roster
        self._pools.clear()
        self._combos.clear()
        gone = (self.accounts.keys() | {target[:2] for target in self.targets}) - roster.connections.keys()
        if not gone:
            return
        for ticket in self.tickets.values():
            if not ticket.over:
                gone -= {(m.candidate.provider, m.candidate.connection) for m in ticket.chain}
        for key in gone:
            self.accounts.pop(key, None)
        for target in [t for t in self.targets if t[:2] in gone]:
            del self.targets[target]

    def key(self, key_id: str) -> KeyUsage:
        """What a key has used."""
        usage = self.keys.get(key_id)
        if usage is None:
            usage = self.keys[key_id] = KeyUsage()
        return usage

    def exclusion(self, scope: str, candidate_id: str) -> Exclusion:
        return self.exclusions.get((scope, candidate_id), NOT_EXCLUDED)

    def schedule(self, due: int, ticket_id: str) -> None:
        """Wakes a ticket up at an instant."""
        heappush(self._timers, (due, self.seq, ticket_id))

    def expect_expiry(self, at: int | None) -> None:
        """Some statistics turn a day old at this instant."""
        if at is not None and (self._expiry is None or at < self._expiry):
            self._expiry = at

    def expire_statistics(self, now: int) -> None:
        """Statistics forget what is a day old, once it is."""
        if self._expiry is None or now < self._expiry:
            return
        self._expiry = None
        for target in self.targets.values():
            if target.statistics.expire(now):
                target.log.note(target)
            self.expect_expiry(target.statistics.next_expiry())

    def due(self, now: int) -> str | None:
        """The next ticket whose instant has come; each call takes one off."""
        if not self._timers or self._timers[0][0] > now:
            return None
        return heappop(self._timers)[2]
