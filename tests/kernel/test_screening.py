"""The gate: what stops a candidate, under which name, and until when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from decision_service.kernel.health import Breaker, Rest, Wait
from decision_service.kernel.live import Member
from decision_service.kernel.model import (
    HOUR,
    MINUTE,
    SECOND,
    Controls,
    ModelFacts,
    Operation,
    QuotaWindow,
    Rejection,
    Request,
)
from decision_service.kernel.screening import incapable, needs_of, unavailable
from tests.kernel.rig import Rig, combo, ids, roster

ONE = "p/m@c"
NEVER = None


def rig(**connection: Any) -> Rig:
    return Rig(roster([ONE], combo("priority", [ONE]), connections={"c": connection}))


def member(over: Rig) -> Member:
    return over.state.pool(over.state.combo("combo"), "combo", "").members[0]


def stop(over: Rig) -> Rejection | None:
    return unavailable(member(over), over.now)


# Availability, each alone: how it comes about, filter, reason, until (from now), a rate limit


def breaker(over: Rig, rest: int) -> None:
    over.state.provider("p").breaker = Breaker(open=True, openings=1, open_until=over.now + rest)


def probe(over: Rig, until: int) -> None:
    over.state.provider("p").breaker = Breaker(open=True, probe="other", probe_until=over.now + until)


def cooldown(over: Rig, rest: int, wait: Wait = Wait.RATE_LIMITED) -> None:
    over.state.account("p", "c").cooldown = Rest(over.now + rest, wait)


def auth(over: Rig, rest: int) -> None:
    over.state.account("p", "c").auth = Rest(over.now + rest, Wait.AUTH_FAILED)


def quota(over: Rig, reset: int | None, name: str = "weekly") -> None:
    reset_at = None if reset is None else over.now + reset
    over.state.account("p", "c").quota[name] = QuotaWindow(name, 0.0, reset_at, limit_reached=True)


def lockout(over: Rig, rest: int, wait: Wait = Wait.OVERLOADED) -> None:
    over.state.target("p", "c", "m").lockout = Rest(over.now + rest, wait)


ALONE = [
    (breaker, (9,), "breaker", "OPEN", 9, False),
    (probe, (9,), "breaker", "probe in flight", 9, False),
    (cooldown, (9,), "cooldown", "rate_limited", 9, True),
    (cooldown, (9, Wait.QUOTA_EXHAUSTED), "cooldown", "quota_exhausted", 9, True),
    (auth, (9,), "cooldown", "auth_failed", 9, False),
    (quota, (9,), "quota", "weekly limit reached", 9, True),
    (quota, (None,), "quota", "weekly limit reached", NEVER, True),
    (lockout, (9,), "lockout", "overloaded", 9, False),
    (lockout, (9, Wait.MODEL_NOT_FOUND), "lockout", "model_not_found", 9, False),
    (lockout, (9, Wait.RATE_LIMITED), "lockout", "rate_limited", 9, True),
]


@pytest.mark.parametrize(("cause", "args", "name", "reason", "until", "limited"), ALONE)
def test_a_candidate_is_unavailable(
    cause: Any, args: tuple[Any, ...], name: str, reason: str, until: int | None, limited: bool
) -> None:
    over = rig()
    cause(over, *args)
    at = None if until is None else over.now + until
    assert stop(over) == Rejection(name, reason, at, limited)
    if until is not None:
        assert unavailable(member(over), over.now + until - 1) is not None
        assert unavailable(member(over), over.now + until) is None, "over at its end instant"


@pytest.mark.parametrize(
    ("connection", "reason"),
    [
        ({"enabled": False}, "disabled"),
        ({"usable": False}, "no usable credential"),
        ({"usable_until": 5}, "credential expired"),
    ],
)
def test_a_connection_that_cannot_be_used(connection: dict[str, Any], reason: str) -> None:
    assert stop(rig(**connection)) == Rejection("connection", reason)


def test_an_oauth_token_ends_at_its_instant_and_an_unknown_end_is_valid() -> None:
    over = rig()
    over.state.change_roster(
        roster([ONE], combo("priority", [ONE]), connections={"c": {"usable_until": over.now + 10}})
    )
    assert unavailable(member(over), over.now + 9) is None
    assert unavailable(member(over), over.now + 10) is not None
    assert stop(rig()) is None


ORDER: list[tuple[Callable[..., None], tuple[int], str]] = [
    (breaker, (1,), "breaker"),
    (cooldown, (1,), "cooldown"),
    (auth, (1,), "cooldown"),
    (quota, (1,), "quota"),
    (lockout, (1,), "lockout"),
]


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_it_is_listed_once_under_the_first_gate_with_the_latest_end(first: int) -> None:
    over = rig()
    for place, (cause, _, _) in enumerate(ORDER[first:]):
        cause(over, 10 * (place + 1))
    found = stop(over)
    assert found is not None
    assert (found.filter, found.until) == (ORDER[first][2], over.now + 10 * (len(ORDER) - first))


def test_an_unknown_end_beside_a_known_one_is_unknown() -> None:
    over = rig()
    cooldown(over, 10)
    quota(over, None)
    found = stop(over)
    assert found is not None
    assert (found.filter, found.until, found.rate_limited) == ("cooldown", None, True)


def test_several_stops_are_a_rate_limit_only_if_each_is_one() -> None:
    over = rig()
    cooldown(over, 10)
    quota(over, 20)
    assert stop(over) == Rejection("cooldown", "rate_limited", over.now + 20, rate_limited=True)
    lockout(over, 5)
    found = stop(over)
    assert found is not None
    assert not found.rate_limited


def test_a_window_that_has_started_anew_stops_nobody() -> None:
    over = rig()
    quota(over, MINUTE)
    over.pass_time(MINUTE)
    assert stop(over) is None


@pytest.mark.parametrize(
    ("window", "available"),
    [
        (QuotaWindow("session", 0.0), False),
        (QuotaWindow("session", -0.5), False),
        (QuotaWindow("session", 0.5, limit_reached=True), False),
        (QuotaWindow("session", 0.001), True),
        (QuotaWindow("session", 1.0), True),
        (QuotaWindow("session", float("nan")), True),
        (QuotaWindow("session", float("inf")), True),
    ],
)
def test_nothing_left_is_a_limit_reached_and_a_corrupt_number_is_none(window: QuotaWindow, available: bool) -> None:
    over = rig()
    over.decide()
    over.report(quota=(replace(window, reset_at=over.now + MINUTE),))
    assert (stop(over) is None) == available


# Capability


def request(**features: Any) -> Request:
    return Request("combo", **features)


def facts(*has: str, lacks: tuple[str, ...] = (), **known: Any) -> ModelFacts:
    return ModelFacts(has=frozenset(has), lacks=frozenset(lacks), **known)


ROOMY = {"input_tokens": 900, "max_output_tokens": 100}
CAPABILITY = [
    # what is needed, what is known: which filter stops it (None: it passes)
    ({}, facts(), None),
    ({"has_tools": True}, facts("tools"), None),
    ({"has_tools": True}, facts(), None),
    ({"has_tools": True}, facts(lacks=("tools",)), "capability"),
    ({"needs_structured_output": True}, facts(), None),
    ({"needs_structured_output": True}, facts(lacks=("structured_output",)), "capability"),
    ({"needs_vision": True}, facts("vision"), None),
    ({"needs_vision": True}, facts(), "capability"),
    ({"needs_vision": True}, facts(lacks=("vision",)), "capability"),
    ({"needs_audio": True}, facts("audio"), None),
    ({"needs_audio": True}, facts("vision"), "capability"),
    ({"needs_vision": True, "needs_audio": True}, facts("vision"), "capability"),
    ({}, facts(lacks=("tools", "vision", "audio", "structured_output", "reasoning")), None),
    ({"operation": Operation.EMBEDDINGS}, facts(), None),
    ({"operation": Operation.EMBEDDINGS}, facts(lacks=("embeddings",)), "capability"),
    ({"operation": Operation.CHAT}, facts(lacks=("chat",)), "capability"),
    ({"operation": Operation.EMBEDDINGS}, facts("embeddings", lacks=("chat",)), None),
    (ROOMY, facts(context_window=1_000), None),
    (ROOMY, facts(context_window=999), "context_window"),
    ({"input_tokens": 1_000}, facts(context_window=1_000), None),
    ({"input_tokens": 1_500, "least_input_tokens": 1_000}, facts(context_window=1_000), None),
    ({"input_tokens": 1_500, "least_input_tokens": 1_001}, facts(context_window=1_000), "context_window"),
    ({"input_tokens": 1_000, "least_input_tokens": 9_000}, facts(context_window=1_000), None),
    (
        {"least_input_tokens": 990, "input_tokens": 999, "max_output_tokens": 11},
        facts(context_window=1_000),
        "context_window",
    ),
    (ROOMY, facts(), None),
    (ROOMY, facts(max_output=100), None),
    (ROOMY, facts(max_output=99), "output_limit"),
    ({"input_tokens": 10**9}, facts(max_output=1), None),
    (ROOMY, facts(max_output=99, context_window=1), "output_limit"),
    ({"needs_vision": True, **ROOMY}, facts(context_window=1), "capability"),
]


@pytest.mark.parametrize(("features", "known", "name"), CAPABILITY)
def test_a_capability(features: dict[str, Any], known: ModelFacts, name: str | None) -> None:
    over = Rig(roster([ONE], combo("priority", [ONE]), facts={ONE: known}))
    found = incapable(member(over), needs_of(request(**features), floor=0))
    assert (found.filter if found else None) == name


@pytest.mark.parametrize(
    ("floor", "window", "name"),
    [(100, 100, None), (101, 100, "min_context"), (10**9, None, None), (0, 1, None)],
)
def test_a_smallest_window(floor: int, window: int | None, name: str | None) -> None:
    over = Rig(roster([ONE], combo("priority", [ONE]), facts={ONE: ModelFacts(context_window=window)}))
    found = incapable(member(over), needs_of(request(), floor))
    assert (found.filter if found else None) == name


# Before every strategy


@pytest.mark.parametrize(
    "strategy",
    [
        *("priority", "weighted", "round-robin", "fill-first", "p2c", "random", "least-used", "cost-optimized"),
        *("reset-aware", "reset-window", "headroom", "auto", "context-optimized"),
    ],
)
def test_the_gate_stands_before_every_strategy(strategy: str) -> None:
    six = [f"p{n}/m@c" for n in range(6)]
    over = Rig(roster(six, combo(strategy, six), facts={six[3]: ModelFacts(context_window=10)}, connections={"c": {}}))
    over.state.provider("p0").breaker = Breaker(open=True, openings=1, open_until=over.now + 9 * SECOND)
    over.state.account("p1", "c").cooldown = Rest(over.now + 9 * SECOND, Wait.RATE_LIMITED)
    over.state.account("p2", "c").quota["weekly"] = QuotaWindow("weekly", 0.0, None, limit_reached=True)
    over.state.target("p4", "c", "m").lockout = Rest(over.now + 9 * SECOND, Wait.OVERLOADED)
    for seed in range(5):
        decision = over.ask(seed=seed, input_tokens=100)
        assert ids(decision) == [six[5]]
        assert {c: s.filter for c, s in decision.rejected.items()} == {
            six[0]: "breaker",
            six[1]: "cooldown",
            six[2]: "quota",
            six[3]: "context_window",
            six[4]: "lockout",
        }


def test_a_minimum_context_is_taken_from_the_request_and_the_combo_whichever_is_more() -> None:
    two = ["p/small@c", "q/big@c"]
    over = Rig(
        roster(
            two,
            combo("priority", two, min_context_window=50),
            facts={two[0]: ModelFacts(context_window=60), two[1]: ModelFacts(context_window=100)},
        )
    )
    assert ids(over.ask()) == two
    assert ids(over.ask(controls=Controls(min_context_tokens=61))) == two[1:]
    over.state.change_roster(
        replace(over.state.roster, combos={"combo": combo("priority", two, min_context_window=70)})
    )
    assert ids(over.ask(controls=Controls(min_context_tokens=10))) == two[1:]


def test_a_limit_that_was_told_without_its_reset_is_believed_for_an_hour() -> None:
    over = rig()
    over.decide()
    over.report(quota=(QuotaWindow("weekly", 0.0),))
    refusal = over.refused()
    assert (refusal.rate_limited, refusal.retry_at) == (True, None)
    over.pass_time(HOUR - 1)
    assert stop(over) is not None
    over.pass_time(1)
    assert stop(over) is None
    assert over.state.account("p", "c").remaining(over.now) is None
    over.decide()
    over.report(quota=(QuotaWindow("weekly", 0.0),))
    assert stop(over) is not None, "and again, if it is told again"
