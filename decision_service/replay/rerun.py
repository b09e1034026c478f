"""Recorded requests decided again by the kernel, and what would have come of them."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from hashlib import sha256

from decision_service.journal.rows import OutcomeRow
from decision_service.kernel import pricing
from decision_service.kernel.apply import commit, tick
from decision_service.kernel.blame import rule
from decision_service.kernel.decide import Decision, decide
from decision_service.kernel.dice import Dice
from decision_service.kernel.live import Member
from decision_service.kernel.model import Outcome, OutcomeClass, Refused, Request, Turn
from decision_service.kernel.observe import observe, target_id_of
from decision_service.kernel.roster import Roster
from decision_service.kernel.routers import RouterStrategy
from decision_service.kernel.state import RoutingState
from decision_service.replay.recorded import Experience, Recorded, candidate_of

SEVERAL_CALLS = "plans of several calls"


@dataclass(slots=True)
class Tally:
    """Of the decisions that went to one target first. ``known`` are those whose end is known."""

    decisions: int = 0
    known: int = 0
    answered: int = 0
    attempts: int = 0
    latency_ms: int = 0
    cost_usd: float = 0.0

    def add(self, end: End | None) -> None:
        """``end`` None: it is not known."""
        self.decisions += 1
        if end is not None:
            self.known += 1
            self.answered += end.answered
            self.attempts += end.attempts
            self.latency_ms += end.latency_ms
            self.cost_usd += end.cost_usd


@dataclass(frozen=True, slots=True)
class End:
    """How a request ended, over all its attempts."""

    answered: bool
    attempts: int
    latency_ms: int
    cost_usd: float


@dataclass(slots=True)
class Summary:
    """All decisions by the candidate that was called first; ``refused`` by reason.

    ``same_first`` counts those that went to the candidate that was called first in the record.
    """

    targets: dict[str, Tally] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    same_first: int = 0

    def add(self, recorded: Recorded, first: str, end: End | None) -> None:
        self.targets.setdefault(first, Tally()).add(end)
        self.same_first += first == recorded.first

    @property
    def total(self) -> Tally:
        rows = [astuple(tally) for tally in self.targets.values()]
        return Tally(*map(sum, zip(*rows, strict=True)))


def summed(decisions: Iterable[Recorded]) -> Summary:
    """What was recorded."""
    summary = Summary()
    for each in decisions:
        rows = each.attempts
        answered = any(row.outcome_class == OutcomeClass.SUCCESS for row in rows)
        latency, cost = sum(row.latency_ms for row in rows), sum(row.cost_usd for row in rows)
        summary.add(each, each.first, End(answered, len(rows), latency, cost))
    return summary


def of_one_call(model: str, roster: Roster, routers: Mapping[str, RouterStrategy]) -> bool:
    """Plans for a model string are a chain of targets; what a fusion or a pipeline comes to cannot be told.

    Raises Refused when there is no such policy.
    """
    state = RoutingState(roster, routers)
    state.combo(model)
    try:
        return decide(Request(model), state, Turn(0, 0, Dice(0))).plan is None
    except Refused:  # nobody can be asked: no call at all
        return True


def rerun(
    decisions: Sequence[Recorded],
    roster: Roster,
    routers: Mapping[str, RouterStrategy],
    *,
    experience: Experience,
    model: str = "",
    seed: int = 0,
) -> Summary:
    """The same requests at the same instants under a roster, each for ``model`` (unset: what it was for).

    The state begins empty and learns from what comes of the new decisions. A call is taken to end as the one in
    ``experience`` of its candidate that began nearest to it, or as the request's own, if there is one.
    """
    run = _Run(RoutingState(roster, routers), experience, seed)
    for each in decisions:
        run.again(each, model)
    return run.summary


class _Run:
    def __init__(self, state: RoutingState, experience: Experience, seed: int) -> None:
        self.summary = Summary()
        self._state = state
        self._seed = seed
        self._experience = experience
        self._coming: list[tuple[int, int, Outcome]] = []  # by the instant when it comes in
        self._numbers = 0

    def again(self, recorded: Recorded, model: str) -> None:
        self._let_pass(recorded.at)
        request = Request(
            model=model or recorded.combo,
            api_key_id=recorded.attempts[0].api_key_id,
            input_tokens=recorded.input_tokens,
        )
        seed = int.from_bytes(sha256(f"{self._seed}/{recorded.decision_id}".encode()).digest()[:7])
        try:
            decision = decide(request, self._state, Turn(recorded.at, seed, Dice(seed)))
        except Refused as refused:
            self.summary.refused[refused.reason] += 1
            return
        if decision.plan is not None:
            self.summary.refused[SEVERAL_CALLS] += 1
            return
        commit(self._state, decision, recorded.decision_id)
        self.summary.add(recorded, decision.chain[0].id, self._end(decision, recorded))

    def _let_pass(self, now: int) -> None:
        """What comes in before an instant is folded first."""
        while self._coming and self._coming[0][0] <= now:
            at, _, outcome = heapq.heappop(self._coming)
            tick(self._state, at)
            observe(self._state, outcome, at)
        tick(self._state, now)

    def _end(self, decision: Decision, recorded: Recorded) -> End | None:
        """Walks the chain as the caller of a plan does; None at a candidate of which nothing is known."""
        now, cost = recorded.at, 0.0
        for place, (member, row) in enumerate(self._calls(decision, recorded)):
            if row is None:
                self._report(decision, recorded, place, OutcomeClass.LOCAL_CANCELLED, now, final=True)
                return None
            kind = OutcomeClass(row.outcome_class)
            now, cost = now + row.latency_ms, cost + _cost(member, row, recorded)
            last = place == len(decision.chain) - 1 or not rule(kind, row.http_status, False).blamed
            self._report(decision, recorded, place, kind, now, row, final=last)
            if last:
                return End(kind is OutcomeClass.SUCCESS, place + 1, now - recorded.at, cost)
        return None

    def _calls(self, decision: Decision, recorded: Recorded) -> Iterator[tuple[Member, OutcomeRow | None]]:
        own = {candidate_of(row): row for row in reversed(recorded.attempts)}
        for member in decision.chain:
            yield member, own.get(member.id) or self._experience.nearest(member.id, recorded.at)

    def _report(
        self,
        decision: Decision,
        recorded: Recorded,
        place: int,
        kind: OutcomeClass,
        at: int,
        row: OutcomeRow | None = None,
        *,
        final: bool,
    ) -> None:
        self._numbers += 1
        outcome = Outcome(
            decision_id=recorded.decision_id,
            attempt=place + 1,
            target_id=target_id_of(place),
            outcome_class=kind,
            at=at,
            http_status=row.http_status if row else 0,
            latency_ms=row.latency_ms if row else 0,
            input_tokens=recorded.input_tokens,
            output_tokens=row.output_tokens if row else 0,
            final=final,
        )
        heapq.heappush(self._coming, (at, self._numbers, outcome))


def _cost(member: Member, row: OutcomeRow, recorded: Recorded) -> float:
    """As recorded where it is the request's own call; else its tokens at the candidate's prices, if it was answered."""
    known = recorded.input_tokens or recorded.output_tokens
    if row.decision_id == recorded.decision_id or row.outcome_class != OutcomeClass.SUCCESS or not known:
        return row.cost_usd
    price_in, price_out = pricing.prices(member.candidate)
    return (recorded.input_tokens * price_in + recorded.output_tokens * price_out) * pricing.PER_TOKEN
