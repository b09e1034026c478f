"""Leases, permits and deadlines under any interleaving of decisions, outcomes and time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from decision_service.kernel.decide import Decision
from decision_service.kernel.health import Breaker, Exclusion, Phase, Rest
from decision_service.kernel.model import (
    DAY,
    HOUR,
    KeyPolicy,
    ModelFacts,
    OutcomeClass,
    ProviderClass,
    QuotaWindow,
    Refused,
)
from decision_service.kernel.observe import Reception
from decision_service.kernel.roster import Roster
from tests.kernel.rig import Rig, combo, roster, step
from tests.laws.worlds import LEAPS

CANDIDATES = ("p/m@a", "p/m@b", "q/m@c", "q/n@d", "r/m@e")
CLASSES = {"p": ProviderClass.LOCAL, "q": ProviderClass.OAUTH, "r": ProviderClass.LOCAL}
POLICIES = ("priority", "least-used", "round-robin", "weighted", "scored", "panel", "line", "auto", "auto/chaos")
LONGEST_PLAN = 630_000
picks = st.integers(0, 10**6)
classes = st.sampled_from(OutcomeClass) | st.sampled_from([OutcomeClass.SUCCESS, OutcomeClass.UPSTREAM_ERROR])


def world(fit: tuple[float, ...] = (0.9, 0.6, 0.25, 0.1, 0.4), without: int | None = None) -> Roster:
    """Five candidates over three fragile providers, and a policy of every shape. ``without`` leaves one out."""
    there = [c for i, c in enumerate(CANDIDATES) if i != without]
    facts = {c: ModelFacts(fitness={"default": value}) for c, value in zip(CANDIDATES, fit, strict=True)}
    limited = [step(c, max_concurrent=1, weight=1.0) for c in there]
    return roster(
        there,
        combo("priority", ["p/m", *[c for c in there if c[0] != "p"]], name="priority"),
        combo("least-used", there, name="least-used"),
        combo("round-robin", there, name="round-robin", sticky_round_robin_limit=2),
        combo("weighted", limited, name="weighted", sticky_weighted_limit=2),
        combo("auto", there, name="scored", weights={"taskFit": 1.0}, exploration_rate=0.3),
        combo("fusion", there, name="panel"),
        combo("pipeline", ["p/m", *there[-2:]], name="line"),
        facts=facts,
        classes=CLASSES,
        keys={"k": KeyPolicy("k", tokens_per_minute=10**12, usd_per_day=1e9)},
    )


@dataclass(frozen=True)
class Told:
    """What was reported once, so that it can be reported again."""

    decision: Decision
    attempt: int
    place: int


class Interleavings(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.rig = Rig(world())
        self.told: list[Told] = []
        self.machines = self._machines()
        self.successful: set[tuple[str, str]] = set()

    # What happens

    @rule(
        model=st.sampled_from(POLICIES) | st.sampled_from(["scored", "priority"]),
        seed=picks,
        session=st.sampled_from(["", "s1", "s2"]),
        key=st.sampled_from(["", "k"]),
    )
    def decide(self, model: str, seed: int, session: str, key: str) -> None:
        try:
            self.rig.decide(model, seed, session_id=session, api_key_id=key, input_tokens=100)
        except Refused:
            return

    def _live(self) -> list[Decision]:
        return [d for d in self.rig.decisions if not self.rig.ticket(d).over]

    @precondition(lambda self: self._live())
    @rule(which=picks, kind=classes, final=st.booleans(), hint=st.sampled_from([None, 0, 2_000, HOUR, 9 * DAY]))
    def report_what_is_in_flight(self, which: int, kind: OutcomeClass, final: bool, hint: int | None) -> None:
        decision = self._live()[which % len(self._live())]
        ticket = self.rig.ticket(decision)
        place = sorted(ticket.leases)[which % len(ticket.leases)] if ticket.leases else 0
        attempt = max(ticket.applied, default=0) + 1
        self._report(decision, attempt, place, kind, final=final, retry_after_ms=hint)

    @precondition(lambda self: self._live())
    @rule(which=picks, places=st.integers(1, 5))
    def fail_through(self, which: int, places: int) -> None:
        """A plan's first targets fail on the request itself, so that a later one is reached."""
        decision = self._live()[which % len(self._live())]
        for _ in range(places):
            ticket = self.rig.ticket(decision)
            if ticket.over or not ticket.leases:
                return
            attempt = max(ticket.applied, default=0) + 1
            self._report(decision, attempt, min(ticket.leases), OutcomeClass.INVALID_REQUEST)

    @precondition(lambda self: self.rig.decisions)
    @rule(which=picks, kind=classes, attempt=st.integers(1, 6), place=picks, following=st.none() | picks)
    def report_anything(self, which: int, kind: OutcomeClass, attempt: int, place: int, following: int | None) -> None:
        """Out of order, for another place than the one in flight, late, or for a decision that is over."""
        decision = self.rig.decisions[which % len(self.rig.decisions)]
        places = len(decision.chain)
        following = None if following is None else following % places
        self._report(decision, attempt, place % places, kind, following=following, model_scoped=which % 3 == 0)

    @precondition(lambda self: self.told)
    @rule(which=picks, kind=classes)
    def report_again(self, which: int, kind: OutcomeClass) -> None:
        told = self.told[which % len(self.told)]
        before = self._machines()
        reception = self.rig.report(kind, told.decision, attempt=told.attempt, place=told.place)
        assert reception is Reception.DUPLICATE
        assert self._machines() == before

    @rule(which=picks, left=st.floats(0.0, 1.0), reset=st.sampled_from([None, 60_000, DAY]))
    def tell_quota(self, which: int, left: float, reset: int | None) -> None:
        if not self._live():
            return
        reset_at = None if reset is None else self.rig.now + reset
        window = QuotaWindow("weekly", 0.0 if left < 0.3 else left, reset_at)
        decision = self._live()[which % len(self._live())]
        attempt = max(self.rig.ticket(decision).applied, default=0) + 1
        self._report(decision, attempt, 0, OutcomeClass.UPSTREAM_ERROR, quota=(window,))

    @rule(which=picks, seed=picks)
    def an_exclusion_runs_out_and_its_scope_decides(self, which: int, seed: int) -> None:
        running = [(scope, e.until) for (scope, _), e in self.rig.state.exclusions.items() if e.until > self.rig.now]
        if running:
            scope, until = running[which % len(running)]
            self.rig.pass_time(until - self.rig.now)
            self.decide(scope, seed, "", "")

    @rule(leap=st.sampled_from(LEAPS))
    def time_passes(self, leap: int) -> None:
        self.rig.pass_time(leap)

    @rule(which=picks, early=st.sampled_from([0, 0, 1]))
    def time_passes_to_a_deadline(self, which: int, early: int) -> None:
        state, now = self.rig.state, self.rig.now
        deadlines = {p.breaker.open_until for p in state.providers.values()}
        deadlines |= {at for e in state.exclusions.values() for at in (e.until, e.probe_until, e.exempt_until)}
        deadlines |= {x.permit_until for t in state.tickets.values() for x in t.leases.values()}
        ahead = sorted(at for at in deadlines if at > now)
        if ahead:
            self.rig.pass_time(ahead[which % len(ahead)] - now - early)

    @rule(fit=st.permutations([0.9, 0.6, 0.25, 0.1, 0.4]), without=st.none() | st.integers(0, 4))
    def the_roster_changes(self, fit: list[float], without: int | None) -> None:
        self.rig.state.change_roster(world(tuple(fit), without))
        self.machines = {key: value for key, value in self.machines.items() if key in self._machines()}

    def _report(self, decision: Decision, attempt: int, place: int, kind: OutcomeClass, **more: Any) -> None:
        candidate = decision.chain[place].candidate
        if kind is OutcomeClass.SUCCESS:
            self.successful.add((candidate.provider, candidate.connection))
        reception = self.rig.report(kind, decision, attempt=attempt, place=place, latency_ms=50, **more)
        if reception is Reception.ACCEPTED:
            self.told.append(Told(decision, attempt, place))

    # What always holds

    def _machines(self) -> dict[tuple[str, ...], Breaker | Rest | Exclusion]:
        state = self.rig.state
        found: dict[tuple[str, ...], Breaker | Rest | Exclusion] = {}
        found |= {("breaker", name): record.breaker for name, record in state.providers.items()}
        found |= {("cooldown", *key): record.cooldown for key, record in state.accounts.items()}
        found |= {("auth", *key): record.auth for key, record in state.accounts.items()}
        found |= {("lockout", *key): record.lockout for key, record in state.targets.items()}
        return found | {("exclusion", *key): exclusion for key, exclusion in state.exclusions.items()}

    @invariant()
    def in_flight_is_the_number_of_live_leases(self) -> None:
        accounts: Counter[int] = Counter()
        steps: Counter[tuple[str, str]] = Counter()
        for ticket in self.rig.state.tickets.values():
            assert not (ticket.over and ticket.leases)
            assert ticket.over or ticket.expires_at > self.rig.now
            for lease in ticket.leases.values():
                accounts[id(lease.member.account)] += 1
                steps[ticket.scope, lease.member.unit_key] += 1
        for account in self.rig.state.accounts.values():
            assert account.in_flight == accounts.pop(id(account), 0)
        assert not accounts, "a lease on a record that nobody sees"
        assert self.rig.state.step_leases == dict(steps)

    @invariant()
    def a_key_holds_what_its_live_decisions_reserved(self) -> None:
        held = [t.reserved for t in self.rig.state.tickets.values() if t.reserved is not None and not t.over]
        usage = self.rig.state.key("k")
        assert usage.reserved_tokens == sum(demand.tokens for demand in held)
        assert usage.reserved_usd == pytest.approx(sum(demand.usd for demand in held), abs=1e-9)

    @invariant()
    def a_permit_is_held_by_a_live_call_of_its_own(self) -> None:
        state = self.rig.state
        for name, provider in state.providers.items():
            if provider.breaker.probe:
                assert any(
                    lease.probes_breaker and lease.member.candidate.provider == name
                    for lease in state.tickets[provider.breaker.probe].leases.values()
                )
        for (scope, candidate), exclusion in state.exclusions.items():
            if exclusion.probe:
                ticket = state.tickets[exclusion.probe]
                assert ticket.scope == scope
                assert any(x.probes_exclusion and x.member.id == candidate for x in ticket.leases.values())

    @invariant()
    def deadlines_move_only_as_they_may(self) -> None:
        now, after = self.rig.now, self._machines()
        for key, old in self.machines.items():
            new = after.get(key, old)
            if isinstance(old, Rest) and isinstance(new, Rest) and new.until < old.until and old.until > now:
                assert key[1:3] in self.successful, f"{key}: {old} became {new}"
            if isinstance(old, Breaker) and isinstance(new, Breaker):
                assert new.generation >= old.generation
                if new.generation == old.generation:
                    assert (new.open, new.open_until) == (old.open, old.open_until)
                else:
                    assert new.open or (old.open and old.open_until <= now), "it closes only from half open"
            if isinstance(old, Exclusion) and isinstance(new, Exclusion) and old.until > now:
                assert new.until >= old.until, "a running exclusion is never cut short"
        self.machines = after
        self.successful.clear()

    def teardown(self) -> None:
        """All plans run out; then every machine lets go, some by a probe, and every candidate can be chosen."""
        rig = self.rig
        rig.pass_time(LONGEST_PLAN)
        self.in_flight_is_the_number_of_live_leases()
        assert rig.state.key("k").reserved_tokens == 0
        assert all(account.in_flight == 0 for account in rig.state.accounts.values())
        assert rig.state.step_leases == {}
        assert not any(provider.breaker.probe for provider in rig.state.providers.values())
        assert not any(exclusion.probe for exclusion in rig.state.exclusions.values())
        rig.pass_time(9 * DAY)
        rig.state.change_roster(world())
        for provider in rig.state.providers.values():
            assert provider.breaker.phase(rig.now) is not Phase.OPEN
        decision = rig.decide("least-used")
        assert {m.id for m in decision.chain} == set(CANDIDATES)
        for provider_id in ("p", "q", "r"):
            provider = rig.state.provider(provider_id)
            if provider.breaker.open and provider.breaker.probe == "":
                # Its probe is granted, lapses in silence, and is granted again.
                only = next(c for c in CANDIDATES if c[0] == provider_id)
                for _ in range(2):
                    assert rig.decide(only.partition("@")[0]).probe
                    rig.pass_time(LONGEST_PLAN)


Interleavings.TestCase.settings = settings(stateful_step_count=60)
test_any_interleaving = Interleavings.TestCase
