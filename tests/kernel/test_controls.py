"""The client's controls of one request, and adaptive effort."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from decision_service.kernel.controls import Wishes, adaptive_effort, read_controls
from decision_service.kernel.model import Controls, Request


def wishes(**controls: Any) -> Wishes:
    return read_controls(Request("m", controls=Controls(**controls)))


@pytest.mark.parametrize(
    ("mode", "pack"),
    [
        ("balanced", "balanced"),
        ("default", "balanced"),
        ("fast", "ship-fast"),
        ("fastest", "ship-fast"),
        ("speed", "ship-fast"),
        ("quality", "quality-first"),
        ("best", "quality-first"),
        ("cheap", "cost-saver"),
        ("cost", "cost-saver"),
        ("saver", "cost-saver"),
        ("reliable", "reliability-first"),
        ("offline", "offline-friendly"),
        ("ship-fast", "ship-fast"),
        ("cost-saver", "cost-saver"),
        ("quality-first", "quality-first"),
        ("offline-friendly", "offline-friendly"),
        ("reliability-first", "reliability-first"),
        ("chaos-mode", "chaos-mode"),
        ("  FaSt\t", "ship-fast"),
        ("Chaos-Mode", "chaos-mode"),
    ],
)
def test_a_mode_names_a_pack(mode: str, pack: str) -> None:
    assert wishes(mode=mode) == Wishes(pack=pack)


@pytest.mark.parametrize(
    ("word", "fallback"),
    [
        ("cheapest", "cheapest"),
        ("cheapest-viable", "cheapest"),
        ("soft", "cheapest"),
        ("strict", "strict"),
        ("block", "strict"),
        ("hard", "strict"),
        (" HARD ", "strict"),
    ],
)
def test_a_budget_fallback(word: str, fallback: str) -> None:
    assert wishes(budget_fallback=word) == Wishes(budget_fallback=fallback)


@pytest.mark.parametrize(
    ("controls", "ignored"),
    [
        ({"mode": "turbo"}, "mode"),
        ({"mode": "fast cheap"}, "mode"),
        ({"budget_usd": -0.01}, "budget_usd"),
        ({"budget_usd": nan}, "budget_usd"),
        ({"budget_usd": inf}, "budget_usd"),
        ({"budget_usd": -inf}, "budget_usd"),
        ({"budget_fallback": "maybe"}, "budget_fallback"),
        ({"effort": "high"}, "effort"),
        ({"min_context_tokens": -1}, "min_context_tokens"),
    ],
)
def test_a_malformed_control_has_no_effect_and_is_named(controls: dict[str, Any], ignored: str) -> None:
    assert wishes(**controls) == Wishes(ignored=(ignored,))


@pytest.mark.parametrize("controls", [{}, {"mode": " "}, {"budget_usd": 0.0}, {"budget_fallback": ""}, {"effort": " "}])
def test_an_absent_control_is_not_named(controls: dict[str, Any]) -> None:
    assert wishes(**controls) == Wishes()


def test_controls_are_read_side_by_side() -> None:
    read = wishes(mode="best", budget_usd=0.5, budget_fallback="x", min_context_tokens=9, effort="AUTO ")
    assert read == Wishes("quality-first", 0.5, None, 9, effort=True, ignored=("budget_fallback",))


# characters of the last user message, tokens up to it, tool results before it: level
EFFORT = [
    (0, 0, 0, "low"),
    (160, 4_000, 0, "low"),
    (161, 4_000, 0, "medium"),
    (160, 4_001, 0, "medium"),
    (160, 4_000, 1, "medium"),
    (3_999, 59_999, 5, "medium"),
    (4_000, 0, 0, "high"),
    (0, 60_000, 0, "high"),
    (0, 0, 6, "high"),
]


@pytest.mark.parametrize(("chars", "tokens", "results", "level"), EFFORT)
def test_adaptive_effort(chars: int, tokens: int, results: int, level: str) -> None:
    request = Request(
        "m",
        last_user_chars=chars,
        context_tokens_to_last_user=tokens,
        tool_results_before_last_user=results,
        # What stands after the last user message does not count.
        input_tokens=10**6,
        tool_rounds=30,
        is_tool_continuation=True,
    )
    assert adaptive_effort(request, Wishes(effort=True)) == level


def test_effort_is_left_alone_unless_asked_for_or_where_the_body_has_its_own() -> None:
    assert adaptive_effort(Request("m"), Wishes()) == ""
    assert adaptive_effort(Request("m", has_reasoning_params=True), Wishes(effort=True)) == ""
