"""The strategies that order by what is declared, measured or left, each by a small table."""

from __future__ import annotations

from collections import Counter
from math import log10
from typing import Any

import pytest

from decision_service.kernel.health import Breaker
from decision_service.kernel.model import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Controls,
    ModelFacts,
    OutcomeClass,
    QuotaWindow,
)
from decision_service.kernel.statistics import TargetStatistics
from decision_service.kernel.strategies.quota import window_score
from tests.kernel.rig import Rig, combo, ids, parts, roster, step

FOUR = ["p/m@a", "q/m@b", "r/m@c", "s/m@d"]


def rig(strategy: str, steps: Any = FOUR, facts: dict[str, ModelFacts] | None = None, **config: Any) -> Rig:
    return Rig(roster(FOUR, combo(strategy, steps, **config), facts=facts))


def order(over: Rig, seed: int = 0, **request: Any) -> str:
    """The chain, a letter for each provider."""
    return "".join(candidate[0] for candidate in ids(over.ask(seed=seed, **request)))


def quota(over: Rig, candidate: str, *windows: tuple[str, float, int | None]) -> None:
    """Windows of a candidate's connection: name, remaining fraction, milliseconds to the reset."""
    provider, _, connection = parts(candidate)
    assert connection is not None
    account = over.state.account(provider, connection)
    account.quota = {
        name: QuotaWindow(name, left, None if reset is None else over.now + reset) for name, left, reset in windows
    }


def measured(over: Rig, candidate: str, **signals: float) -> None:
    provider, model, connection = parts(candidate)
    assert connection is not None
    over.state.target(provider, connection, model).statistics = TargetStatistics(signals)


# Declared order


@pytest.mark.parametrize("strategy", ["priority", "fill-first"])
def test_declared_order(strategy: str) -> None:
    over = rig(strategy, ["r/m@c", "p/m@a", "s/m@d"])
    assert order(over) == "rps"
    over.state.provider("r").breaker = Breaker(open=True, open_until=over.now + 1)
    assert order(over) == "ps"


def test_a_candidate_listed_twice_is_tried_once_at_its_first_place() -> None:
    twice = [step("p/m@a", id="1"), step("q/m@b", id="2"), step("p/m@a", id="3")]
    assert order(rig("priority", twice)) == "pq"


def test_fill_first_leaves_a_target_only_when_its_quota_is_exhausted() -> None:
    over = rig("fill-first")
    quota(over, FOUR[0], ("weekly", 0.001, DAY))
    assert order(over)[0] == "p"
    over.decide()
    over.report(quota=(QuotaWindow("weekly", 0.0, over.now + DAY),))
    assert order(over)[0] == "q"
    over.pass_time(DAY)
    assert order(over)[0] == "p"


# Draws


def test_random_is_a_uniform_order() -> None:
    seen = Counter(order(rig("random", FOUR[:3]), seed=seed) for seed in range(3_000))
    assert len(seen) == 6
    assert all(400 < count < 600 for count in seen.values())


def test_random_draws_targets_not_steps() -> None:
    """A target that is listed twice is drawn no more often than one that is listed once."""
    over = rig("random", [step("p/m@a", id="1"), step("q/m@b", id="2"), step("p/m@a", id="3")])
    firsts = Counter(order(over, seed=seed)[0] for seed in range(2_000))
    assert firsts["p"] == pytest.approx(1_000, abs=100)
    assert over.ask().draft.propensity == 0.5


def test_random_loses_nobody_where_a_step_overlaps_another() -> None:
    accounts = ["p/m@a", "p/m@b"]
    over = Rig(roster(accounts, combo("random", ["p/m@a", "p/m"])))
    assert {frozenset(ids(over.ask(seed=seed))) for seed in range(20)} == {frozenset(accounts)}


def test_quota_share_keeps_the_proportions_of_weights_beyond_every_float() -> None:
    steps = [step("p/m@a", weight=1e308), step("q/m@b", weight=1e308), step("r/m@c", weight=1e308)]
    over = Rig(roster(FOUR, combo("priority", steps, quota_share=True)))
    firsts = []
    for _ in range(9):
        firsts.append(ids(over.decide())[0])
        over.report()
    assert Counter(firsts) == dict.fromkeys(FOUR[:3], 3)


def test_p2c_takes_the_better_of_two() -> None:
    over = rig("p2c")
    measured(over, FOUR[0], error_rate=0.9)
    measured(over, FOUR[3], error_rate=0.0)
    firsts = Counter(order(over, seed=seed)[0] for seed in range(3_000))
    assert "p" not in firsts, "it wins against nobody"
    assert firsts["s"] == pytest.approx(1_500, abs=150), "it wins every pair that it is in"
    assert order(over, seed=1)[1:] == "".join(c for c in "pqrs" if c != order(over, seed=1)[0])


@pytest.mark.parametrize(
    ("signals", "half_open", "merit"),
    [
        ({}, False, 0.5 + 0.25),
        ({"error_rate": 0.1}, False, 0.9 + 0.25),
        ({"error_rate": 0.1, "p95_ms": 990.0}, False, 0.9 + 1 / 3),
        ({"p95_ms": 0.0}, False, 0.5 + 1.0),
        ({"p95_ms": 90.0}, True, 0.5 + 1 / 2 - 0.25),
    ],
)
def test_the_merit_that_p2c_compares(signals: dict[str, float], half_open: bool, merit: float) -> None:
    """Against one whose merit is known: a hair better wins every pair, a hair worse none."""
    for hair, winner in ((-0.001, "p"), (0.001, "q")):
        over = rig("p2c", FOUR[:2])
        measured(over, FOUR[0], **signals)
        if half_open:
            over.state.provider("p").breaker = Breaker(open=True, open_until=over.now)
        rival = merit + hair
        rate = min(1.0, max(0.0, rival - 0.2))
        latency = 10 ** (1 / (rival - rate)) - 10
        assert rate + 1 / log10(latency + 10) == pytest.approx(rival)
        measured(over, FOUR[1], error_rate=1 - rate, p95_ms=latency)
        assert {order(over, seed=seed)[0] for seed in range(20)} == {winner}


# Load


def test_least_used_counts_what_is_in_flight_then_the_last_minute() -> None:
    over = rig("least-used")
    for _ in range(4):
        over.decide()
    assert order(over) == "pqrs"
    over.report(decision=over.decisions[2])
    assert order(over) == "rpqs"
    over.report(decision=over.decisions[3])
    over.decide()
    over.report()
    assert order(over) == "srpq", "s had one request in the last minute, r had two"
    over.pass_time(MINUTE - 1)
    assert order(over) == "srpq"
    over.pass_time(1)
    assert order(over) == "rspq"


# Price


def test_cost_optimized_prices_this_request() -> None:
    facts = {
        FOUR[0]: ModelFacts(input_price=10.0, output_price=1.0),
        FOUR[1]: ModelFacts(input_price=1.0, output_price=10.0),
        FOUR[2]: ModelFacts(input_price=4.0),
    }
    over = rig("cost-optimized", facts=facts)
    assert order(over, input_tokens=1_000, max_output_tokens=10) == "qrps"
    assert order(over, input_tokens=10, max_output_tokens=1_000) == "prqs"
    assert order(over, input_tokens=0) == "prqs", "256 output tokens where no limit is given"
    assert order(over, input_tokens=0, max_output_tokens=0) == "pqrs", "all free alike, the unknown still last"


def test_cost_optimized_knows_no_budget_and_no_mode() -> None:
    over = rig("cost-optimized", facts={FOUR[0]: ModelFacts(input_price=10.0)})
    wishes = Controls(mode="fast", budget_usd=1e-9, budget_fallback="strict")
    assert order(over, input_tokens=1_000, controls=wishes) == "pqrs"


# Windows


def test_context_optimized_takes_the_tightest_fit() -> None:
    windows = {FOUR[0]: 128_000, FOUR[1]: 8_000, FOUR[3]: 32_000}
    over = rig("context-optimized", facts={c: ModelFacts(context_window=w) for c, w in windows.items()})
    assert order(over) == "qspr"
    assert order(over, input_tokens=8_001) == "spr"
    assert order(over, input_tokens=32_001, least_input_tokens=8_000) == "prsq", "by the estimate two do not fit"


# Quota


def test_headroom_takes_what_is_used_least() -> None:
    over = rig("headroom")
    quota(over, FOUR[0], ("weekly", 0.9, DAY), ("session", 0.2, HOUR))
    quota(over, FOUR[1], ("session", 0.5, HOUR))
    quota(over, FOUR[3], ("requests", 0.999, HOUR))
    assert order(over) == "rsqp", "unknown is full, and of several windows the tightest counts"
    over.pass_time(HOUR)
    assert order(over) == "qrsp", "windows that started anew are unknown; p has its weekly one left"


def test_reset_window_takes_the_earliest_reset() -> None:
    over = rig("reset-window")
    quota(over, FOUR[0], ("weekly", 0.5, 3 * DAY))
    quota(over, FOUR[1], ("session", 0.5, HOUR))
    quota(over, FOUR[2], ("weekly", 0.5, 2 * DAY))
    assert order(over) == "rpqs", "a session window is none of the weekly ones"


def test_reset_window_shares_between_those_within_a_minute() -> None:
    over = rig("reset-window")
    for candidate, reset in zip(FOUR, (DAY + MINUTE + 1, DAY + MINUTE, DAY, None), strict=True):
        quota(over, candidate, ("weekly", 0.5, reset))
    seen = []
    for _ in range(4):
        decision = over.decide()
        seen.append("".join(c[0] for c in ids(decision)))
    assert seen == ["rqps", "qrps", "rqps", "qrps"]


def test_reset_window_reads_the_windows_that_it_is_told() -> None:
    over = rig("reset-window", reset_window_windows=("session", "weekly"))
    quota(over, FOUR[0], ("weekly", 0.5, DAY), ("session", 0.5, 4 * HOUR))
    quota(over, FOUR[1], ("session", 0.5, HOUR))
    assert order(over) == "qprs"


SESSION, WEEK, MONTH = 5 * HOUR, 7 * DAY, 30 * DAY
WINDOW_SCORES = [
    pytest.param([], 0.5, id="no data"),
    pytest.param(
        [("session", 1.0, SESSION), ("weekly", 1.0, WEEK)], 0.35 * 0.45 + 0.65 * 0.25, id="full, and far from a reset"
    ),
    pytest.param(
        [("session", 0.5, SESSION // 2), ("weekly", 0.5, WEEK // 2)],
        0.35 * (0.45 * 0.5 + 0.55 * 0.5 * 0.5) + 0.65 * (0.25 * 0.5 + 0.75 * 0.5 * 0.5),
        id="half, halfway",
    ),
    pytest.param(
        [("session", 0.4, None), ("weekly", 0.8, 0)],
        0.35 * (0.45 * 0.4 + 0.55 * 0.5 * 0.6) + 0.65 * (0.25 * 0.8 + 0.75 * 0.5 * 0.2),
        id="unknown resets: the urgency is a half",
    ),
    pytest.param(
        [("weekly", 0.6, WEEK)],
        0.35 * (0.45 * 0.6 + 0.55 * 0.5 * 0.4) + 0.65 * (0.25 * 0.6),
        id="a missing session takes the smallest known",
    ),
    pytest.param(
        [("session", 0.5, SESSION), ("weekly", 0.5, WEEK), ("monthly", 0.5, MONTH)],
        0.75 * (0.35 * 0.45 * 0.5 + 0.65 * 0.25 * 0.5) + 0.25 * 0.25 * 0.5,
        id="with a month",
    ),
    pytest.param(
        [("session", 0.04, SESSION), ("weekly", 1.0, WEEK)],
        (0.35 * 0.45 * 0.04 + 0.65 * 0.25) * 0.4,
        id="below a tenth of the session the total shrinks",
    ),
    pytest.param(
        [("session", 0.0001, SESSION), ("weekly", 1.0, WEEK)],
        (0.35 * 0.45 * 0.0001 + 0.65 * 0.25) * 0.05,
        id="to a twentieth at least",
    ),
]


@pytest.mark.parametrize(("windows", "expected"), WINDOW_SCORES)
def test_the_score_of_reset_aware(windows: list[tuple[str, float, int | None]], expected: float) -> None:
    over = rig("reset-aware")
    # A reset that is due this instant is past; a millisecond is as good as none here.
    quota(over, FOUR[0], *[(name, left, reset or (None if reset is None else 1)) for name, left, reset in windows])
    if any(reset == 0 for _, _, reset in windows):
        quota(over, FOUR[0], *[(name, left, None) for name, left, _ in windows])
    account = over.state.account("p", "a")
    assert window_score(account, over.now) == pytest.approx(expected, abs=1e-9)


def test_a_reached_limit_scores_last() -> None:
    over = rig("reset-aware")
    over.state.account("p", "a").quota = {"session": QuotaWindow("session", 0.0, None, limit_reached=True)}
    assert window_score(over.state.account("p", "a"), over.now) == -1.0


def test_reset_aware_shares_between_those_within_a_twentieth() -> None:
    over = rig("reset-aware")
    for candidate, left in zip(FOUR, (0.2, 0.96, 1.0, 0.3), strict=True):
        quota(over, candidate, ("session", left, SESSION), ("weekly", left, WEEK))
    assert ["".join(c[0] for c in ids(over.decide())) for _ in range(3)] == ["rqsp", "qrsp", "rqsp"]


# All of them


ALL = [
    *("priority", "weighted", "round-robin", "fill-first", "p2c", "random", "least-used", "cost-optimized"),
    *("reset-aware", "reset-window", "headroom", "auto", "context-optimized"),
]


@pytest.mark.parametrize("strategy", ALL)
def test_one_target_is_enough(strategy: str) -> None:
    over = rig(strategy, FOUR[:1], exploration_rate=1.0)
    decision = over.decide()
    assert (ids(decision), decision.draft.propensity, decision.draft.exploration) == (FOUR[:1], 1.0, False)


@pytest.mark.parametrize("strategy", ALL)
def test_the_same_seed_gives_the_same_order_and_every_decision_has_a_reason(strategy: str) -> None:
    over = rig(strategy)
    for seed in range(10):
        one, two = over.ask(seed=seed), over.ask(seed=seed)
        assert ids(one) == ids(two)
        assert one.draft.reason
        assert one.draft.propensity == two.draft.propensity
        assert 0.0 < one.draft.propensity <= 1.0


@pytest.mark.parametrize("strategy", ALL)
def test_what_fails_everywhere_is_skipped_everywhere(strategy: str) -> None:
    over = rig(strategy)
    over.state.change_roster(roster(FOUR, combo(strategy, FOUR), connections={"b": {"enabled": False}}))
    decision = over.decide()
    over.report(OutcomeClass.RATE_LIMITED, retry_after_ms=30 * SECOND)
    cooled = ids(decision)[0]
    assert sorted(ids(over.ask())) == sorted(set(FOUR) - {FOUR[1], cooled})
