"""The one owner of routing state: decides, takes outcomes in, lets time pass, and keeps what must outlive it.

Everything here runs on one thread, the event loop's; only the journal and the store work elsewhere.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import structlog
from prometheus_client import Counter, Gauge

from decision_service.journal import Journal, OutcomeRow, StateRow
from decision_service.kernel import pricing
from decision_service.kernel.apply import commit, tick
from decision_service.kernel.decide import Decision, decide
from decision_service.kernel.dice import Dice
from decision_service.kernel.model import DAY, HOUR, Advice, Outcome, OutcomeClass, Refused, Request, Turn
from decision_service.kernel.observe import Reception, observe, observe_unknown, place_of
from decision_service.kernel.reset import credential_changed
from decision_service.kernel.roster import Roster
from decision_service.kernel.routers import RouterStrategy
from decision_service.kernel.state import NO_ROUTERS, RoutingState, Ticket
from decision_service.persistence import SEPARATOR, STORED_SEPARATOR, dump, load, stored_key
from service_kit.clock import Clock, Timeline
from service_kit.errors import Reason, ServiceError
from service_kit.metrics import REGISTRY

DECISIONS = Counter("omniroute_decisions", "Decisions, by combo's strategy.", ["strategy"], registry=REGISTRY)
REFUSALS = Counter("omniroute_refusals", "Refused decisions, by reason.", ["reason"], registry=REGISTRY)
OUTCOMES = Counter("omniroute_outcomes", "Outcomes taken in, by class.", ["outcome_class"], registry=REGISTRY)
ODD_OUTCOMES = Counter("omniroute_odd_outcomes", "Outcomes passed over, by why.", ["why"], registry=REGISTRY)
ABANDONED = Counter("omniroute_abandoned", "Decisions whose lease ran out.", registry=REGISTRY)
TICKETS = Gauge("omniroute_decisions_remembered", "Decisions that late outcomes may still name.", registry=REGISTRY)

STRANGERS_KEPT = 100_000
STATISTICS = "statistics"
REPLAY_MARGIN_MS = HOUR
LOG = structlog.get_logger()


@dataclass(slots=True)
class Receipt:
    """What became of a batch of outcomes so far.

    ``taken`` are the indexes of the outcomes that moved something. ``strangers`` name decisions that this process does
    not know; ``pending`` are those of them (decision, attempt) that were being looked up already.
    """

    accepted: int = 0
    duplicates: int = 0
    rejected: list[tuple[int, Refused]] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    strangers: list[Outcome] = field(default_factory=list)
    rows: list[OutcomeRow] = field(default_factory=list)
    pending: list[tuple[str, int]] = field(default_factory=list)


class Engine:
    """Routing state with a clock, dice and a journal."""

    def __init__(
        self,
        roster: Roster,
        journal: Journal,
        clock: Clock,
        routers: Mapping[str, RouterStrategy] = NO_ROUTERS,
        steady: Clock = time.monotonic,
    ) -> None:
        """``routers`` are router strategies beside the built-in ones, by name; ``steady`` is the clock nobody sets."""
        self.state = RoutingState(roster, routers)
        self.journal = journal
        self._time = Timeline(clock, steady)
        self._prefix = f"dec_{secrets.token_hex(6)}_"
        self._made = 0
        # Whether they have been taken in, or are still being looked up.
        self._strangers: OrderedDict[tuple[str, int], bool] = OrderedDict()
        self._unsaved: list[OutcomeRow] = []
        # Filled by the journal's thread, emptied by this one.
        self._failed: deque[tuple[Sequence[OutcomeRow], set[tuple[str, str]]]] = deque()

    def now(self) -> int:
        """Epoch milliseconds; never backwards and never still, whatever the wall clock does."""
        return self._time.now()

    def tick(self) -> int:
        """Lets leases run out; answers the present instant."""
        now = self.now()
        abandoned = tick(self.state, now)
        if abandoned:
            ABANDONED.inc(abandoned)
        return now

    def change_roster(self, roster: Roster, credentials: Iterable[tuple[str, str]] = ()) -> None:
        """Another roster from the next request on; the connections whose credential is another one start afresh."""
        self.state.change_roster(roster)
        for provider, connection in credentials:
            credential_changed(self.state, provider, connection)

    # Deciding

    def explain(self, request: Request, seed: int | None, advice: Advice | None = None) -> Decision:
        """The decision as it would be made now; nothing changes. Raises ServiceError.

        ``advice`` is what a remote router answered, if one was asked.
        """
        now = self.tick()
        seed = secrets.randbits(63) if seed is None else seed
        try:
            return decide(request, self.state, Turn(now, seed, Dice(seed)), advice)
        except Refused as refused:
            raise self.refusal(refused) from None

    def decide(self, request: Request, seed: int | None, advice: Advice | None = None) -> tuple[str, Decision]:
        """A decision with its id, which takes effect by ``commit``. Raises ServiceError."""
        decision = self.explain(request, seed, advice)
        self._made += 1
        decision_id = f"{self._prefix}{self._made:x}"
        return decision_id, decision

    def commit(self, decision_id: str, decision: Decision) -> None:
        """The decision takes effect."""
        commit(self.state, decision, decision_id)
        DECISIONS.labels(decision.strategy).inc()

    def refusal(self, refused: Refused) -> ServiceError:
        """A kernel's refusal as the shell raises it."""
        wait = None if refused.retry_at is None else max(0, refused.retry_at - self.now())
        REFUSALS.labels(refused.reason).inc()
        return ServiceError(
            Reason(refused.reason),
            refused.message,
            field=refused.field,
            retry_after_ms=wait,
            rate_limited=refused.rate_limited,
        )

    # Learning

    def receive(self, outcomes: Iterable[tuple[int, Outcome]]) -> Receipt:
        """Folds the outcomes of known decisions; each comes with its index in the report."""
        now = self.tick()
        receipt = Receipt()
        for index, outcome in outcomes:
            try:
                reception = observe(self.state, outcome, now)
            except Refused as refused:
                receipt.rejected.append((index, refused))
                continue
            if reception is Reception.UNKNOWN:
                self._note_stranger(index, outcome, now, receipt)
            elif reception is Reception.DUPLICATE:
                receipt.duplicates += 1
            else:
                receipt.accepted += 1
                receipt.taken.append(index)
                OUTCOMES.labels(outcome.outcome_class.value).inc()
                receipt.rows.append(_row(self.state.tickets[outcome.decision_id], outcome, now))
        TICKETS.set(len(self.state.tickets))
        return receipt

    def _note_stranger(self, index: int, outcome: Outcome, now: int, receipt: Receipt) -> None:
        pair = (outcome.decision_id, outcome.attempt)
        if outcome.at < now - DAY:
            ODD_OUTCOMES.labels("too old").inc()
            receipt.rejected.append((index, Refused("INVALID_FIELD", "at: older than 24 hours", field="at")))
        elif pair in self._strangers:
            receipt.duplicates += 1
            if not self._strangers[pair]:
                receipt.pending.append(pair)
        else:
            self._strangers[pair] = False
            if len(self._strangers) > STRANGERS_KEPT:
                self._strangers.popitem(last=False)
            receipt.strangers.append(outcome)

    def receive_strangers(self, receipt: Receipt, known: set[tuple[str, int]]) -> None:
        """Folds outcomes of decisions that this process does not know; ``known`` are on disk already."""
        now = self.tick()
        for outcome in receipt.strangers:
            self._strangers[outcome.decision_id, outcome.attempt] = True
            if (outcome.decision_id, outcome.attempt) in known:
                receipt.duplicates += 1
                continue
            receipt.accepted += 1
            ODD_OUTCOMES.labels("unknown decision").inc()
            observe_unknown(self.state, outcome, now)
            receipt.rows.append(_stranger_row(outcome, now))

    def unsettled(self, receipt: Receipt) -> bool:
        """Some of its outcomes are still being looked up for another report, which may yet fail."""
        return any(self._strangers.get(pair) is not True for pair in receipt.pending)

    def forget_strangers(self, receipt: Receipt) -> None:
        """They could not be looked up; their next report is a first one again."""
        for outcome in receipt.strangers:
            self._strangers.pop((outcome.decision_id, outcome.attempt), None)

    def has_room(self, count: int) -> bool:
        """The journal takes so many outcomes, with the state that each may touch."""
        self._take_back()
        return self.journal.room > 4 * count + len(self._unsaved)

    def save(self, rows: Sequence[OutcomeRow]) -> Future[None]:
        """Puts outcomes and the machines they moved on their way to disk, with what failed to get there before."""
        self._take_back()
        rows = [*self._unsaved, *rows]
        self._unsaved.clear()
        return self._submit(rows, {key for key in self.state.touched if key[0] != STATISTICS}, self.now())

    def save_states(self) -> Future[None]:
        """Puts every touched state on its way to disk."""
        now = self.now()
        self._time.step()  # what is folded from here on is later than what is saved
        return self._submit((), set(self.state.touched), now)

    def _submit(self, rows: Sequence[OutcomeRow], touched: set[tuple[str, str]], now: int) -> Future[None]:
        states = [StateRow(kind, key, text.decode(), now) for kind, key, text in dump(self.state, touched)]
        done = self.journal.submit(rows, states)
        self.state.touched -= touched
        done.add_done_callback(lambda future: self._failed.append((rows, touched)) if future.exception() else None)
        return done

    def _take_back(self) -> None:
        """What the journal failed to write is to be written with the next submission."""
        while self._failed:
            rows, touched = self._failed.popleft()
            self._unsaved += rows
            self.state.touched |= touched

    # Starting

    def restore(self) -> None:
        """Brings back what was saved, and folds the outcomes that statistics had not taken in."""
        stored = self.journal.load_states()
        unreadable = load(self.state, ((row.kind, row.key, (row.state or "").encode()) for row in stored))
        for kind, key in unreadable:
            LOG.error("state_unreadable", kind=kind, key=key.replace(STORED_SEPARATOR, " "))
        saved_at = {row.key: row.updated_at for row in stored if row.kind == STATISTICS}
        last_save = max(saved_at.values(), default=0)
        self._time.resume(last_save + 1)
        with self.journal.outcomes(max(self.now() - DAY, last_save - REPLAY_MARGIN_MS)) as outcomes:
            for row in outcomes:
                key = SEPARATOR.join((row.provider, row.connection_id, row.model))
                unread = row.at > saved_at.get(stored_key(key), 0)
                if unread and row.outcome_class in OutcomeClass.__members__:
                    observe_unknown(self.state, _outcome_of(row), row.at)


def _row(ticket: Ticket, outcome: Outcome, now: int) -> OutcomeRow:
    candidate = ticket.chain[place_of(ticket, outcome.target_id)].candidate
    cost = pricing.actual(candidate, outcome)
    place = (candidate.provider, candidate.model, candidate.connection)
    return _outcome_row(outcome, now, place, ticket.api_key_id, ticket.combo.name, cost)


def _stranger_row(outcome: Outcome, now: int) -> OutcomeRow:
    place = (outcome.provider, outcome.model, outcome.connection)
    return _outcome_row(outcome, now, place, outcome.api_key_id, "", outcome.cost_usd)


def _outcome_row(
    outcome: Outcome, now: int, place: tuple[str, str, str], api_key_id: str, combo: str, cost: float
) -> OutcomeRow:
    provider, model, connection = place
    return OutcomeRow(
        decision_id=outcome.decision_id,
        attempt=outcome.attempt,
        at=now,
        target_id=outcome.target_id,
        provider=provider,
        model=model,
        connection_id=connection,
        api_key_id=api_key_id,
        combo=combo,
        outcome_class=outcome.outcome_class.value,
        http_status=outcome.http_status,
        latency_ms=outcome.latency_ms,
        ttft_ms=outcome.ttft_ms,
        input_tokens=outcome.input_tokens,
        output_tokens=outcome.output_tokens,
        cached_tokens=outcome.cached_tokens,
        cost_usd=cost,
        final=outcome.final,
        usage_estimated=outcome.usage_estimated,
    )


def _outcome_of(row: OutcomeRow) -> Outcome:
    """What statistics read of a stored outcome."""
    return Outcome(
        decision_id=row.decision_id,
        attempt=row.attempt,
        target_id=row.target_id,
        outcome_class=OutcomeClass(row.outcome_class),
        at=row.at,
        http_status=row.http_status,
        latency_ms=row.latency_ms,
        output_tokens=row.output_tokens,
        provider=row.provider,
        model=row.model,
        connection=row.connection_id,
    )
