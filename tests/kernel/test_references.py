"""References to other combos: where one step stands for several, they keep their declared order."""

from __future__ import annotations

from decision_service.kernel.model import OutcomeClass, Step
from decision_service.kernel.plan import Plan
from tests.kernel.rig import COMBO, Rig, combo, roster, step

CANDIDATES = ["p/m@a", "p/m@b", "q/m@c", "r/m@d"]


def rig(prompt: str = "") -> Rig:
    """A pipeline of a reference (a dynamic step, then a pinned one) and a last step."""
    inner = combo("random", ["p/m", step("q/m@c", prompt="of its own")], name="inner")
    ref = Step(id="ref", combo="inner", prompt=prompt)
    return Rig(roster(CANDIDATES, inner, combo("pipeline", [ref, "r/m@d"])))


def plan(over: Rig, **request: object) -> Plan:
    plan = over.ask(COMBO, **request).plan  # type: ignore[arg-type]
    assert plan is not None
    return plan


def first_step(over: Rig, **request: object) -> list[str]:
    call = plan(over, **request).panel[0]
    return [call.member.id, *(fallback.member.id for fallback in call.fallbacks)]


def test_the_inner_steps_stay_in_declared_order_however_long_they_are_unused() -> None:
    over = rig()
    over.decide("p/m")
    over.report()
    assert first_step(over) == ["p/m@b", "p/m@a", "q/m@c"], "the accounts of one inner step trade places, steps do not"


def test_a_conversation_is_followed_inside_an_inner_step_only() -> None:
    over = rig()
    for kind in (OutcomeClass.EMPTY, OutcomeClass.EMPTY, OutcomeClass.SUCCESS):
        over.decide(session_id="s")
        over.report(kind, place=0)
    served = over.decisions[-1].chain[0].id
    assert first_step(over, session_id="s")[0] == served
    assert first_step(over, session_id="s")[2] == "q/m@c"


def test_the_prompt_of_a_reference_goes_before_the_prompts_inside() -> None:
    given, none = plan(rig("Draft.")).panel[0], plan(rig()).panel[0]
    assert [given.member.step.prompt, given.fallbacks[-1].member.step.prompt] == ["Draft.", "Draft."]
    assert [none.member.step.prompt, none.fallbacks[-1].member.step.prompt] == ["", "of its own"]


def test_a_step_without_a_target_is_named_by_what_it_asks_for() -> None:
    over = rig()
    over.decide("r/m")
    over.report(OutcomeClass.MODEL_NOT_FOUND)
    assert over.refused().message == "step 2 (r/m) has no available target"
