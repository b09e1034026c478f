"""Pools: which candidates a policy considers for a key, before anything that changes from moment to moment.

A compiled pool depends on the roster, the policy and the key alone, so it is kept until one of them changes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from decision_service.kernel.gate import Gate
from decision_service.kernel.grammar import glob_match
from decision_service.kernel.live import Member, Records
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
from decision_service.kernel.sheet import Sheet
from decision_service.kernel.weights import normalised, shares

SHEETS_KEPT = 16
EXTRA = "extra"
NO_OVERRIDE = Override()
SheetKey = tuple[int, str, EconomicTier | None]
ALWAYS_EXPANDED = frozenset({"auto", "reset-aware", "reset-window", "headroom", "quota-weighted"})
# Under these a candidate is one choice, by however many steps it comes.
ONCE_EACH = ALWAYS_EXPANDED | {"random", "lkgp"}
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


class Pool:
    """A compiled pool.

    ``every`` is the whole pool in pool order. ``units`` hold what passed the policy and preference filters, ``members``
    the same, flat, with the ``judges`` that a fusion names. ``rejected`` is what those stopped, ``opened`` the
    preference filters that would have left nothing. ``flat``: every unit has one member, and no candidate stands twice.
    ``limited``: some step has a limit of live leases of its own. ``weights`` are the combo's own, normalised.
    ``multipliers`` on scores and the ``strategy`` are what a key changes; both empty: nothing. ``panel`` is the units
    with those that have nobody left: combos that a fusion refers to, and empty places where each has a role.
    ``summarizers`` may make the summaries of a context-relay; they are no part of the pool.
    ``declared`` has the places of all units by key, before any filter: rotations run over the same steps whoever asks.
    """

    __slots__ = (
        "_sheets",
        "declared",
        "every",
        "flat",
        "gate",
        "judges",
        "limited",
        "members",
        "multipliers",
        "opened",
        "panel",
        "providers",
        "rejected",
        "strategy",
        "summarizers",
        "units",
        "weights",
    )

    def __init__(
        self,
        every: Sequence[Member],
        units: Sequence[Unit],
        rejected: Mapping[str, Rejection],
        opened: Sequence[str],
        weights: Mapping[str, float] | None = None,
        override: Override = NO_OVERRIDE,
        judges: Sequence[Unit] = (),
        summarizers: Sequence[Unit] = (),
    ) -> None:
        self.every = every
        self.panel = tuple(units)
        self.units = tuple(unit for unit in units if unit.members)
        self.judges = tuple(judges)
        self.summarizers = tuple(member for unit in summarizers for member in unit.members)
        self.members = tuple(member for unit in (*self.units, *judges) for member in unit.members)
        self.rejected = rejected
        self.opened = tuple(opened)
        self.weights = weights
        self.multipliers = override.multipliers
        self.strategy = "priority" if override.order else override.strategy
        self.providers = tuple({m.provider.id: m.provider for m in self.members}.values())
        self.flat = len({m.id for m in self.members}) == len(self.members) == len(self.units)
        self.declared = {key: place for place, key in enumerate(dict.fromkeys(m.unit_key for m in every))}
        self.limited = any(unit.step.max_concurrent for unit in units)
        self.gate = Gate(self.members)
        self._sheets: dict[SheetKey, Sheet] = {}
        for place, member in enumerate(self.members):
            member.place = place
        for place, unit in enumerate(self.units):
            unit.place = place

    def sheet(self, weights: Mapping[str, float], task_type: str, hinted: EconomicTier | None) -> Sheet:
        """The kept scores for these weights, task and recommended tier; only the last few are kept."""
        key = (id(weights), task_type, hinted)
        sheet = self._sheets.get(key)
        if sheet is None or sheet.weights is not weights:
            while len(self._sheets) >= SHEETS_KEPT:
                del self._sheets[next(iter(self._sheets))]
            sheet = self._sheets[key] = Sheet(self.members, weights, task_type, hinted)
        return sheet


def flatten(combo: Combo, roster: Roster) -> tuple[Step, ...]:
    """A combo's steps with every combo-ref replaced by the referenced steps.

    Their weights are scaled to its own; its prompt, where it has one, takes the place of theirs.
    """
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
        parts = shares([s.weight for s in found])
        for s, part in zip(found, parts, strict=True):
            yield replace(s, id=f"{step.id}.{s.id}", weight=step.weight * part, prompt=step.prompt or s.prompt)


RecordsOf = Callable[[Candidate], Records]


def _channel_units(roster: Roster, records: RecordsOf) -> Iterable[Unit]:
    found = [(c, roster.connections[c.provider, c.connection]) for c in roster.pool]
    served = [(c, connection) for c, connection in found if connection.enabled and connection.usable]
    in_earnest = [(c, connection) for c, connection in served if not connection.standby]
    for candidate, connection in in_earnest or served:
        yield Unit(CHANNEL_STEP, [Member(candidate, connection, records(candidate), CHANNEL_STEP)], candidate.id)


def _connections_of(step: Step, roster: Roster) -> Sequence[Connection]:
    if step.connection is None:
        accounts = roster.accounts.get(step.provider, ())
        return [c for c in accounts if not c.closed or step.model in c.models] or accounts
    connection = roster.connections.get((step.provider, step.connection))
    return (connection,) if connection else ()


def _step_units(combo: Combo, roster: Roster, records: RecordsOf) -> Iterable[Unit]:
    expand = combo.config.connection_aware_expansion
    if expand is None:
        expand = roster.settings.connection_aware_expansion
    expand = expand or (combo.strategy in ALWAYS_EXPANDED and not combo.config.agentic_enabled)
    for step in combo.steps if _has_roles(combo) else flatten(combo, roster):
        members = _members_of(step, combo, roster, records)
        if step.combo and combo.strategy == "fusion":
            yield Unit(step, [], step.id)
        elif expand:
            share = replace(step, weight=step.weight / len(members)) if len(members) > 1 else step
            for member in members:
                member.step = share
                yield Unit(share, [member], f"{step.id}@{member.candidate.connection}")
        else:
            yield Unit(step, members, step.id)


def _has_roles(combo: Combo) -> bool:
    """Each step has a place of its own in the plan, whoever is left to take it; a reference stands for one step."""
    return combo.strategy in ("fusion", "pipeline") or combo.config.agentic_enabled


def _members_of(step: Step, combo: Combo, roster: Roster, records: RecordsOf) -> list[Member]:
    """The members of a step; of a reference those of all referenced steps."""
    steps = _flat([step], roster, roster.settings.combo_ref_max_depth, (combo.name,)) if step.combo else [step]
    members = []
    for one in steps:
        for connection in _connections_of(one, roster):
            candidate = roster.candidate(connection, one.model)
            members.append(Member(candidate, connection, records(candidate), one))
    return members


def _named_units(named: str | None, combo: Combo, roster: Roster, records: RecordsOf) -> list[Unit]:
    """The model that a config names beside the steps: the judge of a fusion, the summarizer of a context-relay."""
    if not named:
        return []
    provider, _, model = named.partition("/")
    step = Step(EXTRA, provider, model)
    members = _members_of(step, combo, roster, records)
    return [Unit(step, members, EXTRA)] if members else []


def _once(units: Iterable[Unit]) -> list[Unit]:
    """Each choice of candidates at its first place."""
    first: dict[tuple[str, ...], Unit] = {}
    for unit in units:
        first.setdefault(tuple(member.id for member in unit.members), unit)
    return list(first.values())


Filter = tuple[str, Callable[[Member], str | None]]


def _policy_filters(roster: Roster, key: KeyPolicy | None, excluded: Container[str], model: str) -> list[Filter]:
    filters: list[Filter] = [("hidden", lambda m: "hidden model" if m.candidate.facts.hidden else None)]
    if roster.settings.hide_paid_models:
        filters.append(("paid", lambda m: None if m.candidate.economic_tier is EconomicTier.FREE else "paid model"))
    if key is not None and key.allowed_models:
        globs = key.allowed_models
        filters.append(("key_models", lambda m: None if _allowed(globs, m.candidate, model) else "not allowed"))
    if key is not None and key.allowed_connections:
        ids = key.allowed_connections
        filters.append(("key_connections", lambda m: None if m.candidate.connection in ids else "not allowed"))
    if excluded:
        filters.append(("override", lambda m: "excluded for this key" if m.id in excluded else None))
    return filters


def _allowed(globs: Sequence[str], candidate: Candidate, model: str) -> bool:
    names = (model, candidate.model, f"{candidate.provider}/{candidate.model}")
    return any(glob_match(pattern, name) for pattern in globs for name in names)


CATEGORY_NEEDS = {"vision": "vision", "multimodal": "vision", "reasoning": "reasoning"}
KEPT_TIERS = {"free": EconomicTier.FREE, "pro": EconomicTier.PREMIUM}


def _preference_filters(channel: Channel) -> list[Filter]:
    filters: list[Filter] = []
    need, tier = CATEGORY_NEEDS.get(channel.category), KEPT_TIERS.get(channel.tier)
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
    if not _has_roles(combo):
        units = [unit for unit in units if unit.members]
        units = _once(units) if combo.strategy in ONCE_EACH else units
    for unit in units:
        for member in unit.members:
            member.unit_key = unit.key
    wanted = combo.config.candidate_pool
    if wanted and combo.strategy == "auto":
        units = [unit for unit in units if unit.members and unit.head.candidate.provider in wanted]
    judges = _named_units(combo.config.judge_model if combo.strategy == "fusion" else None, combo, roster, records)
    every = tuple(member for unit in (*units, *judges) for member in unit.members)
    handing_off = combo.strategy == "context-relay"
    summarizers = _named_units(combo.config.handoff_model if handing_off else None, combo, roster, records)
    override = roster.overrides.get((key_id, combo.channel.name), NO_OVERRIDE) if combo.channel else NO_OVERRIDE
    rejected: dict[str, Rejection] = {}
    for rule in _policy_filters(roster, roster.keys.get(key_id), override.excluded, model):
        units = _filtered(units, rule, rejected, kept=_has_roles(combo))
        judges, summarizers = _filtered(judges, rule, rejected), _filtered(summarizers, rule, {})
    opened = []
    for rule in _preference_filters(combo.channel) if combo.channel else ():
        stopped: dict[str, Rejection] = {}
        left = _filtered(units, rule, stopped)
        if left or not units:
            units = left
            rejected |= stopped
        else:
            opened.append(rule[0])
    weights = None if combo.config.weights is None else normalised(combo.config.weights)
    return Pool(every, _overridden(units, override), rejected, opened, weights, override, judges, summarizers)


def _overridden(units: list[Unit], override: Override) -> list[Unit]:
    """The order that a key gives, the rest following; or its multipliers as weights of a pinned strategy."""
    if override.order:
        rank = {candidate: place for place, candidate in enumerate(override.order)}
        return sorted(units, key=lambda unit: rank.get(unit.head.id, len(rank)))
    if override.strategy:
        for unit in units:
            unit.step = replace(unit.step, weight=override.multipliers.get(unit.head.id, 1.0))
    return units


def _filtered(units: Iterable[Unit], rule: Filter, rejected: dict[str, Rejection], *, kept: bool = False) -> list[Unit]:
    """The units with the members that a rule lets through; one without any is left out unless it is to be ``kept``."""
    name, check = rule
    left = []
    for unit in units:
        members = []
        for member in unit.members:
            reason = check(member)
            if reason is None:
                members.append(member)
            else:
                rejected[member.id] = Rejection(name, reason)
        if members or kept:
            left.append(Unit(unit.step, members, unit.key))
    return left
