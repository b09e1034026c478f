"""What a decision changes, and what time changes: the events that are not outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from decision_service.kernel.decide import Decision
from decision_service.kernel.draft import (
    Advance,
    DealCard,
    DropBatch,
    Exclude,
    PinUnit,
    Readmit,
    SettleDeficits,
    TurnRotation,
)
from decision_service.kernel.health import Phase, grant_probe, readmit, start_exclusion, withdraw_probe
from decision_service.kernel.keys import Demand, KeyUsage
from decision_service.kernel.model import MINUTE, SECOND, Combo, ProviderClass, Request
from decision_service.kernel.recall import SESSION_TTL_MS, good_key, pin_key, remembers_good, summary_key
from decision_service.kernel.state import TICKETS_KEPT, Batch, Deck, Lease, Rotation, RoutingState, Ticket

PROBE_GRACE_MS = 30 * SECOND
SESSION_LEASE_MS = 10 * MINUTE


def commit(state: RoutingState, decision: Decision, decision_id: str) -> Ticket:
    """A decision takes effect: its draws are kept and its first call is leased."""
    now = decision.turn.now
    state.seq += 1
    for effect in decision.effects:
        _EFFECTS[type(effect)](state, effect, now)
    ticket = Ticket(
        id=decision_id,
        seq=state.seq,
        at=now,
        expires_at=now + decision.lease_ms,
        combo=decision.combo,
        scope=decision.scope,
        shape=decision.shape,
        operation=decision.request.operation,
        api_key_id=decision.request.api_key_id,
        session_id=decision.request.session_id,
        chain=decision.chain,
        timeouts=decision.timeouts,
        strategy=decision.strategy,
        plan=decision.plan,
        pin_key=pin_key(decision.request),
        good_key=good_key(decision.request, decision.combo) if remembers_good(decision.combo) else None,
        explored=decision.draft.scores if decision.draft.exploration else None,
        reserved=decision.demand,
    )
    if decision.demand is not None:
        _reserve(state.key(ticket.api_key_id), decision.demand, now)
    state.tickets[decision_id] = ticket
    state.schedule(ticket.expires_at, decision_id)
    for place in decision.plan.first if decision.plan else (0,):
        open_lease(state, ticket, place, now, probing=True)
    if decision.hand_off is not None and decision.hand_off.summary:
        keep_summary(state, decision.request, decision.combo, now)
    if len(state.tickets) > TICKETS_KEPT:
        _, oldest = state.tickets.popitem(last=False)
        end_ticket(state, oldest)
    return ticket


def _advance(state: RoutingState, effect: Advance, now: int) -> None:
    state.counters[effect.scope] = state.counters.get(effect.scope, 0) + 1


def _turn_rotation(state: RoutingState, effect: TurnRotation, now: int) -> None:
    state.rotations[effect.scope] = Rotation(effect.unit, effect.index)


def _drop_batch(state: RoutingState, effect: DropBatch, now: int) -> None:
    state.rotations.setdefault(effect.scope, Rotation()).batch = None


def _pin_unit(state: RoutingState, effect: PinUnit, now: int) -> None:
    state.rotations.setdefault(effect.scope, Rotation()).batch = Batch(effect.unit, "", 0)


def _deal_card(state: RoutingState, effect: DealCard, now: int) -> None:
    deck = state.decks.setdefault(effect.scope, Deck())
    if effect.anew:
        deck.dealt.clear()
    deck.dealt.add(effect.unit)
    deck.last = effect.unit


def _settle_deficits(state: RoutingState, effect: SettleDeficits, now: int) -> None:
    state.deficits[effect.scope] = effect.deficits


def _exclude(state: RoutingState, effect: Exclude, now: int) -> None:
    key = (effect.scope, effect.candidate)
    state.exclusions[key] = start_exclusion(state.exclusion(*key), now)
    state.touched.add(("exclusion", "\0".join(key)))


def _readmit(state: RoutingState, effect: Readmit, now: int) -> None:
    key = (effect.scope, effect.candidate)
    state.exclusions[key] = readmit(state.exclusion(*key), now)
    state.touched.add(("exclusion", "\0".join(key)))


_EFFECTS: Mapping[type, Callable[[RoutingState, Any, int], None]] = MappingProxyType(
    {
        Advance: _advance,
        TurnRotation: _turn_rotation,
        DropBatch: _drop_batch,
        PinUnit: _pin_unit,
        DealCard: _deal_card,
        SettleDeficits: _settle_deficits,
        Exclude: _exclude,
        Readmit: _readmit,
    }
)


def _reserve(usage: KeyUsage, demand: Demand, now: int) -> None:
    usage.requests.append(now)
    usage.reserved_usd += demand.usd
    usage.reserved_tokens += demand.tokens


def release(state: RoutingState, ticket: Ticket) -> None:
    """What a decision holds of its key's limits is free again."""
    if ticket.reserved is None:
        return
    usage = state.key(ticket.api_key_id)
    usage.reserved_usd = max(0.0, usage.reserved_usd - ticket.reserved.usd)
    usage.reserved_tokens -= ticket.reserved.tokens
    ticket.reserved = None


def keep_summary(state: RoutingState, request: Request, combo: Combo, now: int) -> None:
    """A summary that is used is kept for longer."""
    key = summary_key(request, combo)
    summary = state.summaries.get(key) if key else None
    if key and summary is not None:
        state.summaries.put(key, replace(summary, until=now + SESSION_TTL_MS))


def open_lease(
    state: RoutingState, ticket: Ticket, place: int, now: int, *, after: int = 0, probing: bool = False
) -> None:
    """A call of a decision begins: one in-flight slot, and the probe permits that it is due.

    ``after`` is the attempt whose end it begins at. Only a decision's first calls are ``probing`` half-open breakers.
    """
    member = ticket.chain[place]
    account = member.account
    lease = ticket.leases[place] = Lease(member, place, state.seq, after)
    account.in_flight += 1
    if account.in_flight == 1:
        account.log.note(account)
    account.recent_requests(now)
    account.recent.append(now)
    account.last_used = state.seq
    slot = (ticket.scope_of(place), member.unit_key)
    state.step_leases[slot] = state.step_leases.get(slot, 0) + 1
    if ticket.session_id and member.candidate.provider_class is ProviderClass.OAUTH:
        _lease_session(account.sessions, ticket.session_id, now)
    until = now + ticket.timeouts[place] + PROBE_GRACE_MS
    breaker = member.provider.breaker
    if probing and breaker.phase(now) is Phase.HALF_OPEN:
        member.provider.breaker = grant_probe(breaker, ticket.id, until)
        lease.probes_breaker, lease.permit_until = True, until
    if state.exclusions.of(ticket.scope) and state.exclusion(ticket.scope, member.id).due(now):
        key = (ticket.scope, member.id)
        state.exclusions[key] = replace(state.exclusions[key], probe=ticket.id, probe_until=until)
        lease.probes_exclusion, lease.permit_until = True, until


def _lease_session(sessions: dict[str, int], session: str, now: int) -> None:
    sessions.pop(session, None)
    sessions[session] = now + SESSION_LEASE_MS
    while sessions:
        oldest = next(iter(sessions))
        if sessions[oldest] > now:
            break
        del sessions[oldest]


def close_lease(state: RoutingState, ticket: Ticket, place: int) -> None:
    """A call of a decision has ended, one way or another."""
    lease = ticket.leases.pop(place, None)
    if lease is None:
        return
    account = lease.member.account
    account.in_flight -= 1
    if not account.in_flight:
        account.log.note(account)
    slot = (ticket.scope_of(place), lease.member.unit_key)
    left = state.step_leases[slot] - 1
    if left:
        state.step_leases[slot] = left
    else:
        del state.step_leases[slot]
    _return_permits(state, ticket, lease)


def _return_permits(state: RoutingState, ticket: Ticket, lease: Lease) -> None:
    """A probe that learned nothing gives its permits back."""
    provider = lease.member.provider
    if lease.probes_breaker and provider.breaker.probe == ticket.id:
        provider.breaker = withdraw_probe(provider.breaker, ticket.id)
    key = (ticket.scope, lease.member.id)
    exclusion = state.exclusions.get(key) if lease.probes_exclusion else None
    if exclusion is not None and exclusion.probe == ticket.id:
        state.exclusions[key] = replace(exclusion, probe="", probe_until=0)


def end_ticket(state: RoutingState, ticket: Ticket) -> None:
    """Every lease of a decision ends; nothing of it is in flight any more."""
    for place in list(ticket.leases):
        close_lease(state, ticket, place)
    release(state, ticket)
    ticket.over = True


def tick(state: RoutingState, now: int) -> int:
    """Time passes: leases that ran out are abandoned. Answers how many decisions were."""
    abandoned = 0
    state.expire_statistics(now)
    while (ticket_id := state.due(now)) is not None:
        ticket = state.tickets.get(ticket_id)
        if ticket is not None and not ticket.over:
            state.seq += 1
            end_ticket(state, ticket)
            ticket.abandoned = True
            abandoned += 1
    return abandoned
