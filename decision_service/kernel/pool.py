"""Pools: which candidates a policy considers for a key, before anything that changes from moment to moment.

A compiled pool depends on the roster, the policy and the key alone, so it is kept until one of them changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from decision_service.kernel.grammar import glob_match
from decision_service.kernel.live import Member, ProviderRecord, Records
from decision_service.kernel.model import (
    Candidate,
    Channel,
    Combo,
    Connection,
    EconomicTier,
    KeyPolicy,
    Override,
    Rejection,
    Step,
)
from decision_service.kernel.roster import Roster

ALWAYS_EXPANDED = frozenset({"auto", "reset-aware", "reset-window", "headroom", "quota-weighted"})
CHANNEL_STEP = Step("")


@dataclass(slots=True)
class Unit:
    """What a strategy orders: a step with its members, which follow one another in the chain.

    ``key`` names it within its combo: the step's id, with the connection where a step is expanded. ``place`` is its
    position as declared.
    """

    step: Step
    members: list[Member]
    key: str = ""
    place: int = 0

    @property
    def head(self) -> Member:
        """The member by which the unit is measured."""
        return self.members[0]


@dataclass(frozen=True, slots=True)
class Pool:
    """A compiled pool.

    ``every`` is the whole pool in pool order. ``units`` hold what passed the policy and preference filters, ``members``
    the same, flat.
    ``rejected`` is what they stopped. ``policy_filters`` names the policy filters that stopped something.
    ``opened`` names the preference filters that would have left nothing.
    """

    every: tuple[Member, ...]
    units: tuple[Unit, ...]
    members: tuple[Member, ...]
    rejected: Mapping[str, Rejection]
    policy_filters: tuple[str, ...]
    opened: tuple[str, ...]
    providers: tuple[ProviderRecord, ...]


def flatten(combo: Combo, roster: Roster) -> tuple[Step, ...]:
    """A combo's steps with every combo-ref replaced by the referenced steps, their weights scaled to its own."""
    return tuple(_flat(combo.steps, roster, roster.settings.combo_ref_max_depth, (combo.name,)))


def _flat(steps: Iterable[Step], roster: Roster, depth: int, path: tuple[str, ...]) -> Iterable[Step]:
    for step in steps:
        if not step.combo:
            yield step
            continue
        inner = roster.combos.get(step.combo)
        if inner is None or depth <= 0 or step.combo in path:
            continue
        found = list(_flat(inner.steps, roster, depth - 1, (*path, step.combo)))
        total = sum(s.weight for s in found)
        for s in found:
            weight = step.weight * (s.weight / total if total > 0 else 1 / len(found))
            yield replace(s, id=f"{step.id}.{s.id}", weight=weight)


RecordsOf = Callable[[Candidate], Records]


def _channel_units(roster: Roster, records: RecordsOf) -> Iterable[Unit]:
    connections = roster.connections
    for candidate in roster.pool:
        connection = connections[candidate.provider, candidate.connection]
        if connection.enabled and connection.usable and roster.providers[candidate.provider].enabled:
            yield Unit(CHANNEL_STEP, [Member(candidate, connection, records(candidate), CHANNEL_STEP)], candidate.id)


def _connections_of(step: Step, roster: Roster) -> Sequence[Connection]:
    if step.connection is None:
        return roster.accounts.get(step.provider, ())
    connection = roster.connections.get((step.provider, step.connection))
    return (connection,) if connection else ()


def _step_units(combo: Combo, roster: Roster, records: RecordsOf) -> Iterable[Unit]:
    expand = combo.config.connection_aware_expansion
    if expand is None:
        expand = roster.settings.connection_aware_expansion
    expand = expand or combo.strategy in ALWAYS_EXPANDED
    for step in flatten(combo, roster):
        members = []
        for connection in _connections_of(step, roster):
            candidate = roster.candidate(connection, step.model)
            members.append(Member(candidate, connection, records(candidate), step))
        if expand:
            share = replace(step, weight=step.weight / len(members)) if len(members) > 1 else step
            for member in members:
                member.step = share
                yield Unit(share, [member], f"{step.id}@{member.candidate.connection}")
        elif members:
            yield Unit(step, members, step.id)


Filter = tuple[str, Callable[[Member], str | None]]


def _policy_filters(roster: Roster, key: KeyPolicy | None, override: Override | None, model: str) -> list[Filter]:
    filters: list[Filter] = [("hidden", lambda m: "hidden model" if m.candidate.facts.hidden else None)]
    if roster.settings.hide_paid_models:
        filters.append(("paid", lambda m: None if m.candidate.economic_tier is EconomicTier.FREE else "paid model"))
    if key is not None and key.allowed_models:
        globs = key.allowed_models
        filters.append(("key_models", lambda m: None if _allowed(globs, m.candidate, model) else "not allowed"))
    if key is not None and key.allowed_connections:
        ids = key.allowed_connections
        filters.append(("key_connections", lambda m: None if m.candidate.connection in ids else "not allowed"))
    if override is not None and override.excluded:
        excluded = override.excluded
        filters.append(("override", lambda m: "excluded for this key" if m.id in excluded else None))
    return filters


def _allowed(globs: Sequence[str], candidate: Candidate, model: str) -> bool:
    names = (model, candidate.model, f"{candidate.provider}/{candidate.model}")
    return any(glob_match(pattern, name) for pattern in globs for name in names)


_CATEGORY_NEEDS = {"vision": "vision", "multimodal": "vision", "reasoning": "reasoning"}
_TIERS = {"free": EconomicTier.FREE, "pro": EconomicTier.PREMIUM}


def _preference_filters(channel: Channel) -> list[Filter]:
    filters: list[Filter] = []
    need, tier = _CATEGORY_NEEDS.get(channel.category), _TIERS.get(channel.tier)
    if need is not None:
        reason = f"not known for {channel.category}"
        filters.append(("category", lambda m: None if need in m.candidate.facts.has else reason))
    if tier is not None:
        filters.append(("tier", lambda m: None if m.candidate.economic_tier is tier else f"not {tier.value}"))
    return filters


def compile_pool(combo: Combo, model: str, roster: Roster, key_id: str, records: RecordsOf) -> Pool:
    """The pool of a policy for a key."""
    channel_pool = combo.channel is not None or (combo.strategy == "auto" and not combo.steps)
    units = list(_channel_units(roster, records) if channel_pool else _step_units(combo, roster, records))
    wanted = combo.config.candidate_pool
    if wanted and combo.strategy == "auto":
        units = [unit for unit in units if unit.head.candidate.provider in wanted]
    every = tuple(member for unit in units for member in unit.members)
    override = roster.overrides.get((key_id, combo.channel.name)) if combo.channel and key_id else None
    rejected: dict[str, Rejection] = {}
    fired = []
    for rule in _policy_filters(roster, roster.keys.get(key_id), override, model):
        before = len(rejected)
        units = _filtered(units, rule, rejected)
        fired += [rule[0]] if len(rejected) > before else []
    opened = []
    for rule in _preference_filters(combo.channel) if combo.channel else ():
        stopped: dict[str, Rejection] = {}
        left = _filtered(units, rule, stopped)
        if left or not units:
            units = left
            rejected |= stopped
        else:
            opened.append(rule[0])
    for place, unit in enumerate(units):
        unit.place = place
        for member in unit.members:
            member.unit_key = unit.key
    members = tuple(member for unit in units for member in unit.members)
    for place, member in enumerate(members):
        member.place = place
    providers = tuple({m.provider.id: m.provider for m in members}.values())
    return Pool(every, tuple(units), members, rejected, tuple(fired), tuple(opened), providers)


def _filtered(units: Iterable[Unit], rule: Filter, rejected: dict[str, Rejection]) -> list[Unit]:
    name, check = rule
    left = []
    for unit in units:
        kept = []
        for member in unit.members:
            reason = check(member)
            if reason is None:
                kept.append(member)
            else:
                rejected[member.id] = Rejection(name, reason)
        if kept:
            left.append(Unit(unit.step, kept, unit.key))
    return left
