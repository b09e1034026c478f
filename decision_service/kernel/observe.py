"""One outcome folded into state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from math import isfinite

from decision_service.kernel.apply import close_lease, end_ticket, open_lease
from decision_service.kernel.blame import RULINGS, Ruling, backoff_of, rule
from decision_service.kernel.health import (
    BREAKER_LIMITS,
    Failure,
    Verdict,
    Wait,
    fold_breaker,
    fold_cooldown_success,
    fold_exclusion,
    fold_lockout_success,
    fold_wait,
    usable_hint,
)
from decision_service.kernel.live import AccountRecord, Member, TargetRecord
from decision_service.kernel.model import Combo, Operation, Outcome, OutcomeClass, QuotaWindow, Refused
from decision_service.kernel.pricing import actual
from decision_service.kernel.recall import SESSION_TTL_MS, Good, Pin, Summary, displaces
from decision_service.kernel.screening import quota
from decision_service.kernel.state import Batch, Lease, Rotation, RoutingState, Ticket
from decision_service.kernel.strategies.rotation import behind, sticky_limit


class Reception(StrEnum):
    """What became of an outcome."""

    ACCEPTED = "ACCEPTED"
    DUPLICATE = "DUPLICATE"
    UNKNOWN = "UNKNOWN"


def observe(state: RoutingState, outcome: Outcome, now: int) -> Reception:
    """Folds one outcome of a known decision. UNKNOWN: nothing was changed, and ``observe_unknown`` may be asked.

    Raises ``Refused`` for a target that is not in the decision's plan.
    """
    ticket = state.tickets.get(outcome.decision_id)
    if ticket is None:
        return Reception.UNKNOWN
    if outcome.attempt in ticket.applied:
        return Reception.DUPLICATE
    place = place_of(ticket, outcome.target_id)
    named = place_of(ticket, outcome.next_target_id, "next_target_id") if outcome.next_target_id else None
    state.seq += 1
    ticket.applied.add(outcome.attempt)
    member = ticket.chain[place]
    lease = _lease_of(ticket, place, outcome.attempt)
    ruling = _ruling(ticket, outcome)
    moves = _moves_machines(ticket, member, lease, now)
    if moves:
        _fold_exclusion_probe(state, ticket, lease, ruling, now)
    if not (outcome.outcome_class is OutcomeClass.TIMEOUT and _cut_short(ticket, place)):
        _fold_statistics(state, member, _as_sampled(ticket, outcome), ruling, now)
        if moves:
            _fold_machines(state, ticket, place, lease, outcome, ruling, now)
    _fold_rotation(state, ticket, place, ruling)
    _remember(state, ticket, place, ruling, now)
    if ticket.api_key_id in state.roster.keys:
        _spend(state, ticket.api_key_id, actual(member.candidate, outcome), outcome, now)
    if outcome.hand_off_summary and ticket.session_id:
        key = (ticket.api_key_id, ticket.combo.name, ticket.session_id)
        candidate = member.candidate
        until = now + SESSION_TTL_MS
        state.summaries.put(key, Summary(outcome.hand_off_summary, candidate.provider, candidate.connection, until))
    if lease is not None:
        close_lease(state, ticket, place)
    _move_lease(state, ticket, outcome, named if named is not None else ticket.following(place), now)
    return Reception.ACCEPTED


def _lease_of(ticket: Ticket, place: int, attempt: int) -> Lease | None:
    """The live lease of an attempt; one at its place that began at its end or later is another attempt's."""
    lease = ticket.leases.get(place)
    return lease if lease is not None and attempt > lease.after else None


def _remember(state: RoutingState, ticket: Ticket, place: int, ruling: Ruling, now: int) -> None:
    """A success is where the conversation goes on, and the last known good; a blamed failure takes both back."""
    member, candidate = ticket.chain[place], ticket.chain[place].candidate
    if ruling.blamed:
        member.target.failed_seq = state.seq
        good = state.goods.get(ticket.good_key) if ticket.good_key else None
        if ticket.good_key and good is not None and good.candidate == member.id:
            state.goods.drop(ticket.good_key)
    if ruling.breaker is not Verdict.SUCCESS:
        return
    if ticket.pin_key is not None:
        until = now + SESSION_TTL_MS
        pin = Pin(member.id, candidate.provider, candidate.connection, state.seq, until)
        state.pins.put(ticket.pin_key, pin)
    if ticket.good_key is not None:
        until_or_none = now + SESSION_TTL_MS if len(ticket.good_key) > 1 and ticket.session_id else None
        newer = Good(member.id, candidate.provider, candidate.model, ticket.seq, until_or_none)
        explored = ticket.explored if place == 0 else None
        if displaces(state.goods.get(ticket.good_key), newer, explored):
            state.goods.put(ticket.good_key, newer)


def _moves_machines(ticket: Ticket, member: Member, lease: Lease | None, now: int) -> bool:
    """Neither too late nor of an older generation of the breaker: more than statistics may hear of it."""
    in_time = not ticket.abandoned and not (lease is not None and lease.lapsed(now))
    return in_time and member.provider.breaker.moved_seq < ticket.seq


def _cut_short(ticket: Ticket, place: int) -> bool:
    """The call had the reduced time-out of an exclusion's probe."""
    return ticket.timeouts[place] < ticket.combo.config.target_timeout_ms


def observe_unknown(state: RoutingState, outcome: Outcome, now: int) -> None:
    """An outcome of a decision that this state does not know: statistics and usage, no state machine."""
    if (outcome.provider, outcome.connection) not in state.roster.connections:
        return
    state.seq += 1
    if outcome.api_key_id in state.roster.keys:
        _spend(state, outcome.api_key_id, outcome.cost_usd, outcome, now)
    ruling = rule(outcome.outcome_class, outcome.http_status, outcome.model_scoped)
    target = state.target(outcome.provider, outcome.connection, outcome.model)
    if ruling.sampled:
        _sample(state, target, outcome, now)
        state.touched.add(("statistics", "\0".join((outcome.provider, outcome.connection, outcome.model))))
    if outcome.quota:
        fold_quota(state.account(outcome.provider, outcome.connection), outcome.quota, min(outcome.at, now))
        state.touched.add(("quota", "\0".join((outcome.provider, outcome.connection))))


def _spend(state: RoutingState, key_id: str, usd: float, outcome: Outcome, now: int) -> None:
    state.key(key_id).spend(usd, outcome.input_tokens + outcome.output_tokens, now)
    state.touched.add(("key", key_id))


def place_of(ticket: Ticket, target_id: str, field: str = "target_id") -> int:
    """The place in the plan that a target id names. Raises Refused, naming the field that it came in."""
    place = ticket.place_of(target_id)
    if place is None:
        raise Refused("INVALID_FIELD", f"{field}: {target_id!r} is not in the plan of {ticket.id}", field=field)
    return place


def target_id_of(place: int) -> str:
    """The id of a place in a plan."""
    return str(place + 1)


def _ruling(ticket: Ticket, outcome: Outcome) -> Ruling:
    """A model that is not there for embeddings may well be there for chat: only the request was wrong."""
    embeds = ticket.operation is Operation.EMBEDDINGS
    if embeds and outcome.outcome_class is OutcomeClass.MODEL_NOT_FOUND:
        return RULINGS[OutcomeClass.INVALID_REQUEST]
    return rule(outcome.outcome_class, outcome.http_status, outcome.model_scoped)


def _as_sampled(ticket: Ticket, outcome: Outcome) -> Outcome:
    """Embeddings have no output tokens, and none are missed."""
    silent = ticket.operation is Operation.EMBEDDINGS and not outcome.output_tokens
    return replace(outcome, output_tokens=1) if silent else outcome


def _fold_statistics(state: RoutingState, member: Member, outcome: Outcome, ruling: Ruling, now: int) -> None:
    candidate = member.candidate
    if ruling.sampled:
        _sample(state, member.target, outcome, now)
        state.touched.add(("statistics", "\0".join((candidate.provider, candidate.connection, candidate.model))))
    if outcome.quota:
        fold_quota(member.account, outcome.quota, min(outcome.at, now))
        state.touched.add(("quota", "\0".join((candidate.provider, candidate.connection))))


def _sample(state: RoutingState, target: TargetRecord, outcome: Outcome, now: int) -> None:
    """One sample more; the target's statistics shed it when it is a day old."""
    target.statistics.add(outcome, now)
    target.log.note(target)
    state.expect_expiry(target.statistics.next_expiry())


def fold_quota(account: AccountRecord, windows: Iterable[QuotaWindow], at: int) -> None:
    """Quota windows as an answer told them; of one window the newer word wins, a corrupt one says nothing."""
    if account.fixed_quota:
        return
    for window in windows:
        if readable(window) and at >= account.quota_at.get(window.name, 0):
            account.quota_at[window.name] = at
            account.quota = {**account.quota, window.name: settled(window)}


def readable(window: QuotaWindow) -> bool:
    """It says something: that the limit is reached, or how much is left."""
    return window.limit_reached or isfinite(window.remaining)


def settled(window: QuotaWindow) -> QuotaWindow:
    """Nothing left counts as the limit reached."""
    return replace(window, limit_reached=True) if not window.remaining > 0.0 else window


def _fold_machines(
    state: RoutingState, ticket: Ticket, place: int, lease: Lease | None, outcome: Outcome, ruling: Ruling, now: int
) -> None:
    member = ticket.chain[place]
    provider = member.provider
    limits = BREAKER_LIMITS[member.candidate.provider_class]
    holder = ticket.id if lease is not None and lease.probes_breaker else ""
    lease_seq = ticket.seq if lease is None else lease.seq
    breaker = fold_breaker(provider.breaker, ruling.breaker, holder, now, limits, state.seq)
    if breaker is not provider.breaker:
        provider.breaker = breaker
        state.touched.add(("breaker", provider.id))
    if ruling.breaker is Verdict.SUCCESS:
        _fold_success(state, member, lease_seq)
    elif ruling.wait is not None:
        failure = Failure(ruling.wait, lease_seq, state.seq, now, _hint(member, outcome, ruling, now))
        _fold_rest(state, member, failure, ruling)


def _hint(member: Member, outcome: Outcome, ruling: Ruling, now: int) -> int | None:
    """How long the upstream asks to be left alone: its hint, or for a used-up quota the time to a known reset."""
    hint = usable_hint(outcome.retry_after_ms) if ruling.hinted else None
    if hint is not None or ruling.wait is not Wait.QUOTA_EXHAUSTED or ruling.locks:
        return hint
    reached = quota(member, now)
    return None if reached is None or reached.until is None else usable_hint(reached.until - now)


def _fold_success(state: RoutingState, member: Member, lease_seq: int) -> None:
    account, target = member.account, member.target
    if account.cooldown.set_seq >= 0 or account.auth.set_seq >= 0 or account.cooldown.step:
        account.cooldown = fold_cooldown_success(account.cooldown, lease_seq)
        account.auth = fold_cooldown_success(account.auth, lease_seq)
        _touch_account(state, member)
    if target.lockout.set_seq >= 0 or target.lockout.step:
        target.lockout = fold_lockout_success(target.lockout, lease_seq)
        _touch_target(state, member)


def _fold_rest(state: RoutingState, member: Member, failure: Failure, ruling: Ruling) -> None:
    backoff = backoff_of(ruling, member.candidate.provider_class)
    if ruling.locks:
        member.target.lockout = fold_wait(member.target.lockout, failure, backoff)
        _touch_target(state, member)
        return
    account = member.account
    if failure.wait is Wait.AUTH_FAILED:
        account.auth = fold_wait(account.auth, failure, backoff)
    else:
        account.cooldown = fold_wait(account.cooldown, failure, backoff)
    _touch_account(state, member)


def _touch_account(state: RoutingState, member: Member) -> None:
    state.touched.add(("cooldown", "\0".join((member.candidate.provider, member.candidate.connection))))


def _touch_target(state: RoutingState, member: Member) -> None:
    c = member.candidate
    state.touched.add(("lockout", "\0".join((c.provider, c.connection, c.model))))


def _fold_exclusion_probe(state: RoutingState, ticket: Ticket, lease: Lease | None, ruling: Ruling, now: int) -> None:
    """Folds the outcome of an exclusion's probe, where it is one."""
    if lease is None or not lease.probes_exclusion:
        return
    member = lease.member
    exclusion = state.exclusion(ticket.scope, member.id)
    if exclusion.probe != ticket.id:
        return
    success = ruling.breaker is Verdict.SUCCESS
    verdict = Verdict.SUCCESS if success else Verdict.FAILURE if ruling.blamed else Verdict.NEUTRAL
    state.exclusions[ticket.scope, member.id] = fold_exclusion(exclusion, verdict, now)
    state.touched.add(("exclusion", "\0".join((ticket.scope, member.id))))


def _fold_rotation(state: RoutingState, ticket: Ticket, place: int, ruling: Ruling) -> None:
    """Folds an outcome into the rotation of its policy as it is now, where the unit still is one of it."""
    scope, member = ticket.scope_of(place), ticket.chain[place]
    nested = scope != ticket.scope
    name = scope if nested else ticket.combo.name
    combo = ticket.combo if ticket.combo.channel else state.roster.combos.get(name)
    if combo is None:
        return
    pool = state.pool(combo, combo.name, ticket.api_key_id)
    ordered_by = pool.strategy or combo.strategy
    fold = _ROTATIONS.get(ordered_by)
    if fold is not None and (nested or ordered_by == ticket.strategy) and member.unit_key in pool.declared:
        fold(state, scope, combo, pool.declared, member, ruling)


def _fold_round_robin(
    state: RoutingState, scope: str, combo: Combo, declared: Mapping[str, int], member: Member, ruling: Ruling
) -> None:
    """A success fills the batch of its unit; a full batch moves the counter behind that unit."""
    limit = sticky_limit(combo.config, state.roster.settings)
    if limit == 1 or ruling.breaker is not Verdict.SUCCESS:
        return
    rotation = state.rotations.setdefault(scope, Rotation())
    batch = rotation.batch
    successes = batch.successes + 1 if batch and batch.step == member.unit_key else 1
    if successes < limit:
        rotation.batch = Batch(member.unit_key, member.id, successes)
        return
    state.rotations[scope] = Rotation(*behind(declared[member.unit_key], declared))


def _fold_weighted(
    state: RoutingState, scope: str, combo: Combo, declared: Mapping[str, int], member: Member, ruling: Ruling
) -> None:
    """Successes of the pinned unit fill its batch; a blamed failure ends it."""
    rotation = state.rotations.get(scope)
    if rotation is None or rotation.batch is None or rotation.batch.step != member.unit_key:
        return
    rotation.batch.successes += ruling.breaker is Verdict.SUCCESS
    if ruling.blamed or rotation.batch.successes >= combo.config.sticky_weighted_limit:
        rotation.batch = None


_ROTATIONS = {"round-robin": _fold_round_robin, "weighted": _fold_weighted}


def _move_lease(state: RoutingState, ticket: Ticket, outcome: Outcome, following: int | None, now: int) -> None:
    """The end of an attempt moves its chain on; a final one ends the decision."""
    success = outcome.outcome_class is OutcomeClass.SUCCESS
    single = ticket.plan is None
    if ticket.over or (single and outcome.attempt < ticket.latest):
        return
    ticket.latest = max(ticket.latest, outcome.attempt)
    if single:
        for other in list(ticket.leases):
            close_lease(state, ticket, other)
    gone = outcome.outcome_class is OutcomeClass.CLIENT_CANCELLED
    if outcome.final or gone or (single and (success or following is None)):
        end_ticket(state, ticket)
    elif following is not None and following not in ticket.leases and (outcome.next_target_id or not success):
        open_lease(state, ticket, following, now, after=outcome.attempt)
