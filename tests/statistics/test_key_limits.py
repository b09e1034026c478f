"""Limits of API keys over a clock that the test turns: rates by the minute, spending by UTC day and month."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest

from decision_service.engine import Engine
from decision_service.journal import Journal
from decision_service.kernel.model import DAY, MINUTE, SECOND, KeyPolicy, ModelFacts, Outcome, OutcomeClass, Request
from decision_service.store.engine import open_engine
from decision_service.store.migrate import migrate
from service_kit.errors import Reason, ServiceError
from tests.kernel.rig import COMBO, combo, roster

PRICED = ModelFacts(input_price=1.0, output_price=1.0)  # a million tokens are a dollar
MILLION = 1_000_000
TARGETS = ["p/m@a", "q/m@b"]
KEY = "k"
SUCCESS = OutcomeClass.SUCCESS


class Clock:
    """Whole milliseconds that a test counts."""

    def __init__(self) -> None:
        self.ms = 1_800_000_000_000

    def __call__(self) -> float:
        return (self.ms + 0.5) / 1_000  # what is read of it is cut to milliseconds


class Desk:
    """An engine over a real store, its clock, and one key with limits."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self.engine = engine
        self.clock = clock

    def pass_time(self, ms: int) -> None:
        self.clock.ms += ms
        self.engine.tick()

    def decide(self, tokens: int = 0, output: int | None = 0, key: str = KEY, model: str = COMBO) -> str:
        """The id of a decision that has taken effect. Raises ServiceError."""
        request = Request(model=model, api_key_id=key, input_tokens=tokens, max_output_tokens=output)
        decision_id, decision = self.engine.decide(request, 0)
        self.engine.commit(decision_id, decision)
        return decision_id

    def refused(self, **request: Any) -> ServiceError:
        with pytest.raises(ServiceError) as caught:
            self.decide(**request)
        return caught.value

    def report(self, decision_id: str, tokens: int = 0, outcome_class: OutcomeClass = SUCCESS, **told: Any) -> None:
        """What came of an attempt, on disk when this returns."""
        outcome = Outcome(
            decision_id=decision_id,
            target_id=str(told.pop("target", 1)),
            outcome_class=outcome_class,
            at=self.engine.now(),
            input_tokens=tokens,
            **{"attempt": 1, "final": True, **told},
        )
        receipt = self.engine.receive([(0, outcome)])
        if receipt.strangers:
            known = self.engine.journal.known([(outcome.decision_id, outcome.attempt)])
            self.engine.receive_strangers(receipt, known)
        self.engine.save(receipt.rows).result(10)

    def spend(self, tokens: int) -> None:
        self.report(self.decide(), tokens)


@contextmanager
def desk(folder: Path, clock: Clock, **limits: Any) -> Iterator[Desk]:
    """Over what is stored in the folder, if anything is."""
    with ExitStack() as parts:
        store = open_engine("", folder)
        parts.callback(store.dispose)
        migrate(store)
        over = roster(
            TARGETS,
            combo("priority", TARGETS),
            combo("fusion", TARGETS, name="panel"),
            facts=dict.fromkeys(TARGETS, PRICED),
            keys={KEY: KeyPolicy(KEY, **limits), "other": KeyPolicy("other", **limits), "free": KeyPolicy("free")},
        )
        engine = Engine(over, parts.enter_context(closing(Journal(store, clock))), clock, steady=clock)
        engine.restore()
        yield Desk(engine, clock)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def at(text: str) -> int:
    """Epoch milliseconds."""
    return round(1_000 * datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


# Rates


def test_requests_a_minute(tmp_path: Path, clock: Clock) -> None:
    with desk(tmp_path, clock, requests_per_minute=3) as here:
        for _ in range(3):
            here.decide()
            here.pass_time(10 * SECOND)
        refusal = here.refused()
        assert (refusal.reason, refusal.grpc_code) == (Reason.RATE_LIMIT_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED)
        assert refusal.retry_after_ms == 30 * SECOND, "when the first is a minute old"
        here.pass_time(30 * SECOND - 1)
        here.refused()
        here.pass_time(1)
        here.decide()
        assert here.refused().retry_after_ms == 10 * SECOND, "a refusal is no request"
        here.decide(key="other")
        for _ in range(10):
            here.decide(key="free")
            here.decide(key="a key that nobody has stored")


@pytest.mark.parametrize("seed", range(4))
def test_any_minute_has_as_many_requests_as_are_allowed_and_no_more(tmp_path: Path, clock: Clock, seed: int) -> None:
    """Against a list of all that was let through; and who waits as long as it was told is let through."""
    dice, taken = Random(seed), list[int]()
    with desk(tmp_path, clock, requests_per_minute=5) as here:
        for _ in range(300):
            here.pass_time(dice.randrange(25 * SECOND))
            now = here.engine.now()
            full = sum(1 for each in taken if each > now - MINUTE) >= 5
            if full:
                wait = here.refused().retry_after_ms
                assert wait is not None
                here.pass_time(wait)
            here.decide()
            taken.append(here.engine.now())


def test_tokens_a_minute_are_reserved_and_settled(tmp_path: Path, clock: Clock) -> None:
    with desk(tmp_path, clock, tokens_per_minute=1_000) as here:
        first = here.decide(tokens=600, output=100)
        assert here.refused(tokens=301).reason is Reason.RATE_LIMIT_EXCEEDED
        second = here.decide(tokens=300)
        here.report(second, tokens=300)
        here.refused(tokens=1)
        here.report(first, tokens=200, output_tokens=50)
        assert here.refused(tokens=451).retry_after_ms == MINUTE
        here.decide(tokens=450)


def test_without_a_limit_of_its_own_an_answer_is_expected_to_have_256_tokens(tmp_path: Path, clock: Clock) -> None:
    with desk(tmp_path, clock, tokens_per_minute=1_000) as here:
        here.refused(tokens=745, output=None)
        here.decide(tokens=744, output=None)


@pytest.mark.parametrize("seed", range(4))
def test_who_waits_for_tokens_as_long_as_it_was_told_gets_them(tmp_path: Path, clock: Clock, seed: int) -> None:
    dice, used = Random(seed), list[tuple[int, int]]()
    with desk(tmp_path, clock, tokens_per_minute=1_000) as here:
        for _ in range(200):
            here.pass_time(dice.randrange(20 * SECOND))
            wanted = dice.randrange(1, 700)
            left = 1_000 - sum(tokens for when, tokens in used if when > here.engine.now() - MINUTE)
            if wanted > left:
                wait = here.refused(tokens=wanted).retry_after_ms
                assert wait is not None
                here.pass_time(wait - 1)
                here.refused(tokens=wanted)
                here.pass_time(1)
            here.report(here.decide(tokens=wanted), tokens=wanted)
            used.append((here.engine.now(), wanted))


def test_what_can_never_fit_is_not_told_to_come_back(tmp_path: Path, clock: Clock) -> None:
    with desk(tmp_path, clock, tokens_per_minute=1_000, usd_per_day=1.0, usd_per_month=1.0) as here:
        here.spend(500)
        assert here.refused(tokens=1_001).retry_after_ms is None
    with desk(tmp_path, clock, usd_per_day=1.0) as here:
        assert here.refused(tokens=MILLION + 1).retry_after_ms is None


# Spending


@pytest.mark.parametrize(
    ("limit", "moment", "renewed"),
    [
        ("usd_per_day", "2026-03-14T22:30:00", "2026-03-15T00:00:00"),
        ("usd_per_day", "2026-12-31T23:59:59", "2027-01-01T00:00:00"),
        ("usd_per_month", "2026-03-14T22:30:00", "2026-04-01T00:00:00"),
        ("usd_per_month", "2028-02-29T12:00:00", "2028-03-01T00:00:00"),
        ("usd_per_month", "2026-12-31T23:59:59", "2027-01-01T00:00:00"),
        ("usd_per_month", "2100-02-28T00:00:00", "2100-03-01T00:00:00"),
    ],
)
def test_what_is_spent_is_spent_until_the_day_or_month_is_over(
    tmp_path: Path, clock: Clock, limit: str, moment: str, renewed: str
) -> None:
    clock.ms = at(moment)
    with desk(tmp_path, clock, **{limit: 2.0}) as here:
        here.spend(1_500_000)
        refusal = here.refused(tokens=500_001)
        assert (refusal.reason, refusal.grpc_code) == (Reason.KEY_BUDGET_EXCEEDED, grpc.StatusCode.FAILED_PRECONDITION)
        assert refusal.http_status == 402
        assert refusal.retry_after_ms == at(renewed) - at(moment)
        assert "1.5 are spent" in refusal.message
        fitting = here.decide(tokens=500_000)
        here.refused(tokens=1)
        here.report(fitting, outcome_class=OutcomeClass.LOCAL_CANCELLED)
        here.pass_time(refusal.retry_after_ms - 1)
        here.refused(tokens=500_001)
        here.pass_time(1)
        here.decide(tokens=2 * MILLION)


def test_each_day_and_each_month_counts_for_itself(tmp_path: Path, clock: Clock) -> None:
    clock.ms = at("2026-01-30T12:00:00")
    with desk(tmp_path, clock, usd_per_day=1.0, usd_per_month=2.5) as here:
        for _ in range(2):  # the 30th and the 31st
            here.spend(MILLION)
            assert "a day" in here.refused(tokens=1).message
            here.pass_time(DAY)
        for _ in range(2):  # a new month
            here.spend(MILLION)
            here.pass_time(DAY)
        assert "a month" in here.refused(tokens=500_001).message
        here.decide(tokens=500_000)


def test_a_reservation_is_held_until_the_decision_ends(tmp_path: Path, clock: Clock) -> None:
    with desk(tmp_path, clock, usd_per_day=1.0) as here:
        held = here.decide(tokens=900_000)
        here.refused(tokens=200_000)
        here.report(held, outcome_class=OutcomeClass.UPSTREAM_ERROR, final=False)
        here.refused(tokens=200_000)
        here.report(held, outcome_class=OutcomeClass.UPSTREAM_ERROR, attempt=2, target=2)
        here.decide(tokens=MILLION)


def test_a_reservation_that_nobody_ends_runs_out(tmp_path: Path, clock: Clock) -> None:
    with desk(tmp_path, clock, usd_per_day=1.0) as here:
        here.decide(tokens=MILLION)
        here.pass_time(2 * 120 * SECOND + 30 * SECOND - 1)
        here.refused(tokens=1)
        here.pass_time(1)
        here.decide(tokens=MILLION)


def test_actual_cost_takes_the_place_of_the_estimate(tmp_path: Path, clock: Clock) -> None:
    """What an outcome tells goes before the price of its tokens; every attempt costs; a repeated outcome does not."""
    with desk(tmp_path, clock, usd_per_day=1.0) as here:
        decision = here.decide(tokens=500_000)
        here.report(decision, tokens=100_000, outcome_class=OutcomeClass.UPSTREAM_ERROR, final=False)
        for _ in range(3):
            here.report(decision, tokens=400_000, cost_usd=0.3, attempt=2, target=2)
        here.refused(tokens=600_001)
        here.decide(tokens=600_000)


def test_a_panel_reserves_for_every_member(tmp_path: Path, clock: Clock) -> None:
    with desk(tmp_path, clock, usd_per_day=1.0) as here:
        here.refused(model="panel", tokens=500_001)
        here.decide(model="panel", tokens=500_000)
        here.refused(tokens=1)


def test_a_refusal_and_an_explanation_reserve_nothing(tmp_path: Path, clock: Clock) -> None:
    with desk(tmp_path, clock, usd_per_day=1.0, requests_per_minute=1) as here:
        for _ in range(3):
            here.refused(tokens=MILLION + 1)
            asked = Request(model=COMBO, api_key_id=KEY, input_tokens=MILLION, max_output_tokens=0)
            here.engine.explain(asked, 0)
        here.decide(tokens=MILLION)


def test_a_limited_plan_may_not_be_used_again(tmp_path: Path, clock: Clock) -> None:
    with desk(tmp_path, clock, usd_per_day=1.0) as here:
        for key, reusable in ((KEY, False), ("free", True)):
            decision = here.engine.explain(Request(model=COMBO, api_key_id=key), 0)
            assert decision.reusable == reusable


# Restarts


def test_what_was_spent_outlives_a_restart_and_what_was_reserved_does_not(tmp_path: Path, clock: Clock) -> None:
    clock.ms = at("2026-01-31T10:00:00")
    limits = {"usd_per_day": 1.0, "usd_per_month": 1.5}
    with desk(tmp_path, clock, **limits) as here:
        here.spend(600_000)
        here.decide(tokens=400_000)
        here.refused(tokens=1)
    clock.ms += MINUTE
    with desk(tmp_path, clock, **limits) as here:
        here.refused(tokens=400_001)
        here.decide(tokens=400_000)
    clock.ms = at("2026-02-01T00:00:00")
    with desk(tmp_path, clock, **limits) as here:
        here.decide(tokens=MILLION)


def test_an_outcome_that_comes_after_a_restart_is_paid_for_once(tmp_path: Path, clock: Clock) -> None:
    """The service does not know the decision any more; the outcome says whose it was."""
    with desk(tmp_path, clock, usd_per_day=1.0) as here:
        orphan = here.decide(tokens=100_000)
    with desk(tmp_path, clock, usd_per_day=1.0) as here:
        told: dict[str, Any] = {"provider": "p", "model": "m", "connection": "a", "api_key_id": KEY, "cost_usd": 0.7}
        for _ in range(2):
            here.report(orphan, **told)
        here.refused(tokens=300_001)
        here.decide(tokens=300_000)
    with desk(tmp_path, clock, usd_per_day=1.0) as here:
        here.report(orphan, **told)
        here.refused(tokens=300_001)


def test_changed_limits_hold_for_what_is_spent_already(tmp_path: Path, clock: Clock) -> None:
    with desk(tmp_path, clock, usd_per_day=1.0) as here:
        here.spend(900_000)
        here.refused(tokens=200_000)
        raised = {KEY: replace(here.engine.state.roster.keys[KEY], usd_per_day=2.0)}
        here.engine.change_roster(replace(here.engine.state.roster, keys=raised))
        here.decide(tokens=MILLION)
        here.refused(tokens=200_000)
