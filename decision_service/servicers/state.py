"""StateService: what the state machines say, and an operator's reset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import structlog

from decision_service.engine import Engine
from decision_service.kernel.health import Breaker, Exclusion, Phase, Rest
from decision_service.kernel.reset import RESETS
from decision_service.kernel.state import RoutingState
from decision_service.servicers.registry_desk import Desk
from decision_service.servicers.saving import saved
from decision_service.wire import wait_ms
from omniroute.registry.v1 import registry_pb2 as pb
from omniroute.registry.v1 import registry_pb2_grpc
from service_kit.errors import Reason, ServiceError, invalid

Context = Any
PAGE, LARGEST_PAGE = 100, 1_000
LOG = structlog.get_logger()


def _breaker(key: str, breaker: Breaker, now: int) -> pb.State:
    phase = breaker.phase(now)
    return pb.State(
        kind="breaker",
        key=key,
        state=phase.value,
        reason="probe in flight" if breaker.rested(now) and phase is Phase.OPEN else "",
        until_ms=wait_ms(breaker.recovers_at(now), now) if phase is Phase.OPEN else None,
        generation=breaker.generation,
        count=breaker.openings if breaker.open else breaker.failures,
    )


def _rest(kind: str, key: str, rest: Rest, now: int) -> pb.State:
    active = rest.active(now)
    return pb.State(
        kind=kind,
        key=key,
        state="RESTING" if active else "CLEAR",
        reason=rest.wait.value if active and rest.wait else "",
        until_ms=wait_ms(rest.until, now) if active else None,
        count=rest.step,
    )


def _exclusion(key: str, exclusion: Exclusion, now: int) -> pb.State:
    out, due = exclusion.out(now), exclusion.due(now)
    return pb.State(
        kind="exclusion",
        key=key,
        state="EXCLUDED" if out else "PROBING" if due else "CLEAR",
        reason="score" if out or due else "",
        until_ms=wait_ms(exclusion.recovers_at(now), now) if out else None,
    )


def _breakers(state: RoutingState, now: int) -> Iterator[pb.State]:
    for key, provider in state.providers.items():
        yield _breaker(key, provider.breaker, now)


def _cooldowns(state: RoutingState, now: int) -> Iterator[pb.State]:
    for (provider, connection), account in state.accounts.items():
        resting = max(account.cooldown, account.auth, key=lambda rest: rest.until)
        yield _rest("cooldown", f"{provider}/{connection}", resting, now)


def _lockouts(state: RoutingState, now: int) -> Iterator[pb.State]:
    for (provider, connection, model), target in state.targets.items():
        yield _rest("lockout", f"{provider}/{model}@{connection}", target.lockout, now)


def _exclusions(state: RoutingState, now: int) -> Iterator[pb.State]:
    for (scope, candidate), exclusion in state.exclusions.items():
        yield _exclusion(f"{scope} {candidate}", exclusion, now)


def _leases(state: RoutingState, now: int) -> Iterator[pb.State]:
    for ticket in state.tickets.values():
        for lease in ticket.leases.values():
            yield pb.State(
                kind="lease",
                key=ticket.id,
                state="LIVE",
                reason=lease.member.id,
                until_ms=wait_ms(ticket.expires_at, now),
            )


List = Callable[[RoutingState, int], Iterator[pb.State]]
KINDS: Mapping[str, List] = MappingProxyType(
    {
        "breaker": _breakers,
        "cooldown": _cooldowns,
        "lockout": _lockouts,
        "exclusion": _exclusions,
        "lease": _leases,
    }
)
NORMAL = frozenset({"CLOSED", "CLEAR", "LIVE"})


class StateServicer(registry_pb2_grpc.StateServiceServicer):
    """Reads and resets the engine's state machines. ``note`` adds an action, kind and key to the audit log."""

    def __init__(self, engine: Engine, desk: Desk, note: Callable[[str, str, str], None]) -> None:
        self._engine = engine
        self._desk = desk
        self._note = note

    def ListStates(self, request: pb.ListStatesRequest, context: Context) -> pb.ListStatesResponse:
        self._desk.admit_admin(context)
        if request.kind and request.kind not in KINDS:
            raise invalid("kind", repr(request.kind), ", ".join(KINDS))
        size = request.page_size or PAGE
        if not 1 <= size <= LARGEST_PAGE:
            raise invalid("page_size", str(size), f"1 to {LARGEST_PAGE}, or 0 for {PAGE}")
        if request.page_token and not request.page_token.isdecimal():
            raise invalid("page_token", repr(request.page_token[:40]), "the token of the last answer")
        first = int(request.page_token or 0)
        found = sorted(self._states(request), key=lambda s: (s.kind, s.key))
        following = str(first + size) if first + size < len(found) else ""
        return pb.ListStatesResponse(states=found[first : first + size], next_page_token=following)

    def _states(self, request: pb.ListStatesRequest) -> Iterator[pb.State]:
        now = self._engine.tick()
        for kind in (request.kind,) if request.kind else KINDS:
            for shown in KINDS[kind](self._engine.state, now):
                if not request.abnormal_only or shown.state not in NORMAL:
                    yield shown

    async def ResetState(self, request: pb.ResetStateRequest, context: Context) -> pb.ResetStateResponse:
        self._desk.admit_admin(context)
        kind, key, state = request.kind, request.key, self._engine.state
        if kind not in RESETS:
            raise invalid("kind", repr(kind), ", ".join(RESETS))
        shown = self._shown(kind, key)
        await self._desk.run(self._note, "reset", kind, key)
        if RESETS[kind](state, key):
            await saved(lambda: self._engine.save(()))
            shown = self._shown(kind, key)
        LOG.info("state_reset", kind=kind, key=key)
        return pb.ResetStateResponse(state=shown)

    def _shown(self, kind: str, key: str) -> pb.State:
        found = next((s for s in KINDS[kind](self._engine.state, self._engine.tick()) if s.key == key), None)
        if found is None:
            raise ServiceError(Reason.NOT_FOUND, f"key: no {kind} {key[:256]!r}", field="key")
        return found
