"""Documents of outside sources, well made and otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decision_service.kernel.knowledge.synced import Capability
from decision_service.knowledge_sync.documents import (
    MOST_RATINGS,
    Unreadable,
    arena_board,
    listed_capabilities,
)


def board(**ratings: Any) -> dict[str, Any]:
    return {"meta": {}, "models": [{"model": name, "score": rating} for name, rating in ratings.items()]}


def test_fitness_is_the_place_between_the_lowest_and_the_highest() -> None:
    assert arena_board(board(low=1000, middle=1100, high=1400)) == {"low": 0.5, "middle": 0.625, "high": 1.0}


def test_a_model_that_is_listed_often_has_its_best_rating() -> None:
    rows = [("A (thinking)", 1200), ("a-20250101", 1300), ("v/a:free", 1100), ("b", 1000), ("c", 1400)]
    told = arena_board({"models": [{"model": name, "score": rating} for name, rating in rows]})
    assert told == {"a": 0.875, "b": 0.5, "c": 1.0}


def test_a_rating_for_one_effort_stands_for_the_model_unless_it_has_its_own() -> None:
    rows = [("gpt-5-high", 1400), ("gpt-5-low", 1200), ("gpt-6", 1100), ("gpt-6-high", 1300), ("x", 1000)]
    told = arena_board({"models": [{"model": name, "score": rating} for name, rating in rows]})
    assert (told["gpt-5-high"], told["gpt-5-low"], told["gpt-6"]) == (1.0, 0.75, 0.625)
    assert told["gpt-5"] == 1.0


def test_rows_that_are_none_are_passed_over() -> None:
    rows = [
        None,
        3,
        {},
        {"model": "x"},
        {"model": "", "score": 1},
        {"model": 3, "score": 1},
        {"model": "t", "score": True},
    ]
    rows += [{"model": "n", "score": float("nan")}, {"model": "m", "score": -1}, {"model": "s", "score": "1200"}]
    rows += [{"model": "long" * 100, "score": 5}, {"name": "a", "elo": 1}, {"name": "b", "rating": 2.0}]
    assert arena_board({"models": rows}) == {"a": 0.5, "b": 1.0}


@pytest.mark.parametrize(
    "document",
    [None, [], "x", 3, {}, {"models": {}}, {"models": []}, board(), board(one=1000), board(one=1000, two=1000)],
)
def test_what_is_no_board_is_unreadable(document: Any) -> None:
    with pytest.raises(Unreadable):
        arena_board(document)


def test_a_board_is_bounded() -> None:
    told = arena_board({"models": [{"model": f"m{i}", "score": i + 1} for i in range(MOST_RATINGS + 10)]})
    assert len(told) == MOST_RATINGS


def listing(**more: Any) -> dict[str, Any]:
    return {"id": "m", "reasoning": False, "tool_call": False, "limit": {"context": 8_000}, **more}


@pytest.mark.parametrize(
    ("given_", "step"),
    [
        (listing(reasoning=True), Capability.PREMIUM),
        (listing(tool_call=True, limit={"context": 128_000}), Capability.STANDARD),
        (listing(tool_call=True, limit={"context": 127_999}), Capability.FAST),
        (listing(tool_call=True, limit=None), Capability.FAST),
        (listing(tool_call=True, limit={"context": "many"}), Capability.FAST),
        (listing(limit={"context": 1_000_000}), Capability.BUDGET),
        (listing(reasoning="yes", tool_call=1), Capability.BUDGET),
        ({}, Capability.BUDGET),
    ],
)
def test_the_step_of_a_listing(given_: dict[str, Any], step: Capability) -> None:
    assert listed_capabilities({"p": {"models": {"v/M-20250101": given_}}}) == {"m": step}


def test_the_best_listing_counts() -> None:
    document = {
        "a": {"models": {"m": listing(tool_call=True), "n": listing()}},
        "b": {"models": {"v/m:free": listing(reasoning=True), "v/n": listing(tool_call=True)}},
        "c": {"models": {"M": listing(), "N": 3}},
        "d": {"models": []},
        "e": None,
    }
    assert listed_capabilities(document) == {"m": "premium", "n": "fast"}


@pytest.mark.parametrize("document", [None, [], {}, {"p": {}}, {"p": {"models": {}}}, {"p": {"models": {"": {}}}}])
def test_what_is_no_listing_is_unreadable(document: Any) -> None:
    with pytest.raises(Unreadable):
        listed_capabilities(document)


KEYS = st.sampled_from(["models", "model", "score", "name", "limit", "context", "reasoning", "p"]) | st.text(max_size=5)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10)
ANYTHING = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5))


@given(ANYTHING)
def test_anything_is_read_or_refused(document: Any) -> None:
    for read in (arena_board, listed_capabilities):
        try:
            told = read(document)
        except Unreadable:
            continue
        assert told
