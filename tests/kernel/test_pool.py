"""Pools: which candidates a policy considers, filtered by policy and by preference, in a total order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from decision_service.kernel.model import (
    Combo,
    Connection,
    KeyPolicy,
    ModelFacts,
    Override,
    Provider,
    ProviderClass,
    Settings,
    Step,
)
from decision_service.kernel.pool import Pool, flatten
from decision_service.kernel.roster import Roster
from tests.kernel.rig import Rig, combo, ids, reference, roster, step

FREE, CHEAP, DEAR = ModelFacts(input_price=0.0), ModelFacts(input_price=1.0), ModelFacts(input_price=1.01)


def pool(over: Roster, model: str = "auto", key: str = "") -> Pool:
    state = Rig(over).state
    return state.pool(state.combo(model), model, key)


def names(found: Pool) -> list[str]:
    return [member.id for member in found.members]


def stops(found: Pool) -> dict[str, str]:
    return {candidate: stop.filter for candidate, stop in found.rejected.items()}


# The pool of a channel


def test_a_channel_takes_every_candidate_by_provider_model_connection() -> None:
    mixed = ["q/m@b", "p/n@a", "p/m@z", "q/m@a", "p/m@a"]
    assert names(pool(roster(mixed))) == ["p/m@a", "p/m@z", "p/n@a", "q/m@a", "q/m@b"]


def test_a_connection_without_models_serves_its_providers_first() -> None:
    over = Roster(providers={"p": Provider("p", models=("z", "a"))}, connections={("p", "c"): Connection("c", "p")})
    assert names(pool(over)) == ["p/z@c"]


@pytest.mark.parametrize("useless", [{"enabled": False}, {"usable": False}])
def test_a_connection_that_cannot_be_used_is_not_in_it(useless: dict[str, Any]) -> None:
    assert names(pool(roster(["p/m@a", "q/m@b"], connections={"a": useless}))) == ["q/m@b"]


def test_a_provider_that_is_switched_off_is_not_in_it() -> None:
    over = Roster(
        providers={"p": Provider("p", enabled=False, models=("m",)), "q": Provider("q", models=("m",))},
        connections={("p", "a"): Connection("a", "p"), ("q", "b"): Connection("b", "q")},
    )
    assert names(pool(over)) == ["q/m@b"]


@pytest.mark.parametrize("model", ["combo", "m", "auto"])
def test_a_provider_that_is_switched_off_serves_no_policy(model: str) -> None:
    two = ["p/m@a", "q/m@b"]
    over = roster(two, combo("priority", two))
    over = replace(over, providers={**over.providers, "p": Provider("p", enabled=False, models=("m",))})
    assert ids(Rig(over).ask(model)) == ["q/m@b"]
    refusal = Rig(over).refused("p/m")
    assert refusal.reason == "NO_AVAILABLE_TARGET"
    assert [stop.reason for stop in refusal.rejected.values()] == ["disabled"]


def test_a_combo_of_auto_without_steps_takes_the_same_pool() -> None:
    mixed = ["q/m@b", "p/m@a"]
    assert names(pool(roster(mixed, combo("auto", [])), "combo")) == ["p/m@a", "q/m@b"]


def test_a_candidate_pool_is_by_provider_and_what_stands_outside_is_not_rejected() -> None:
    three = ["p/m@a", "q/m@b", "r/m@c"]
    found = pool(roster(three, combo("auto", three, candidate_pool=frozenset({"r", "p"}))), "combo")
    assert (names(found), stops(found)) == (["p/m@a", "r/m@c"], {})


def test_a_candidate_pool_has_no_say_under_other_strategies() -> None:
    three = ["p/m@a", "q/m@b"]
    found = pool(roster(three, combo("priority", three, candidate_pool=frozenset({"p"}))), "combo")
    assert names(found) == three


# Policy


def test_hidden_models_are_out_everywhere() -> None:
    two = ["p/m@a", "q/m@b"]
    over = roster(two, combo("priority", two), facts={two[0]: ModelFacts(hidden=True)})
    for model in ("auto", "combo", "m"):
        found = pool(over, model)
        assert (names(found), stops(found)) == (two[1:], {two[0]: "hidden"}), model


def test_paid_models_are_out_everywhere_and_an_unknown_price_is_paid() -> None:
    four = ["p/free@a", "p/cheap@a", "p/dear@a", "p/unknown@a"]
    facts = {"p/free@a": FREE, "p/cheap@a": CHEAP, "p/dear@a": DEAR}
    over = roster(four, combo("priority", four), facts=facts, settings=Settings(hide_paid_models=True))
    for model in ("auto", "combo"):
        found = pool(over, model)
        assert (names(found), set(stops(found).values())) == (["p/free@a"], {"paid"})


@pytest.mark.parametrize(
    ("allowed", "model", "left"),
    [
        ((), "auto", ["p/gpt-4@a", "q/llama@b"]),
        (("gpt-*",), "auto", ["p/gpt-4@a"]),
        (("q/*",), "auto", ["q/llama@b"]),
        (("q/llama",), "auto", ["q/llama@b"]),
        (("auto",), "auto", ["p/gpt-4@a", "q/llama@b"]),
        (("auto/*",), "auto/fast", ["p/gpt-4@a", "q/llama@b"]),
        (("combo",), "combo", ["p/gpt-4@a", "q/llama@b"]),
        (("nothing",), "auto", []),
    ],
)
def test_a_keys_allowed_models(allowed: tuple[str, ...], model: str, left: list[str]) -> None:
    two = ["p/gpt-4@a", "q/llama@b"]
    over = roster(two, combo("priority", two), keys={"k": KeyPolicy("k", allowed_models=allowed)})
    assert names(pool(over, model, "k")) == left
    assert names(pool(over, model, "other")) == two


def test_a_keys_allowed_connections_act_on_every_request() -> None:
    two = ["p/m@a", "q/m@b"]
    keys = {"k": KeyPolicy("k", allowed_connections=frozenset({"b"}))}
    over = roster(two, combo("priority", two), keys=keys)
    for model in ("auto", "combo", "m", "q/m"):
        found = pool(over, model, "k")
        assert names(found) == ["q/m@b"]
        assert set(stops(found).values()) <= {"key_connections"}


@pytest.mark.parametrize(
    ("model", "key", "excluded"),
    [
        ("auto/fast", "k", True),
        ("auto/best-fast", "k", True),  # a flat id reads the variant
        ("auto", "k", False),
        ("auto/fast", "other", False),
        ("auto/fast", "", False),
        ("combo", "k", False),
        ("p/m", "k", False),
    ],
)
def test_a_keys_exclusions_act_on_their_channel_alone(model: str, key: str, excluded: bool) -> None:
    two = ["p/m@a", "q/m@b"]
    overrides = {("k", "fast"): Override(excluded=frozenset({"p/m@a"}))}
    over = roster(two, combo("priority", two), overrides=overrides)
    found = pool(over, model, key)
    assert ("p/m@a" in names(found)) == (not excluded)
    assert stops(found) == ({"p/m@a": "override"} if excluded else {})


def test_floor_and_cheap_share_their_exclusions() -> None:
    overrides = {("k", "coding:cheap"): Override(excluded=frozenset({"p/m@a"}))}
    over = roster(["p/m@a", "q/m@b"], overrides=overrides)
    assert names(pool(over, "auto/coding:floor", "k")) == names(pool(over, "auto/coding:cheap", "k")) == ["q/m@b"]


# Preference: category first, then tier on what is left, each only if it leaves something

SEES, THINKS = frozenset({"vision"}), frozenset({"reasoning"})
MODELS = {
    "p/blind-free@a": FREE,
    "p/blind-dear@a": DEAR,
    "p/sees-cheap@a": ModelFacts(input_price=0.5, has=SEES),
    "p/sees-dear@a": ModelFacts(input_price=9.0, has=SEES),
    "p/thinks-unknown@a": ModelFacts(has=THINKS),
}
ALL = set(MODELS)
PREFERENCES = [
    ("auto", ALL, ()),
    ("auto/coding", ALL, ()),
    ("auto/chat", ALL, ()),
    ("auto/vision", {"p/sees-cheap@a", "p/sees-dear@a"}, ()),
    ("auto/multimodal", {"p/sees-cheap@a", "p/sees-dear@a"}, ()),
    ("auto/reasoning", {"p/thinks-unknown@a"}, ()),
    ("auto/chat:free", {"p/blind-free@a"}, ()),
    ("auto/chat:pro", {"p/blind-dear@a", "p/sees-dear@a", "p/thinks-unknown@a"}, ()),
    ("auto/pro-fast", {"p/blind-dear@a", "p/sees-dear@a", "p/thinks-unknown@a"}, ()),
    ("auto/vision:pro", {"p/sees-dear@a"}, ()),
    ("auto/vision:free", {"p/sees-cheap@a", "p/sees-dear@a"}, ("tier",)),
    ("auto/reasoning:pro", {"p/thinks-unknown@a"}, ()),
    ("auto/vision:cheap", {"p/sees-cheap@a", "p/sees-dear@a"}, ()),
]


@pytest.mark.parametrize(("model", "left", "opened"), PREFERENCES)
def test_category_and_tier(model: str, left: set[str], opened: tuple[str, ...]) -> None:
    found = pool(roster(list(MODELS), facts=MODELS), model)
    assert set(names(found)) == left
    assert found.opened == opened
    assert set(found.rejected) == ALL - left


def test_a_category_that_would_leave_none_opens_and_the_tier_still_acts() -> None:
    facts = {"p/free@a": FREE, "p/dear@a": DEAR}
    found = pool(roster(list(facts), facts=facts), "auto/vision:free")
    assert (names(found), found.opened) == (["p/free@a"], ("category",))
    assert stops(found) == {"p/dear@a": "tier"}


def test_preference_looks_at_what_policy_left() -> None:
    facts = {"p/sees@a": ModelFacts(has=SEES, hidden=True), "p/blind@a": ModelFacts()}
    found = pool(roster(list(facts), facts=facts), "auto/vision")
    assert (names(found), found.opened) == (["p/blind@a"], ("category",))
    assert stops(found) == {"p/sees@a": "hidden"}


def test_an_opened_filter_is_named_in_the_decision() -> None:
    assert Rig(roster(["p/m@a"])).ask("auto/vision:free").opened == ("category", "tier")


# Steps


def units(over: Roster, model: str = "combo") -> list[list[str]]:
    return [[member.id for member in unit.members] for unit in pool(over, model).units]


ACCOUNTS = ["p/m@a", "p/m@b", "q/m@c"]
AS_ONE_UNIT = [
    *("priority", "weighted", "round-robin", "random", "p2c", "least-used", "cost-optimized", "fill-first"),
    "context-optimized",
]


@pytest.mark.parametrize("strategy", AS_ONE_UNIT)
def test_a_dynamic_step_is_one_unit(strategy: str) -> None:
    assert units(roster(ACCOUNTS, combo(strategy, ["p/m", "q/m@c"]))) == [["p/m@a", "p/m@b"], ["q/m@c"]]


@pytest.mark.parametrize("strategy", ["auto", "reset-aware", "reset-window", "headroom"])
def test_some_strategies_always_expand(strategy: str) -> None:
    policy = combo(strategy, ["p/m", "q/m@c"], connection_aware_expansion=False)
    assert units(roster(ACCOUNTS, policy)) == [["p/m@a"], ["p/m@b"], ["q/m@c"]]


@pytest.mark.parametrize(
    ("own", "setting", "expanded"),
    [
        (None, False, False),
        (None, True, True),
        (True, False, True),
        (False, True, False),
    ],
)
def test_expansion_is_the_combos_choice_else_the_settings(own: bool | None, setting: bool, expanded: bool) -> None:
    policy = combo("priority", ["p/m"], connection_aware_expansion=own)
    over = roster(ACCOUNTS, policy, settings=Settings(connection_aware_expansion=setting))
    assert len(units(over)) == (2 if expanded else 1)


def test_expansion_divides_a_steps_weight() -> None:
    policy = combo("weighted", [step("p/m", weight=6.0), step("q/m@c", weight=1.0)], connection_aware_expansion=True)
    found = pool(roster(ACCOUNTS, policy), "combo")
    assert [unit.step.weight for unit in found.units] == [3.0, 3.0, 1.0]
    assert len({unit.key for unit in found.units}) == 3


def test_a_dynamic_step_whose_provider_has_no_connection_is_left_out() -> None:
    assert units(roster(["q/m@c"], combo("priority", ["nobody/m", "q/m@c"]))) == [["q/m@c"]]


def test_a_dynamic_step_goes_fewest_in_flight_first_then_least_recently_used() -> None:
    over = Rig(roster(["p/m@a", "p/m@b", "p/m@c"], combo("priority", ["p/m"])))
    assert ids(over.decide()) == ["p/m@a", "p/m@b", "p/m@c"]
    assert ids(over.decide()) == ["p/m@b", "p/m@c", "p/m@a"]
    over.report(decision=over.decisions[0])
    assert ids(over.decide()) == ["p/m@c", "p/m@a", "p/m@b"], "a is free again, but c was never used"


def test_a_dynamic_step_without_its_first_connection_is_still_one_unit() -> None:
    policy = combo("priority", ["p/m", "q/m@c"])
    keys = {"k": KeyPolicy("k", allowed_connections=frozenset({"b", "c"}))}
    over = Rig(roster(ACCOUNTS, policy, keys=keys))
    assert ids(over.ask(api_key_id="k")) == ["p/m@b", "q/m@c"]


# References


def flat(over: Roster, name: str = "combo") -> list[tuple[str, float]]:
    return [(f"{s.provider}/{s.model}@{s.connection}", s.weight) for s in flatten(over.combos[name], over)]


def nested(*combos: Combo, depth: int = 3) -> Roster:
    return roster(ACCOUNTS, *combos, settings=Settings(combo_ref_max_depth=depth))


def weighed(name: str, *steps: tuple[str, float], strategy: str = "weighted") -> Combo:
    taken: list[str | Step] = [step(s, weight=w) if "/" in s else reference(s, w) for s, w in steps]
    return combo(strategy, taken, name=name)


def test_a_reference_is_replaced_by_the_inner_steps_in_declared_order_and_scaled_weights() -> None:
    over = nested(
        weighed("combo", ("q/m@c", 1.0), ("inner", 6.0)),
        weighed("inner", ("p/m@b", 1.0), ("p/m@a", 2.0), strategy="random"),
    )
    assert flat(over) == [("q/m@c", 1.0), ("p/m@b", 2.0), ("p/m@a", 4.0)]


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        pytest.param((0.0, 0.0), (3.0, 3.0), id="without weights in equal parts"),
        pytest.param((0.0, 5.0), (0.0, 6.0), id="one of weight 0 stays at 0"),
        pytest.param((1e308, 1e308), (3.0, 3.0), id="a total beyond every float"),
    ],
)
def test_inner_weights(inner: tuple[float, float], expected: tuple[float, float]) -> None:
    over = nested(weighed("combo", ("inner", 6.0)), weighed("inner", ("p/m@a", inner[0]), ("p/m@b", inner[1])))
    assert tuple(weight for _, weight in flat(over)) == pytest.approx(expected)


def test_references_nest_to_a_depth_and_no_further() -> None:
    chain = [combo("priority", ["p/m@a", reference(f"c{n + 1}")], name=f"c{n}") for n in range(6)]
    over = nested(*chain, combo("priority", ["q/m@c"], name="c6"), depth=3)
    assert len(flat(over, "c0")) == 4
    assert len(flat(nested(*chain, depth=1), "c0")) == 2


def test_a_cycle_or_a_missing_combo_ends_there() -> None:
    over = nested(
        combo("priority", ["p/m@a", reference("other"), reference("gone")]),
        combo("priority", [reference("combo"), "q/m@c"], name="other"),
        depth=10,
    )
    assert [name for name, _ in flat(over)] == ["p/m@a", "q/m@c"]


def test_steps_that_come_by_two_ways_keep_ids_of_their_own() -> None:
    over = nested(
        combo("priority", [step("ignored", id="r1", combo="inner"), step("ignored", id="r2", combo="inner")]),
        combo("priority", ["p/m@a"], name="inner"),
    )
    assert [s.id for s in flatten(over.combos["combo"], over)] == ["r1.p/m@a", "r2.p/m@a"]


# Rules 5 and 6


def test_provider_and_model_takes_every_connection_of_the_provider() -> None:
    over = Rig(roster(ACCOUNTS))
    assert ids(over.ask("p/m")) == ["p/m@a", "p/m@b"]
    assert ids(over.ask("p/unlisted")) == ["p/unlisted@a", "p/unlisted@b"]


def test_a_bare_model_takes_all_who_serve_it() -> None:
    over = Rig(roster([*ACCOUNTS, "r/other@d"]))
    decision = over.ask("m")
    assert sorted(ids(decision)) == ACCOUNTS
    assert (decision.scope, decision.combo.strategy) == ("m", "auto")


def test_a_local_provider_needs_no_credential() -> None:
    over = Rig(roster(["p/m@a"], classes={"p": ProviderClass.LOCAL}))
    assert ids(over.ask("auto")) == ["p/m@a"]
