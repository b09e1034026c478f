"""Recorded decisions and sequences: the kernel agrees with every one, to nine digits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from decision_service.scenario import read_scenario, run

CASES = [
    case
    for path in sorted((Path(__file__).parent / "cases").glob("*.json"))
    for case in json.loads(path.read_text())["cases"]
]
NAMES = [case["name"] for case in CASES]


def close(value: Any) -> Any:
    """The same value, its numbers within 1e-9."""
    if isinstance(value, Mapping):
        return {key: close(item) for key, item in value.items()}
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return pytest.approx(value, abs=1e-9) if number else value


def same(key: str) -> Callable[[Mapping[str, Any], Any], None]:
    def check(answer: Mapping[str, Any], expected: Any) -> None:
        assert answer[key] == close(expected)

    return check


def rejected(answer: Mapping[str, Any], expected: list[str]) -> None:
    assert sorted(stop["candidate"] for stop in answer["rejected"]) == sorted(expected)


def error(answer: Mapping[str, Any], expected: str) -> None:
    assert answer["error"]["reason"] == expected


def retry_after(answer: Mapping[str, Any], expected: int) -> None:
    assert answer["error"]["retry_after_ms"] == pytest.approx(expected, abs=1)


EXPECTATIONS: Mapping[str, Callable[[Mapping[str, Any], Any], None]] = {
    **{key: same(key) for key in ("targets", "scores", "factors", "weights", "incident_mode", "probe")},
    "rejected": rejected,
    "error": error,
    "retry_after_ms": retry_after,
}


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_recorded_case_comes_out_the_same(case: Mapping[str, Any]) -> None:
    answers = list(run(read_scenario(case["scenario"])))
    assert len(answers) == len(case["expect"])
    for answer, expected in zip(answers, case["expect"], strict=True):
        assert ("error" in answer) == ("error" in expected), answer
        for key, value in expected.items():
            EXPECTATIONS[key](answer, value)


def test_the_cases_have_names_of_their_own() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 144
