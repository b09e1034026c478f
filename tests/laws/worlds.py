"""Worlds for the laws: small rosters with combos of drawn strategies, and histories that move their state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from decision_service.kernel.decide import Decision
from decision_service.kernel.model import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Combo,
    ComboConfig,
    Controls,
    ModelFacts,
    OutcomeClass,
    ProviderClass,
    QuotaWindow,
    Refused,
    Step,
)
from decision_service.kernel.roster import Roster
from decision_service.kernel.routers import ROUTER_STRATEGIES
from decision_service.kernel.statistics import TargetStatistics
from decision_service.kernel.strategies import STRATEGIES
from tests.kernel.rig import Rig, parts, roster, step

SINGLE_SHAPE = tuple(name for name in STRATEGIES if name != "quota-share")
ROUTERS = tuple(name for name in ROUTER_STRATEGIES if name != "nadir")
CHANNELS = ("auto/fast", "auto/vision", "auto/coding:free")
CANDIDATES = ("p/m@a", "p/m@b", "p/n@a", "q/m@c", "q/n@d", "r/m@e", "s/big@f")
CLASSES = {
    "p": ProviderClass.LOCAL,
    "q": ProviderClass.OAUTH,
    "r": ProviderClass.API_KEY,
    "s": ProviderClass.LOCAL,
}

fractions = st.floats(0.0, 1.0)
prices = st.one_of(st.none(), st.just(0.0), st.floats(0.01, 50.0))
wild = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.integers(-(10**9), 10**9).map(float))
facts = st.builds(
    ModelFacts,
    input_price=prices,
    output_price=prices,
    context_window=st.sampled_from([None, 1_000, 8_000, 128_000]),
    max_output=st.sampled_from([None, 100, 4_000]),
    has=st.frozensets(st.sampled_from(["tools", "vision", "reasoning"])),
    lacks=st.frozensets(st.sampled_from(["audio", "structured_output"])),
    fitness=st.dictionaries(st.sampled_from(["coding", "default"]), fractions),
)
weights = st.dictionaries(
    st.sampled_from(["quota", "health", "costInv", "latencyInv", "taskFit", "stability", "connectionDensity"])
    | st.sampled_from(["resetWindowAffinity", "cacheAffinity", "contextAffinity", "sessionAvailability", "quality"]),
    st.floats(0.0, 9.0),
)


@st.composite
def combos(draw: st.DrawFn, names: Sequence[str]) -> list[Combo]:
    """A combo for each of these strategies, named as it, over some of the candidates: pinned, dynamic or twice."""
    steps: list[Step] = []
    for place, candidate in enumerate(draw(st.lists(st.sampled_from(CANDIDATES), min_size=1, max_size=6))):
        written = candidate.partition("@")[0] if draw(st.booleans()) else candidate
        limit = draw(st.sampled_from([None, None, 1, 2]))
        steps.append(step(written, id=f"s{place}", weight=draw(st.sampled_from([0.0, 1.0, 3.0])), max_concurrent=limit))
    config = ComboConfig(
        router_strategy=draw(st.sampled_from(ROUTERS)),
        weights=draw(st.none() | weights),
        exploration_rate=draw(st.sampled_from([0.0, 0.3, 1.0])),
        sticky_round_robin_limit=draw(st.sampled_from([None, 1, 2])),
        sticky_weighted_limit=draw(st.sampled_from([1, 2])),
        connection_aware_expansion=draw(st.sampled_from([None, True])),
        strict_random_deck=draw(st.booleans()),
    )
    return [Combo(name, name, tuple(steps), config) for name in names]


@st.composite
def rosters(draw: st.DrawFn, names: Sequence[str] = ()) -> Roster:
    """A roster with combos of these strategies; `auto` and two more unless they are named."""
    if not names:
        names = ("auto", *draw(st.lists(st.sampled_from(SINGLE_SHAPE), min_size=2, max_size=2, unique=True)))
    known = {candidate: draw(facts) for candidate in CANDIDATES}
    return roster(CANDIDATES, *draw(combos(names)), facts=known, classes=CLASSES)


@dataclass(frozen=True)
class Event:
    """Something that happens to a rig: its kind, and numbers that pick what it happens to."""

    kind: str
    which: int = 0
    amount: int = 0
    outcome: OutcomeClass = OutcomeClass.SUCCESS
    more: Any = None


REQUESTS: tuple[dict[str, Any], ...] = (
    {},
    {"input_tokens": 500, "max_output_tokens": 50},
    {"input_tokens": 4_000, "has_tools": True, "session_id": "s1"},
    {"needs_vision": True, "task_type": "coding"},
    {"session_id": "s1", "session_explicit": True},
    {"session_id": "s2", "prompt_cache_key": "k"},
    {"specificity": 40.0, "prompt_prefix_hash": "h"},
)
CONTROLS: tuple[Controls, ...] = (
    Controls(),
    Controls(),
    Controls(mode="fast"),
    Controls(budget_usd=0.001),
    Controls(budget_usd=1e-9),
    Controls(min_context_tokens=2_000),
)
LEAPS = (1, 500, 3 * SECOND, 15 * SECOND, 31 * SECOND, 2 * MINUTE, 6 * MINUTE, 12 * MINUTE, HOUR, DAY)
windows = st.builds(
    QuotaWindow,
    name=st.sampled_from(["session", "weekly", "monthly", "requests"]),
    remaining=st.one_of(fractions, wild),
    limit_reached=st.booleans(),
)
counts = st.integers(0, 10_000)
events = st.one_of(
    st.builds(Event, st.just("decide"), counts, counts),
    st.builds(Event, st.just("report"), counts, counts, st.sampled_from(OutcomeClass), st.lists(windows, max_size=2)),
    st.builds(Event, st.just("succeed"), counts),
    st.builds(Event, st.just("pass"), counts),
    st.builds(
        Event,
        st.just("measure"),
        counts,
        more=st.dictionaries(
            st.sampled_from(["p95_ms", "latency_std_ms", "samples", "error_rate", "failure_rate", "quality"]), wild
        ),
    ),
)
histories = st.lists(events, max_size=25)


def models(over: Rig) -> list[str]:
    """What a client may ask of a rig."""
    return [*over.state.roster.combos, *CHANNELS]


def asked(over: Rig, which: int, amount: int) -> dict[str, Any]:
    """A request by numbers."""
    names = models(over)
    return {
        "model": names[which % len(names)],
        "seed": amount,
        "controls": CONTROLS[amount % len(CONTROLS)],
        **REQUESTS[which % len(REQUESTS)],
    }


def happen(over: Rig, event: Event) -> None:
    """One event happens."""
    _HAPPENINGS[event.kind](over, event)


def lived(over: Roster, history: Sequence[Event]) -> Rig:
    """A rig after a history."""
    rig = Rig(over)
    for event in history:
        happen(rig, event)
    return rig


def try_decide(over: Rig, which: int, amount: int) -> Decision | None:
    try:
        return over.decide(**asked(over, which, amount))
    except Refused:
        return None


def _decide(over: Rig, event: Event) -> None:
    try_decide(over, event.which, event.amount)


def _report(over: Rig, event: Event) -> None:
    if not over.decisions:
        return
    decision = over.decisions[event.which % len(over.decisions)]
    last = over.ticket(decision).latest
    over.report(
        event.outcome,
        decision,
        attempt=max(1, last + 1 - event.amount % 3),
        place=event.amount % len(decision.chain),
        latency_ms=event.amount,
        output_tokens=event.amount % 2,
        model_scoped=bool(event.amount % 5 == 0),
        http_status=(0, 429, 501, 529)[event.amount % 4],
        retry_after_ms=(None, 0, 5_000, 9 * DAY)[event.amount // 4 % 4],
        final=event.amount % 7 == 0,
        quota=tuple(event.more or ()),
    )


def _succeed(over: Rig, event: Event) -> None:
    if over.decisions:
        decision = over.decisions[event.which % len(over.decisions)]
        over.report(
            decision=decision, attempt=over.ticket(decision).latest + 1, place=0, latency_ms=100, output_tokens=9
        )


def _pass(over: Rig, event: Event) -> None:
    over.pass_time(LEAPS[event.which % len(LEAPS)])


def _measure(over: Rig, event: Event) -> None:
    provider, model, connection = parts(CANDIDATES[event.which % len(CANDIDATES)])
    assert connection is not None
    over.state.target(provider, connection, model).statistics = TargetStatistics(event.more)


_HAPPENINGS: dict[str, Callable[[Rig, Event], None]] = {
    "decide": _decide,
    "report": _report,
    "succeed": _succeed,
    "pass": _pass,
    "measure": _measure,
}
