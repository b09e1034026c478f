"""The specificity hint: bounded, repeatable, and never lower for more of what it measures."""

from __future__ import annotations

from dataclasses import replace
from timeit import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decision_service.kernel.knowledge.specificity import specificity_of
from decision_service.kernel.knowledge.tiers import recommended_tier
from decision_service.kernel.model import Request

SHORT = st.text(alphabet="abcdef mustonly,.\n", max_size=300)
WORDS = ("must", "exactly", "sin duda", "debe", "harus", "必须", "prove", "code", "$$", "```", "at least", "hello")


def ask(text: str = "", **more: object) -> Request:
    return replace(Request("auto", last_user_text=text), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("request_", "score"),
    [
        (ask(), 0.0),
        (ask(input_tokens=4_000), 15.0),
        (ask(input_tokens=12_000), 22.5),
        (ask(last_user_chars=16_000), 15.0),
        (ask(tool_count=1), 4.0),
        (ask(has_tools=True), 4.0),
        (ask(tool_count=5), 20.0),
        (ask(tool_count=500), 20.0),
        (ask(tool_count=5, tool_choice_none=True), 0.0),
    ],
)
def test_length_and_tools(request_: Request, score: float) -> None:
    assert specificity_of(request_) == pytest.approx(score)


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("hello there", 0),
        ("implement it", 15),
        ("a crash", 15),
        ("```x```", 15),
        ("prove it", 15),
        ("∫ x", 15),
        ("demuestra el teorema", 15),
        ("证明这个定理", 15),
        ("it must be so", 4),
        ("it must, must and must be so", 4),
        ("it must be exactly so", 8),
        ("at least once", 4),
        ("必须严格", 8),
        ("debe, solo, nunca, siempre, evita, excepto", 20),
        ("prove in code that it must hold", 34),
    ],
)
def test_markers_and_constraint_words(text: str, points: float) -> None:
    length = 30 * (len(text) / 4) / (len(text) / 4 + 4_000)
    assert specificity_of(ask(text)) == pytest.approx(points + length)


@pytest.mark.parametrize(
    ("request_", "tier"),
    [
        (ask("Hi, how are you today?", input_tokens=8), "free"),
        (ask("Write a Python function that adds", input_tokens=900), "cheap"),
        (ask("Fix the failing test, it must pass", input_tokens=20_000, tool_count=12), "premium"),
    ],
)
def test_what_is_recommended_of_it(request_: Request, tier: str) -> None:
    assert recommended_tier(specificity_of(request_)).value == tier


@given(SHORT, st.integers(0, 2**31), st.integers(0, 10_000), st.booleans())
def test_it_is_bounded_and_repeatable(text: str, tokens: int, tools: int, forbidden: bool) -> None:
    request = ask(text, input_tokens=tokens, tool_count=tools, tool_choice_none=forbidden)
    score = specificity_of(request)
    assert 0.0 <= score <= 100.0
    assert score == specificity_of(request)


@given(SHORT, st.integers(0, 200_000), st.integers(0, 30), st.integers(1, 50_000), st.integers(1, 5))
def test_more_tokens_or_tools_never_lower_it(text: str, tokens: int, tools: int, longer: int, further: int) -> None:
    least = specificity_of(ask(text, input_tokens=tokens, tool_count=tools))
    assert specificity_of(ask(text, input_tokens=tokens + longer, tool_count=tools)) >= least
    assert specificity_of(ask(text, input_tokens=tokens, tool_count=tools + further)) >= least


@given(SHORT, st.lists(st.sampled_from(WORDS), min_size=1, max_size=8))
def test_more_words_never_lower_it(text: str, words: list[str]) -> None:
    assert specificity_of(ask(f"{text} {' '.join(words)}")) >= specificity_of(ask(text))


def test_a_long_message_takes_no_long_time() -> None:
    request = ask("必须严格证明这个方程 must only sin embargo, " * 450)
    assert min(repeat(lambda: specificity_of(request), number=10, repeat=10)) / 10 < 0.001
