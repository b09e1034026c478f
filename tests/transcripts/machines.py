"""State as people read it: one line a machine.

A line is written with instants as ``@ms@``, so that it stays the same while nothing but time has passed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from decision_service.kernel.health import BREAKER_LIMITS, NO_REST, Breaker, Phase, Rest
from decision_service.kernel.keys import limited
from decision_service.kernel.model import DAY, ProviderClass
from decision_service.kernel.state import RoutingState
from docs_build.durations import spoken

Lines = Iterator[tuple[str, str]]
INSTANT = re.compile(r"@(-?\d+)@")


def timed(text: str, now: int) -> str:
    """The text with its instants as times from now."""
    return INSTANT.sub(lambda found: spoken(int(found[1]) - now), text)


def _class(state: RoutingState, provider: str) -> ProviderClass:
    return state.roster.providers[provider].provider_class


def breakers(state: RoutingState, now: int) -> Lines:
    for name, record in state.providers.items():
        most = BREAKER_LIMITS[_class(state, name)].failures
        yield f"breaker {name}", f"{_breaker(record.breaker, now, most)}, generation {record.breaker.generation}"


def _breaker(breaker: Breaker, now: int, most: int) -> str:
    if breaker.probe_held(now):
        return f"HALF_OPEN, probe in flight: decision {breaker.probe}, for at most @{breaker.probe_until}@"
    phase = breaker.phase(now)
    if phase is Phase.CLOSED:
        return f"CLOSED, {breaker.failures} of {most} failures"
    if phase is Phase.HALF_OPEN:
        return "HALF_OPEN, the next decision is the probe"
    return f"OPEN for @{breaker.open_until}@, opening {breaker.openings}"


def _rest(rest: Rest, now: int) -> str:
    if rest.active(now) and rest.wait is not None:
        return f"{rest.wait.value} for @{rest.until}@, k {rest.step}"
    return f"over, k {rest.step}"


def cooldowns(state: RoutingState, now: int) -> Lines:
    for (provider, connection), account in state.accounts.items():
        if account.cooldown is not NO_REST:
            yield f"cooldown {provider}/{connection}", _rest(account.cooldown, now)


def auths(state: RoutingState, now: int) -> Lines:
    for (provider, connection), account in state.accounts.items():
        if account.auth is not NO_REST:
            yield f"auth {provider}/{connection}", _rest(account.auth, now)


def lockouts(state: RoutingState, now: int) -> Lines:
    for (provider, connection, model), target in state.targets.items():
        if target.lockout is not NO_REST:
            yield f"lockout {provider}/{model}@{connection}", _rest(target.lockout, now)


def exclusions(state: RoutingState, now: int) -> Lines:
    for (scope, candidate), exclusion in state.exclusions.items():
        if exclusion.probe and now < exclusion.probe_until:
            text = f"probe in flight: decision {exclusion.probe}, for at most @{exclusion.probe_until}@"
        elif exclusion.out(now):
            text = f"out for @{exclusion.until}@"
        elif exclusion.due(now):
            text = "over, waits for a good score or a probe"
        elif now < exclusion.exempt_until:
            text = f"back, not checked for @{exclusion.exempt_until}@"
        else:
            text = "back"
        yield f"exclusion {scope} {candidate}", text


def leases(state: RoutingState, now: int) -> Lines:
    for ticket in state.tickets.values():
        for place, lease in sorted(ticket.leases.items()):
            name = ticket.plan.calls[place].id if ticket.plan else str(place + 1)
            probe = ", probe" if lease.permit_until else ""
            yield f"lease {ticket.id}.{name}", f"{lease.member.id} for at most @{ticket.expires_at}@{probe}"


def flights(state: RoutingState, now: int) -> Lines:
    for (provider, connection), account in state.accounts.items():
        if account.in_flight:
            yield f"in flight {provider}/{connection}", str(account.in_flight)


def quotas(state: RoutingState, now: int) -> Lines:
    for (provider, connection), account in state.accounts.items():
        for window in account.windows(now):
            reset = "" if window.reset_at is None else f", starts anew in @{window.reset_at}@"
            left = "limit reached" if window.limit_reached else f"{window.remaining:.0%} left"
            yield f"quota {provider}/{connection} {window.name}", left + reset


def _unit(state: RoutingState, scope: str, key: str) -> str:
    """A unit as it is declared: provider, model and connection of its step."""
    combo = state.roster.combos.get(scope)
    if combo is None:
        return key
    for unit in state.pool(combo, scope, "").units:
        if unit.key == key:
            one = unit.step.connection is not None or len(unit.members) == 1
            return unit.head.id if one else f"{unit.step.provider}/{unit.step.model}"
    return key


def rotations(state: RoutingState, now: int) -> Lines:
    for scope, rotation in state.rotations.items():
        combo, batch = state.roster.combos[scope], rotation.batch
        if combo.strategy == "weighted":
            kept = f"{_unit(state, scope, batch.step)}, {batch.successes} served" if batch else "nobody"
            yield f"kept {scope}", kept
            continue
        stands = rotation.step or next(iter(state.pool(combo, scope, "").declared))
        served = f", {batch.successes} served by {_unit(state, scope, batch.step)}" if batch else ""
        yield f"rotation {scope}", f"stands at {_unit(state, scope, stands)}{served}"


def decks(state: RoutingState, now: int) -> Lines:
    for scope, deck in state.decks.items():
        declared = state.pool(state.roster.combos[scope], scope, "").declared
        dealt = ", ".join(_unit(state, scope, key) for key in declared if key in deck.dealt)
        yield f"deck {scope}", f"dealt {dealt}; last {_unit(state, scope, deck.last)}"


def deficits(state: RoutingState, now: int) -> Lines:
    for scope, values in state.deficits.items():
        shown = [f"{_unit(state, scope, key)} {value:+.2f}" for key, value in values.items()]
        yield f"deficit {scope}", ", ".join(shown)


def pins(state: RoutingState, now: int) -> Lines:
    for (key, model, session), pin in state.pins._entries.items():
        record = state.target(pin.provider, pin.connection, pin.candidate.partition("/")[2].rpartition("@")[0])
        if now < pin.until and record.failed_seq <= pin.seq:
            yield f"pin {_named(key, model, session)}", f"{pin.candidate} for @{pin.until}@"


def goods(state: RoutingState, now: int) -> Lines:
    for key, good in state.goods._entries.items():
        if good.until is None or now < good.until:
            until = "" if good.until is None else f" for @{good.until}@"
            yield f"good {_named(*key)}", f"{good.candidate}{until}"


def summaries(state: RoutingState, now: int) -> Lines:
    for key, summary in state.summaries._entries.items():
        if now < summary.until:
            yield f"summary {_named(*key)}", f"made on {summary.provider}/{summary.connection}, for @{summary.until}@"


def _named(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def keys(state: RoutingState, now: int) -> Lines:
    for name, usage in state.keys.items():
        if limited(state.roster.keys.get(name)):
            usage.forget(now)
            tokens, usd = sum(count for _, count in usage.tokens), usage.day.within(now // DAY)
            used = f"{len(usage.requests)} requests and {tokens} tokens in a minute, {usd:.4f} USD today"
            held = f"reserved {usage.reserved_tokens} tokens, {max(0.0, usage.reserved_usd):.4f} USD"
            yield f"key {name}", f"{used}; {held}"


KINDS: Mapping[str, Callable[[RoutingState, int], Lines]] = MappingProxyType(
    {
        "breaker": breakers,
        "cooldown": cooldowns,
        "auth": auths,
        "lockout": lockouts,
        "exclusion": exclusions,
        "lease": leases,
        "flight": flights,
        "quota": quotas,
        "rotation": rotations,
        "deck": decks,
        "deficit": deficits,
        "pin": pins,
        "good": goods,
        "summary": summaries,
        "key": keys,
    }
)
HEALING = ("breaker", "cooldown", "auth", "lockout", "exclusion")
