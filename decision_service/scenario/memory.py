"""What a scenario carries of a live service's memory beside the signals: machines, rotations, pins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson

from decision_service import persistence
from decision_service.kernel.decide import Decision
from decision_service.kernel.live import Member
from decision_service.kernel.recall import Good, Pin, good_key, pin_key
from decision_service.kernel.state import Batch, Deck, Rotation, RoutingState
from decision_service.policy.fields import shape
from service_kit.errors import invalid


def write_memory(decision: Decision, members: Sequence[Member]) -> dict[str, Any]:
    """What the decision read: the records of its members' machines, and what its scope remembers."""
    state, scope, request = decision.ask.state, decision.scope, decision.request
    kinds: dict[tuple[str, str], None] = {}
    for member in members:
        c = member.candidate
        kinds["breaker", c.provider] = None
        kinds["cooldown", f"{c.provider}\0{c.connection}"] = None
        kinds["lockout", f"{c.provider}\0{c.connection}\0{c.model}"] = None
    kinds.update(dict.fromkeys(("exclusion", f"{scope}\0{name}") for name in state.exclusions.of(scope)))
    good = state.goods.get(good_key(request, decision.combo))
    deck, rotation = state.decks.get(scope), state.rotations.get(scope)
    return {
        "scope": scope,
        "records": [[kind, key, persistence.as_seen(state, kind, key, decision.turn.now)] for kind, key in kinds],
        "counter": state.counters.get(scope, 0),
        "rotation": None if rotation is None else asdict(rotation),
        "deck": None if deck is None else {"dealt": sorted(deck.dealt), "last": deck.last},
        "deficits": dict(state.deficits.get(scope, {})),
        "leases": {unit: count for (owner, unit), count in state.step_leases.items() if owner == scope},
        "last_used": [list(key) for key, record in sorted(state.accounts.items(), key=lambda kv: kv[1].last_used)],
        "pin": None if decision.ask.pin is None else {"key": pin_key(request), **asdict(decision.ask.pin), "seq": 0},
        "good": None if good is None else {"key": good_key(request, decision.combo), **asdict(good), "seq": 0},
    }


def apply_memory(state: RoutingState, memory: Mapping[str, Any]) -> None:
    """Puts it into a fresh state. Raises INVALID_FIELD when it is not what ``write_memory`` gives."""
    try:
        _apply(state, memory)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise invalid("state", shape(memory), "what `omnictl explain --dump` writes") from None


def _apply(state: RoutingState, memory: Mapping[str, Any]) -> None:
    scope = str(memory["scope"])
    rows = [(kind, key, orjson.dumps(value)) for kind, key, value in memory["records"]]
    if persistence.load(state, rows):
        raise ValueError(scope)
    state.counters[scope] = int(memory["counter"])
    if memory["rotation"] is not None:
        batch = memory["rotation"]["batch"]
        state.rotations[scope] = Rotation(**{**memory["rotation"], "batch": Batch(**batch) if batch else None})
    if memory["deck"] is not None:
        state.decks[scope] = Deck(set(memory["deck"]["dealt"]), memory["deck"]["last"])
    state.deficits[scope] = dict(memory["deficits"])
    state.step_leases.update({(scope, unit): int(count) for unit, count in memory["leases"].items()})
    for place, (provider, connection) in enumerate(memory["last_used"], 1):
        if (provider, connection) in state.roster.connections:
            state.account(provider, connection).last_used = place
    if (pin := memory["pin"]) is not None:
        state.pins.put(tuple(pin["key"]), Pin(**_without_key(pin)))
    if (good := memory["good"]) is not None:
        state.goods.put(tuple(good["key"]), Good(**_without_key(good)))


def _without_key(kept: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kept.items() if name != "key"}
