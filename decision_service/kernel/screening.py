"""The gate: one function that runs before every strategy. What it lets through may be chosen, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from decision_service.kernel.health import Phase, Rest, Wait
from decision_service.kernel.live import Member
from decision_service.kernel.model import Operation, Rejection, Request

LIMIT_WAITS = frozenset({Wait.RATE_LIMITED, Wait.QUOTA_EXHAUSTED})


def credential(member: Member, now: int) -> Rejection | None:
    connection = member.connection
    if not connection.enabled:
        return Rejection("connection", "disabled")
    if not connection.usable:
        return Rejection("connection", "no usable credential")
    if connection.usable_until is not None and now >= connection.usable_until:
        return Rejection("connection", "credential expired")
    return None


def breaker(member: Member, now: int) -> Rejection | None:
    state = member.provider.breaker
    if state.phase(now) is not Phase.OPEN:
        return None
    reason = "probe in flight" if state.rested(now) else "OPEN"
    return Rejection("breaker", reason, state.recovers_at(now))


def _resting(name: str, rest: Rest, now: int) -> Rejection | None:
    if not rest.active(now) or rest.wait is None:
        return None
    return Rejection(name, rest.wait.value, rest.until, rest.wait in LIMIT_WAITS)


def cooldown(member: Member, now: int) -> Rejection | None:
    return _resting("cooldown", member.account.cooldown, now)


def auth(member: Member, now: int) -> Rejection | None:
    return _resting("cooldown", member.account.auth, now)


def quota(member: Member, now: int) -> Rejection | None:
    reached = [w for w in member.account.windows(now) if w.limit_reached]
    if not reached:
        return None
    resets = [w.reset_at for w in reached]
    until = None if None in resets else max(r for r in resets if r is not None)
    return Rejection("quota", f"{reached[0].name} limit reached", until, rate_limited=True)


def lockout(member: Member, now: int) -> Rejection | None:
    return _resting("lockout", member.target.lockout, now)


Gate = Callable[[Member, int], Rejection | None]
AVAILABILITY: tuple[Gate, ...] = (credential, breaker, cooldown, auth, quota, lockout)


def unavailable(member: Member, now: int) -> Rejection | None:
    """The first gate that stops a member, with the latest of all until-whens; None: it is available."""
    if member.untroubled:
        return None
    stops = [stop for gate in AVAILABILITY if (stop := gate(member, now)) is not None]
    if not stops:
        return None
    if len(stops) == 1:
        return stops[0]
    first = stops[0]
    untils = [stop.until for stop in stops]
    until = None if None in untils else max(u for u in untils if u is not None)
    return Rejection(first.filter, first.reason, until, all(stop.rate_limited for stop in stops))


@dataclass(frozen=True, slots=True)
class Needs:
    """What a call asks of a model. ``positive`` must be known to be there; ``tolerant`` must not be known to lack.

    ``tokens`` is estimated input plus output limit; ``floor`` the smallest window that the policy or the client wants.
    """

    positive: frozenset[str]
    tolerant: frozenset[str]
    tokens: int
    output: int
    floor: int


def needs_of(request: Request, floor: int) -> Needs:
    """The needs of a request that goes to one model as it is."""
    tolerant = {"tools"} if request.has_tools else set()
    if request.needs_structured_output:
        tolerant.add("structured_output")
    positive = {"vision"} if request.needs_vision else set()
    if request.needs_audio:
        positive.add("audio")
    tolerant.add("embeddings" if request.operation is Operation.EMBEDDINGS else "chat")
    output, least = request.max_output_tokens or 0, request.input_tokens
    if request.least_input_tokens is not None:
        least = min(least, request.least_input_tokens)
    return Needs(frozenset(positive), frozenset(tolerant), least + output, output, floor)


def incapable(member: Member, needs: Needs) -> Rejection | None:
    """Why a member cannot do what a call asks; None: it can, as far as is known."""
    facts = member.candidate.facts
    if needs.positive and not needs.positive <= facts.has:
        return Rejection("capability", "lacks " + ", ".join(sorted(needs.positive - facts.has)))
    if facts.lacks and not needs.tolerant.isdisjoint(facts.lacks):
        return Rejection("capability", "lacks " + ", ".join(sorted(needs.tolerant & facts.lacks)))
    if facts.max_output and needs.output > facts.max_output:
        return Rejection("output_limit", f"output limit {facts.max_output} < {needs.output}")
    window = facts.context_window
    if window and window < needs.tokens:
        return Rejection("context_window", f"window {window} < {needs.tokens}")
    if window and window < needs.floor:
        return Rejection("min_context", f"window {window} < {needs.floor}")
    return None


WINDOW_FILTERS = frozenset({"context_window", "min_context"})


def earliest_recovery(rejected: Sequence[Rejection]) -> int | None:
    """The earliest known until-when."""
    known = [r.until for r in rejected if r.until is not None]
    return min(known) if known else None


def first_filters(rejected: Mapping[str, Rejection]) -> str:
    """A short account of what stopped the pool: each filter with its count."""
    counts: dict[str, int] = {}
    for rejection in rejected.values():
        counts[rejection.filter] = counts.get(rejection.filter, 0) + 1
    return ", ".join(f"{name}: {count}" for name, count in counts.items())
