"""A kernel over a small roster, with a clock and dice that the test holds.

A candidate is written as everywhere: ``provider/model@connection``; without ``@connection`` it is a dynamic step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from decision_service.kernel.apply import commit, tick
from decision_service.kernel.decide import Decision, decide
from decision_service.kernel.dice import Dice
from decision_service.kernel.model import (
    Combo,
    ComboConfig,
    Connection,
    Controls,
    ModelFacts,
    Outcome,
    OutcomeClass,
    Provider,
    ProviderClass,
    Refused,
    Request,
    Step,
    Turn,
)
from decision_service.kernel.observe import Reception, observe, target_id_of
from decision_service.kernel.roster import Roster
from decision_service.kernel.state import RoutingState, Ticket

START = 1_767_225_600_000  # the first instant of 2026
COMBO = "combo"


def parts(candidate: str) -> tuple[str, str, str | None]:
    """Provider, model and connection of ``provider/model@connection``."""
    provider, _, rest = candidate.partition("/")
    model, at, connection = rest.partition("@")
    return provider, model, connection if at else None


def step(candidate: str, **more: Any) -> Step:
    """A step; its id is what it was written as unless it is given."""
    provider, model, connection = parts(candidate)
    return Step(**{"id": candidate, "provider": provider, "model": model, "connection": connection, **more})


def reference(name: str, weight: float = 0.0) -> Step:
    """A combo-ref step."""
    return Step(id=f"ref-{name}", combo=name, weight=weight)


def combo(strategy: str, steps: Iterable[str | Step], name: str = COMBO, **config: Any) -> Combo:
    """A stored combo."""
    taken = tuple(step(s) if isinstance(s, str) else s for s in steps)
    return Combo(name=name, strategy=strategy, steps=taken, config=ComboConfig(**config))


def roster(
    candidates: Sequence[str],
    *combos: Combo,
    facts: Mapping[str, ModelFacts] | None = None,
    classes: Mapping[str, ProviderClass] | None = None,
    connections: Mapping[str, Mapping[str, Any]] | None = None,
    **more: Any,
) -> Roster:
    """A roster of these candidates. ``facts`` by candidate, ``classes`` by provider, ``connections`` by id."""
    models: dict[str, dict[str, None]] = {}
    accounts: dict[tuple[str, str], list[str]] = {}
    known: dict[tuple[str, ...], ModelFacts] = {}
    for candidate in candidates:
        provider, model, connection = parts(candidate)
        assert connection is not None, candidate
        models.setdefault(provider, {})[model] = None
        accounts.setdefault((provider, connection), []).append(model)
        if facts and candidate in facts:
            known[provider, model, connection] = facts[candidate]
    return Roster(
        providers={
            name: Provider(name, (classes or {}).get(name, ProviderClass.API_KEY), models=tuple(served))
            for name, served in models.items()
        },
        connections={
            (provider, name): replace(
                Connection(name, provider, models=tuple(served)), **(connections or {}).get(name, {})
            )
            for (provider, name), served in accounts.items()
        },
        facts=known,
        combos={c.name: c for c in combos},
        **more,
    )


def ids(decision: Decision) -> list[str]:
    """The candidate ids of a decision's chain."""
    return [member.id for member in decision.chain]


class Rig:
    """Routing state with a clock. Decisions are numbered from "0"."""

    def __init__(self, over: Roster, now: int = START) -> None:
        self.state = RoutingState(over)
        self.now = now
        self.decisions: list[Decision] = []

    def pass_time(self, ms: int) -> int:
        """Time passes; answers how many decisions were abandoned."""
        self.now += ms
        return tick(self.state, self.now)

    def ask(self, model: str = COMBO, seed: int = 0, controls: Controls | None = None, **request: Any) -> Decision:
        """What would be decided now."""
        wanted = Request(model=model, controls=controls or Controls(), **request)
        return decide(wanted, self.state, Turn(self.now, seed, Dice(seed)))

    def decide(self, model: str = COMBO, seed: int = 0, controls: Controls | None = None, **request: Any) -> Decision:
        """A decision that takes effect."""
        decision = self.ask(model, seed, controls, **request)
        commit(self.state, decision, str(len(self.decisions)))
        self.decisions.append(decision)
        return decision

    def refused(self, model: str = COMBO, controls: Controls | None = None, **request: Any) -> Refused:
        """The refusal of what must be refused."""
        try:
            decision = self.ask(model, 0, controls, **request)
        except Refused as refusal:
            return refusal
        raise AssertionError(f"decided for {ids(decision)}")

    def wait(self, model: str = COMBO) -> int | None:
        """Milliseconds until a policy has a target again; None: it has one."""
        try:
            self.ask(model)
        except Refused as refusal:
            retry_at = refusal.retry_at
        else:
            return None
        assert retry_at is not None, "it has none, and nobody knows when it will"
        return retry_at - self.now

    def ticket(self, decision: Decision | None = None) -> Ticket:
        """The ticket of a decision, of the last one unless it is given."""
        return self.state.tickets[self._number(decision)]

    def report(
        self,
        outcome_class: OutcomeClass = OutcomeClass.SUCCESS,
        decision: Decision | None = None,
        *,
        attempt: int = 1,
        place: int | None = None,
        following: int | None = None,
        **outcome: Any,
    ) -> Reception:
        """An outcome of a decision, of the last one unless it is given; of attempt n at place n-1 unless told."""
        place = attempt - 1 if place is None else place
        told = Outcome(
            decision_id=self._number(decision),
            attempt=attempt,
            target_id=self._target(decision, place),
            outcome_class=outcome_class,
            next_target_id="" if following is None else self._target(decision, following),
            at=outcome.pop("at", self.now),
            **outcome,
        )
        return observe(self.state, told, self.now)

    def _target(self, decision: Decision | None, place: int) -> str:
        plan = self.ticket(decision).plan
        return target_id_of(place) if plan is None else plan.calls[place].id

    def _number(self, decision: Decision | None) -> str:
        if decision is None:
            return str(len(self.decisions) - 1)
        return str(next(i for i, made in enumerate(self.decisions) if made is decision))

    def in_flight(self, provider: str, connection: str) -> int:
        return self.state.account(provider, connection).in_flight
