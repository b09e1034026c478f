"""What a decision asks of Nadir, and what becomes of the advice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from decision_service.kernel.decide import Decision, decide
from decision_service.kernel.dice import Dice
from decision_service.kernel.health import Breaker
from decision_service.kernel.model import Advice, Controls, ModelFacts, Request, Turn
from decision_service.nadir import EXPLAINED, Question, question_of
from tests.kernel.rig import COMBO, START, Rig, combo, ids, reference, roster

FOUR = ["p/big@a", "p/big@b", "q/small@c", "r/mid@d"]
CHEAP, DEAR = ModelFacts(input_price=0.1), ModelFacts(input_price=50.0)


def rig(steps: Sequence[str] = FOUR, facts: dict[str, ModelFacts] | None = None, **config: Any) -> Rig:
    chosen = {"router_strategy": "nadir", "exploration_rate": 0.0, **config}
    return Rig(roster(FOUR, combo("auto", steps, **chosen), facts=facts))


def asked(decision: Decision) -> Question:
    question = question_of(decision)
    assert question is not None
    return question


def advised(over: Rig, advice: Advice, seed: int = 0, **request: Any) -> Decision:
    return decide(Request(COMBO, **request), over.state, Turn(over.now, seed, Dice(seed)), advice)


def test_a_question_has_the_pools_models_once_in_pool_order() -> None:
    told = asked(rig(nadir_base_url="https://own.example", nadir_timeout_ms=700).ask(last_user_text="Prove it."))
    assert told == Question(COMBO, "Prove it.", ("big", "small", "mid"), "https://own.example", 700)


def test_a_prompt_is_cut() -> None:
    assert len(asked(rig().ask(last_user_text="x" * 20_000)).prompt) == 16_000


def test_the_menu_has_only_what_may_be_chosen() -> None:
    over = rig(facts={FOUR[0]: DEAR, FOUR[1]: DEAR, FOUR[2]: CHEAP, FOUR[3]: CHEAP})
    assert asked(over.ask(input_tokens=1_000_000, controls=Controls(budget_usd=1.0))).menu == ("small", "mid")
    over = rig(facts={c: ModelFacts(has=frozenset({"vision"})) for c in FOUR[:3]})
    assert asked(over.ask(needs_vision=True)).menu == ("big", "small")
    over = rig(weights={"taskFit": 1.0}, facts={FOUR[2]: ModelFacts(fitness={"default": 0.1})})
    assert asked(over.ask()).menu == ("big", "mid"), "excluded by its score"


def test_a_large_menu_has_the_hundred_best_models() -> None:
    many = [f"p/m{n:03}@a" for n in range(150)]
    facts = {c: ModelFacts(fitness={"default": 0.3 + 0.004 * n}) for n, c in enumerate(many)}
    steps = combo("auto", many, router_strategy="nadir", exploration_rate=0.0, weights={"taskFit": 1.0})
    told = asked(Rig(roster(many, steps, facts=facts)).ask())
    assert told.menu == tuple(f"m{n:03}" for n in range(50, 150))


@pytest.mark.parametrize(
    "over",
    [
        rig(router_strategy="rules"),
        rig(quota_share=True),
        rig(agentic_enabled=True),
        Rig(roster(FOUR, combo("priority", FOUR, router_strategy="nadir"))),
        Rig(roster(FOUR, combo("lkgp", FOUR, router_strategy="nadir"))),
        rig(budget_cap=1e-12),
    ],
    ids=["another router", "quota share", "agentic", "priority", "lkgp", "the budget opened"],
)
def test_nothing_is_asked_where_the_answer_would_not_count(over: Rig) -> None:
    assert question_of(over.ask(input_tokens=1_000)) is None
    assert question_of(over.ask("auto", input_tokens=1_000)) is None


def test_an_explored_decision_asks_because_its_propensity_depends_on_it() -> None:
    over = rig(exploration_rate=0.5)
    explored = next(seed for seed in range(50) if over.ask(seed=seed).draft.exploration)
    assert asked(over.ask(seed=explored)).menu == ("big", "small", "mid")
    first = ids(over.ask(seed=explored))[0]
    model = first.partition("/")[2].partition("@")[0]
    others = next(name for name in ("big", "small", "mid") if name != model)
    rate = 0.5 / 4
    if model != "big":
        assert advised(over, Advice(model), explored).draft.propensity == pytest.approx(rate + 0.5)
    assert advised(over, Advice(others), explored).draft.propensity == pytest.approx(rate)


# Advice


@pytest.mark.parametrize(
    ("advice", "reason"),
    [
        (Advice("small"), "NadirStrategy: chose small"),
        (Advice("small", bucket="simple"), "NadirStrategy: chose small (simple)"),
        (Advice("small", bucket="simple", confidence=0.876), "NadirStrategy: chose small (simple, confidence 0.88)"),
        (Advice("small", confidence=0.0), "NadirStrategy: chose small (confidence 0.00)"),
    ],
)
def test_a_choice_goes_first_and_is_named(advice: Advice, reason: str) -> None:
    decision = advised(rig(), advice)
    assert ids(decision)[0] == FOUR[2]
    assert (decision.draft.router_strategy, decision.draft.reason) == ("nadir", reason)
    assert decision.draft.propensity == 1.0


def test_the_connection_of_a_chosen_model_is_that_of_rules() -> None:
    over = rig(weights={"taskFit": 1.0}, facts={FOUR[1]: ModelFacts(fitness={"default": 0.9})})
    assert ids(advised(over, Advice("big")))[0] == FOUR[1]
    over = rig(weights={"quota": 1.0})
    firsts = set()
    for number in range(2):
        over.state.counters[COMBO] = number
        firsts.add(ids(advised(over, Advice("big")))[0])
    assert firsts == set(FOUR[:2]), "equals take turns"


@pytest.mark.parametrize(
    "why", ["timeout", "http 503", "unreachable", "malformed", "skipped after a failure", "explain"]
)
def test_without_a_choice_rules_pick_and_the_reason_says_why(why: str) -> None:
    over = rig()
    decision = advised(over, Advice(failure=why))
    assert decision.draft.reason.startswith(f"NadirStrategy: fallback ({why})")
    assert decision.draft.router_strategy == "rules"
    assert ids(decision) == ids(Rig(roster(FOUR, combo("auto", FOUR, exploration_rate=0.0))).ask())


@pytest.mark.parametrize("model", ["huge", "BIG", ""])
def test_a_choice_that_is_not_in_the_pool_is_a_failure(model: str) -> None:
    decision = advised(rig(), Advice(model))
    assert decision.draft.reason.startswith("NadirStrategy: fallback (choice outside the pool)")
    assert decision.draft.router_strategy == "rules"


def test_a_choice_that_became_unavailable_meanwhile_is_a_failure() -> None:
    over = rig()
    assert "small" in asked(over.ask()).menu
    over.state.provider("q").breaker = Breaker(open=True, open_until=START + 60_000)
    decision = advised(over, Advice("small"))
    assert decision.draft.reason.startswith("NadirStrategy: fallback (choice outside the pool)")
    assert FOUR[2] not in ids(decision)


def test_a_session_pin_has_no_say_over_nadir() -> None:
    over = rig()
    over.decide(session_id="s")
    over.report()
    assert ids(advised(over, Advice("small"), session_id="s"))[0] == FOUR[2]


def test_an_explanation_is_advised_that_it_explains() -> None:
    assert advised(rig(), EXPLAINED).draft.reason.startswith("NadirStrategy: fallback (explain)")


def test_a_member_of_a_fusion_decides_by_rules() -> None:
    inner = combo("auto", FOUR, name="inner", router_strategy="nadir", exploration_rate=0.0)
    outer = combo("fusion", [reference("inner"), FOUR[3]])
    decision = Rig(roster(FOUR, inner, outer)).ask()
    assert question_of(decision) is None
    assert decision.plan is not None
