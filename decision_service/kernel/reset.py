"""An operator puts a state machine back. Each function answers whether there was one under that key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from decision_service.kernel.health import NO_REST, NOT_EXCLUDED, Breaker
from decision_service.kernel.state import RoutingState


def breaker(state: RoutingState, key: str) -> bool:
    provider = state.providers.get(key)
    if provider is None:
        return False
    state.seq += 1
    provider.breaker = Breaker(generation=provider.breaker.generation + 1, moved_seq=state.seq)
    state.touched.add(("breaker", key))
    return True


def cooldown(state: RoutingState, key: str) -> bool:
    provider, _, connection = key.partition("/")
    account = state.accounts.get((provider, connection))
    if account is None:
        return False
    account.cooldown = account.auth = NO_REST
    state.touched.add(("cooldown", f"{provider}\0{connection}"))
    return True


def credential_changed(state: RoutingState, provider: str, connection: str) -> None:
    """Another credential: what the old one was refused for says nothing any more."""
    account = state.accounts.get((provider, connection))
    if account is not None and account.auth is not NO_REST:
        account.auth = NO_REST
        state.touched.add(("cooldown", f"{provider}\0{connection}"))


def lockout(state: RoutingState, key: str) -> bool:
    provider, _, rest = key.partition("/")
    model, _, connection = rest.rpartition("@")
    target = state.targets.get((provider, connection, model))
    if target is None:
        return False
    target.lockout = NO_REST
    state.touched.add(("lockout", f"{provider}\0{connection}\0{model}"))
    return True


def exclusion(state: RoutingState, key: str) -> bool:
    scope, _, candidate = key.rpartition(" ")
    if (scope, candidate) not in state.exclusions:
        return False
    state.exclusions[scope, candidate] = NOT_EXCLUDED
    state.touched.add(("exclusion", f"{scope}\0{candidate}"))
    return True


Reset = Callable[[RoutingState, str], bool]
RESETS: Mapping[str, Reset] = MappingProxyType(
    {
        "breaker": breaker,
        "cooldown": cooldown,
        "lockout": lockout,
        "exclusion": exclusion,
    }
)
