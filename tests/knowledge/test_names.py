"""Which spellings mean one model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decision_service.kernel.knowledge.names import hyphenated, same_model, without_effort


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("claude-opus-4-5", "claude-opus-4-5"),
        ("anthropic/claude-opus-4.5-20251101:free", "claude-opus-4-5"),
        ("claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("gpt-4o-2024-05-13", "gpt-4o"),
        ("gpt-5.2-chat-latest-20260210", "gpt-5-2-chat"),
        ("gemini-3-pro-preview", "gemini-3-pro"),
        ("gemini-3-flash (thinking-minimal)", "gemini-3-flash"),
        ("Kimi_K2.5", "kimi-k2-5"),
        ("gpt-oss:20b", "gpt-oss-20b"),
        ("deepseek-v3-0324", "deepseek-v3-0324"),
        ("20251101", "20251101"),
        ("", ""),
    ],
)
def test_spellings(model: str, expected: str) -> None:
    assert same_model(model) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt-5-1-high", "gpt-5-1"),
        ("o3-low", "o3"),
        ("gpt-5-mini", "gpt-5-mini"),
        ("mistral-medium", "mistral-medium"),
        ("claude-opus-4-6-thinking", "claude-opus-4-6-thinking"),
    ],
)
def test_only_names_that_are_listed_once_an_effort_lose_it(name: str, expected: str) -> None:
    assert without_effort(name) == expected


@given(st.text(max_size=300))
def test_reading_a_name_again_changes_nothing(model: str) -> None:
    assert hyphenated(hyphenated(model)) == hyphenated(model)
    assert same_model(same_model(model)) == same_model(model)
    assert same_model(f"vendor/{model.replace('/', '')[:100]}") == same_model(model.replace("/", "")[:100])
