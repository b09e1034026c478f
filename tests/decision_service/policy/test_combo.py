"""Combos from plain values: what is understood, and how the rest is refused."""

from __future__ import annotations

from typing import Any

import pytest

from decision_service.kernel.model import Combo
from decision_service.policy import Known, one_spelling, parse_combo, parse_combos
from decision_service.policy.vocabulary import STRATEGIES
from service_kit.errors import Reason, ServiceError

KNOWN = Known(providers={"openai", "anthropic"}, connections={("openai", "c1"), ("anthropic", "c2")})
ONE = ["openai/gpt-4o"]


def combo(**changes: Any) -> Combo:
    given = {"name": "mine", "strategy": "priority", "steps": ONE, "config": None, "known": KNOWN} | changes
    return parse_combo(**given)


def refusal(**changes: Any) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        combo(**changes)
    assert caught.value.reason is Reason.INVALID_FIELD
    assert caught.value.message.startswith(caught.value.field)
    return caught.value


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_public_strategy_is_taken(strategy: str) -> None:
    assert combo(strategy=strategy).strategy == strategy


@pytest.mark.parametrize("strategy", [s for s in STRATEGIES if s != "auto"])
def test_every_strategy_but_auto_needs_a_step(strategy: str) -> None:
    assert refusal(strategy=strategy, steps=[]).field == "steps"


def test_auto_needs_no_step() -> None:
    assert combo(strategy="auto", steps=None).steps == ()


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        ("quota-share", "config.quotaShare"),
        ("round_robin", "'round-robin'"),
        ("", "priority"),
        (None, "null"),
        (7, "7"),
    ],
)
def test_other_strategies_are_refused(strategy: Any, told: str) -> None:
    error = refusal(strategy=strategy)
    assert error.field == "strategy"
    assert told in error.message


@pytest.mark.parametrize("name", ["auto/fast", "auto/", "combo/x", "", " x", "x ", "a\nb", "x" * 129, None, 5, ["x"]])
def test_names_that_are_refused(name: Any) -> None:
    assert refusal(name=name).field == "name"


@pytest.mark.parametrize("name", ["auto", "autoX", "gpt-4o", "openai/gpt-4o", "x" * 128, "快速", "my combo", "Auto/x"])
def test_names_that_are_taken(name: str) -> None:
    assert combo(name=name).name == name


def test_a_step_may_be_a_text_or_an_object() -> None:
    step = {
        "model": "openai/gpt-4o",
        "connectionId": "c1",
        "weight": 2,
        "prompt": "p",
        "label": "l",
        "maxConcurrent": 3,
    }
    first, second = combo(steps=[step, "anthropic/claude/with/slashes"]).steps
    assert (first.provider, first.model, first.connection) == ("openai", "gpt-4o", "c1")
    assert (first.weight, first.prompt, first.label, first.max_concurrent) == (2.0, "p", "l", 3)
    assert (second.provider, second.model, second.connection) == ("anthropic", "claude/with/slashes", None)
    assert (second.weight, second.max_concurrent) == (0.0, None)


@pytest.mark.parametrize(
    ("steps", "field"),
    [
        ("openai/gpt-4o", "steps"),
        ([{}], "steps[0].model"),
        (["gpt-4o"], "steps[0].model"),
        (["/gpt-4o"], "steps[0].model"),
        (["openai/"], "steps[0].model"),
        (["openai/gpt-4o", "opnai/gpt-4o"], "steps[1].model"),
        ([7], "steps[0]"),
        ([{"model": "openai/x", "weigth": 1}], "steps[0].weigth"),
        ([{"model": "openai/x", "weight": -1}], "steps[0].weight"),
        ([{"model": "openai/x", "weight": float("nan")}], "steps[0].weight"),
        ([{"model": "openai/x", "weight": True}], "steps[0].weight"),
        ([{"model": "openai/x", "connectionId": "c2"}], "steps[0].connectionId"),
        ([{"model": "openai/x", "connectionId": "nobody"}], "steps[0].connectionId"),
        ([{"model": "openai/x", "maxConcurrent": -1}], "steps[0].maxConcurrent"),
        ([{"model": "openai/x", "maxConcurrent": 1.5}], "steps[0].maxConcurrent"),
        ([{"model": "openai/x", "kind": "modle"}], "steps[0].kind"),
        ([{"model": "openai/x", "comboName": "b", "kind": "model"}], "steps[0].comboName"),
        ([{"kind": "combo-ref"}], "steps[0].comboName"),
        ([{"kind": "combo-ref", "comboName": "b", "model": "openai/x"}], "steps[0].model"),
        ([{"kind": "combo-ref", "comboName": "b", "connectionId": "c1"}], "steps[0].connectionId"),
        ([{"model": "openai/x", "id": "a"}, {"model": "openai/y", "id": "a"}], "steps[1].id"),
        (["openai/x"] * 257, "steps"),
    ],
)
def test_steps_that_are_refused(steps: Any, field: str) -> None:
    assert refusal(steps=steps).field == field


def test_steps_come_under_one_of_three_names() -> None:
    assert one_spelling({"targets": ONE}) == ONE
    assert one_spelling({"models": ONE, "steps": None}) == ONE
    assert one_spelling({}) is None
    with pytest.raises(ServiceError, match="exactly one of steps, targets, models"):
        one_spelling({"steps": ONE, "models": ONE})


# Step ids


def ids(steps: Any, stored: Combo | None = None) -> list[str]:
    known = Known(stored=stored)
    return [step.id for step in combo(steps=steps, known=known).steps]


def test_ids_that_are_given_stay() -> None:
    assert ids([{"id": "a", "model": "openai/x"}, {"stepId": "b", "model": "openai/x"}]) == ["a", "b"]


def test_made_ids_are_unique_and_the_same_wherever_the_steps_are_read() -> None:
    steps = ["openai/x", "openai/x", {"model": "openai/x", "connectionId": "c1"}, "openai/y"]
    assert len(set(ids(steps))) == 4
    assert ids(steps) == ids(steps)


def test_a_step_without_id_keeps_the_id_of_the_stored_step_that_is_alike() -> None:
    stored = combo(
        steps=[{"id": "a", "model": "openai/x"}, {"id": "b", "model": "openai/x"}, {"id": "c", "model": "openai/y"}]
    )
    assert ids(["openai/y", "openai/x", "openai/x"], stored) == ["c", "a", "b"]


def test_a_stored_id_that_another_step_claims_is_not_given_twice() -> None:
    stored = combo(steps=[{"id": "a", "model": "openai/x"}])
    first, second = ids([{"id": "a", "model": "openai/y"}, "openai/x"], stored)
    assert first == "a"
    assert second not in ("", "a")


# References


def ref(name: str) -> dict[str, str]:
    return {"kind": "combo-ref", "comboName": name}


def several(*raws: tuple[str, str, list[Any]], depth: int = 3) -> dict[str, Combo]:
    listed = [{"name": name, "strategy": strategy, "steps": steps} for name, strategy, steps in raws]
    return parse_combos(listed, Known(combo_ref_max_depth=depth))


def test_references_may_point_forward_and_in_a_diamond() -> None:
    found = several(
        ("a", "priority", [ref("b"), ref("c")]),
        ("b", "weighted", [ref("d")]),
        ("c", "priority", [ref("d")]),
        ("d", "priority", ONE),
    )
    assert found["a"].steps[0].combo == "b"


@pytest.mark.parametrize(
    ("raws", "field", "told"),
    [
        ([("a", "priority", [ref("nobody")])], "combos[0].steps[0].comboName", "unknown combo"),
        ([("a", "priority", [*ONE, ref("a")])], "combos[0].steps[1].comboName", "a -> a"),
        (
            [("a", "priority", [ref("b")]), ("b", "priority", [ref("a")])],
            "combos[0].steps[0].comboName",
            "a -> b -> a",
        ),
        ([("a", "fusion", [ref("a")])], "combos[0].steps[0].comboName", "circle"),
        ([("a", "priority", [ref("f")]), ("f", "fusion", ONE)], "combos[0].steps[0].comboName", "fusion"),
        ([("a", "priority", [ref("p")]), ("p", "pipeline", ONE)], "combos[0].steps[0].comboName", "pipeline"),
        ([("a", "pipeline", [ref("x")]), ("x", "auto", [])], "combos[0].steps[0].comboName", "without steps"),
    ],
)
def test_references_that_are_refused(raws: list[Any], field: str, told: str) -> None:
    with pytest.raises(ServiceError) as caught:
        several(*raws)
    assert caught.value.field == field
    assert told in caught.value.message


def test_a_fusion_may_have_any_combo_as_member() -> None:
    several(
        ("a", "fusion", [ref("f"), ref("p"), ref("x")]),
        ("f", "fusion", ONE),
        ("p", "pipeline", ONE),
        ("x", "auto", []),
    )


def chain(length: int) -> list[tuple[str, str, list[Any]]]:
    """``length`` references in a row."""
    inner = [(f"c{n}", "priority", [ref(f"c{n + 1}")]) for n in range(length)]
    return [*inner, (f"c{length}", "priority", list(ONE))]


@pytest.mark.parametrize("depth", [1, 3, 10])
def test_references_nest_as_deep_as_the_setting_says(depth: int) -> None:
    several(*chain(depth), depth=depth)
    with pytest.raises(ServiceError, match=f"at most {depth}"):
        several(*chain(depth + 1), depth=depth)


def test_a_change_that_breaks_another_combo_names_that_one() -> None:
    others = several(("user", "priority", [ref("mine")]), ("mine", "priority", ONE))
    del others["mine"]
    error = refusal(strategy="fusion", known=Known(combos=others))
    assert "'user'" in error.message


def test_many_diamonds_are_checked_quickly() -> None:
    layers = [
        [(f"l{depth}n{n}", "priority", [ref(f"l{depth + 1}n{m}") for m in range(20)]) for n in range(20)]
        for depth in range(9)
    ]
    last = [(f"l9n{n}", "priority", list(ONE)) for n in range(20)]
    assert len(several(*(each for layer in layers for each in layer), *last, depth=10)) == 200
