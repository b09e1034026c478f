"""A plug-in inside a decision: what it is shown, what becomes of its answer, and of its failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError
from math import inf, nan
from typing import Any

import pytest
import structlog

from decision_service.kernel.health import Breaker
from decision_service.kernel.model import Controls, ModelFacts, QuotaWindow, SlaTargets
from decision_service.kernel.statistics import TargetStatistics
from decision_service.kernel.weights import FACTOR_NAMES
from decision_service.plugins import Choice, PoolMember, RouterStrategy, SelectContext
from decision_service.plugins.calling import FALLBACKS, SLOW, Called
from tests.kernel.rig import START, Rig, combo, ids, roster
from tests.plugins.example_router.thrifty_router import Thrifty

FOUR = ["p/m@a", "q/m@b", "r/m@c", "s/m@d"]
Select = Callable[[Sequence[PoolMember], SelectContext], Any]


class Scripted:
    """Answers what the test says, and keeps what it was asked."""

    name = "mine"
    description = "For tests."

    def __init__(self, select: Select) -> None:
        self.asked: list[tuple[Sequence[PoolMember], SelectContext]] = []
        self._select = select

    def select(self, pool: Sequence[PoolMember], context: SelectContext) -> Any:
        self.asked.append((pool, context))
        return self._select(pool, context)


def choosing(candidate: Any, reason: Any = "why not", score: Any = 0.5) -> Scripted:
    return Scripted(lambda pool, context: Choice(candidate, reason, score))


def rig(strategy: RouterStrategy, facts: dict[str, ModelFacts] | None = None, **config: Any) -> Rig:
    chosen = {"router_strategy": strategy.name, "exploration_rate": 0.0, **config}
    over = Rig(roster(FOUR, combo("auto", FOUR, **chosen), facts=facts))
    over.state.routers = {strategy.name: Called(strategy)}
    return over


def fallbacks(why: str) -> float:
    value: float = FALLBACKS.labels("mine", why)._value.get()
    return value


# Choices


def test_its_pick_goes_first_and_the_others_follow_by_score() -> None:
    facts = {c: ModelFacts(fitness={"default": v}) for c, v in zip(FOUR, (0.4, 0.9, 0.5, 0.6), strict=True)}
    decision = rig(choosing(FOUR[2]), facts, weights={"taskFit": 1.0}).ask()
    assert [candidate[0] for candidate in ids(decision)] == ["r", "q", "s", "p"]
    assert decision.draft.router_strategy == "mine"
    assert decision.draft.reason == "mine: why not (score 0.5)"
    assert decision.draft.propensity == 1.0


@pytest.mark.parametrize(
    ("reason", "score", "shown"),
    [
        ("two\nlines\tand  blanks", 1, "mine: two lines and blanks (score 1)"),
        ("x" * 300, 0.123456, f"mine: {'x' * 200} (score 0.1235)"),
        ("a\x00b\ud800", -3.0, "mine: a?b? (score -3)"),
        ("", 0.0, "mine:  (score 0)"),
    ],
)
def test_what_it_says_is_one_short_line(reason: str, score: float, shown: str) -> None:
    assert rig(choosing(FOUR[0], reason, score)).ask().draft.reason == shown


def test_exploration_has_its_say_before() -> None:
    over = rig(choosing(FOUR[0]), exploration_rate=0.5)
    decisions = [over.ask(seed=seed) for seed in range(100)]
    explored = [d for d in decisions if d.draft.exploration]
    assert 30 < len(explored) < 70
    assert len({ids(d)[0] for d in explored}) > 1
    assert {ids(d)[0] for d in decisions if not d.draft.exploration} == {FOUR[0]}
    for decision in decisions:
        assert decision.draft.propensity == pytest.approx(0.625 if ids(decision)[0] == FOUR[0] else 0.125)


def test_its_chances_are_those_of_the_decision() -> None:
    def drawn(pool: Sequence[PoolMember], context: SelectContext) -> Choice:
        return Choice(pool[int(context.rng.random() * len(pool))].candidate, "drawn", 0.0)

    over = rig(Scripted(drawn))
    firsts = [ids(over.ask(seed=seed))[0] for seed in range(40)]
    assert len(set(firsts)) == 4
    assert firsts == [ids(over.ask(seed=seed))[0] for seed in range(40)]


def test_the_example_takes_the_cheapest_of_the_good_ones() -> None:
    facts = {
        c: ModelFacts(input_price=price, fitness={"default": fit})
        for c, price, fit in zip(FOUR, (9.0, 2.0, 0.1, 3.0), (0.90, 0.87, 0.50, 0.88), strict=True)
    }
    over = rig(Thrifty(), facts, weights={"taskFit": 1.0})
    decision = over.ask(input_tokens=1_000)
    assert ids(decision)[0] == FOUR[1]
    assert decision.draft.reason == "thrifty: the cheapest of 3 that are good enough (score 0.87)"


# What it is shown


def test_a_member_tells_what_is_known() -> None:
    strategy = choosing(FOUR[0])
    facts = {FOUR[0]: ModelFacts(input_price=1.0, output_price=2.0, context_window=2_000_000)}
    over = rig(strategy, facts, weights={"health": 1.0})
    over.state.target("p", "a", "m").statistics = TargetStatistics({"p95_ms": 700.0, "error_rate": 0.25})
    over.state.provider("p").breaker = Breaker(open=True, open_until=START)
    over.state.account("p", "a").quota = {"session": QuotaWindow("session", 0.4)}
    over.state.account("p", "a").in_flight = 3
    over.ask(input_tokens=1_000_000, max_output_tokens=500_000)
    [member, other, *_] = strategy.asked[0][0]
    assert member == PoolMember(
        candidate="p/m@a",
        provider="p",
        model="m",
        connection="a",
        score=0.5,
        input_price=1.0,
        output_price=2.0,
        cost=1.4,
        estimated_cost_usd=2.0,
        p95_ms=700.0,
        error_rate=0.25,
        breaker="HALF_OPEN",
        quota_remaining=0.4,
        in_flight=3,
        context_window=2_000_000,
        economic_tier="cheap",
        account_tier="standard",
    )
    assert other == PoolMember("q/m@b", "q", "m", "b", score=1.0, estimated_cost_usd=1.5)


def test_its_factors_are_those_of_the_trace() -> None:
    seen: dict[str, dict[str, float]] = {}

    def reading(pool: Sequence[PoolMember], context: SelectContext) -> Choice:
        seen.update({member.candidate: dict(member.factors) for member in pool})
        assert set(context.weights) == set(FACTOR_NAMES)
        assert sum(context.weights.values()) == pytest.approx(1.0)
        total = sum(context.weights[name] * value for name, value in pool[0].factors.items())
        assert total == pytest.approx(pool[0].score)
        return Choice(pool[0].candidate, "", 0.0)

    over = rig(Scripted(reading), {c: ModelFacts(input_price=n + 1.0) for n, c in enumerate(FOUR)})
    decision = over.ask()
    assert not decision.draft.reason.startswith("mine: fallback")
    assert set(seen) == set(FOUR)
    assert all(tuple(factors) == FACTOR_NAMES for factors in seen.values())
    assert seen[FOUR[3]]["costInv"] == 0.0


def test_the_context_tells_of_request_and_policy() -> None:
    strategy = choosing(FOUR[1])
    sla = SlaTargets(p95_ms=900.0, hard=True)
    over = rig(strategy, sla=sla, weights={"quota": 2.0, "health": 2.0})
    over.decide(
        task_type="coding", has_tools=True, needs_vision=False, input_tokens=12, max_output_tokens=34, session_id="s"
    )
    over.report()
    over.decide(has_tools=True, tool_choice_none=True)
    before, after = (context for _, context in strategy.asked)
    assert (before.task_type, before.has_tools, before.needs_vision) == ("coding", True, False)
    assert (before.input_tokens, before.max_output_tokens, before.sla) == (12, 34, sla)
    assert (before.last_known_good, before.lkgp_enabled) == ("", True)
    assert {name: weight for name, weight in before.weights.items() if weight} == {"quota": 0.5, "health": 0.5}
    assert after.last_known_good == FOUR[1]
    assert (after.has_tools, after.max_output_tokens, after.task_type) == (False, None, "default")


def test_only_who_may_be_picked_is_shown() -> None:
    strategy = Scripted(lambda pool, context: Choice(pool[0].candidate, "", 0.0))
    facts = {FOUR[1]: ModelFacts(input_price=90.0), FOUR[2]: ModelFacts(lacks=frozenset({"tools"}))}
    over = rig(strategy, facts)
    over.state.provider("p").breaker = Breaker(open=True, open_until=START + 1)
    over.ask(has_tools=True, input_tokens=1_000_000, controls=Controls(budget_usd=50.0))
    assert [member.candidate for member in strategy.asked[0][0]] == [FOUR[3]]


def test_nothing_of_it_can_be_changed() -> None:
    strategy = choosing(FOUR[0])
    rig(strategy).ask()
    [(pool, context)] = strategy.asked
    assert isinstance(pool, tuple)
    for value, field in ((pool[0], "score"), (context, "sla"), (context.sla, "p95_ms")):
        with pytest.raises(FrozenInstanceError):
            setattr(value, field, 1.0)
    for mapping in (pool[0].factors, context.weights):
        with pytest.raises(TypeError):
            mapping["quota"] = 1.0  # type: ignore[index]


# Failures


def raising(error: BaseException) -> Scripted:
    def select(pool: Sequence[PoolMember], context: SelectContext) -> Choice:
        raise error

    return Scripted(select)


FAILING: list[tuple[Scripted, str, str]] = [
    (raising(ValueError("hush")), "raised", "raised ValueError"),
    (raising(RecursionError()), "raised", "raised RecursionError"),
    (raising(SystemExit(3)), "raised", "raised SystemExit"),
    (Scripted(lambda pool, context: None), "no choice", "no choice"),
    (Scripted(lambda pool, context: pool[0]), "no choice", "no choice"),
    (Scripted(lambda pool, context: (FOUR[0], "", 0.0)), "no choice", "no choice"),
    (choosing("nobody/here@x"), "unknown candidate", "unknown candidate"),
    (choosing(""), "unknown candidate", "unknown candidate"),
    (choosing(None), "unknown candidate", "unknown candidate"),
    (choosing([]), "unknown candidate", "unknown candidate"),
    (choosing(FOUR[0], score=nan), "no finite score", "no finite score"),
    (choosing(FOUR[0], score=inf), "no finite score", "no finite score"),
    (choosing(FOUR[0], score=-inf), "no finite score", "no finite score"),
    (choosing(FOUR[0], score="1"), "no finite score", "no finite score"),
    (choosing(FOUR[0], score=None), "no finite score", "no finite score"),
    (choosing(FOUR[0], score=10**400), "no finite score", "no finite score"),
    (choosing(FOUR[0], reason=None), "no reason", "no reason"),
    (choosing(FOUR[0], reason=b"bytes"), "no reason", "no reason"),
]


@pytest.mark.parametrize(("strategy", "why", "told"), FAILING, ids=[f"{n} {f[2]}" for n, f in enumerate(FAILING)])
def test_where_it_fails_rules_pick_and_the_reason_says_why(strategy: Scripted, why: str, told: str) -> None:
    before = fallbacks(why)
    facts = {FOUR[1]: ModelFacts(fitness={"default": 0.99})}
    decision = rig(strategy, facts).ask()
    assert ids(decision)[0] == FOUR[1]
    assert decision.draft.reason.startswith(f"mine: fallback ({told}); ")
    assert "hush" not in decision.draft.reason
    assert decision.draft.router_strategy == "rules"
    assert fallbacks(why) == before + 1


def test_failures_are_logged_once_a_minute() -> None:
    over = rig(raising(ValueError("of its own")))
    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            over.ask()
        over.now += 59_999
        over.ask()
        assert [line["event"] for line in lines] == ["router_plugin_failed"]
        assert (lines[0]["router"], lines[0]["why"]) == ("mine", "raised")
        assert isinstance(lines[0]["exc_info"], ValueError)
        over.now += 1
        over.ask()
    assert len(lines) == 2


@pytest.mark.parametrize(("seconds", "slow"), [(0.005, 0), (0.0051, 1), (9.0, 1)])
def test_a_slow_one_is_counted_and_logged(seconds: float, slow: int) -> None:
    strategy = choosing(FOUR[0])
    instants = iter((0.0, seconds) * 3)
    over = rig(strategy)
    over.state.routers = {"mine": Called(strategy, lambda: next(instants))}
    before = SLOW.labels("mine")._value.get()
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            assert ids(over.ask())[0] == FOUR[0], "its pick stands"
    assert SLOW.labels("mine")._value.get() == before + 3 * slow
    assert [line["event"] for line in lines] == ["router_plugin_slow"] * slow
    assert not slow or lines[0]["ms"] == round(1000 * seconds, 1)
