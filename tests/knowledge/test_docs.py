"""The page on knowledge says what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from decision_service.kernel.knowledge import specificity, tiers, words
from decision_service.kernel.knowledge.synced import CAPABILITY_FITNESS
from decision_service.kernel.knowledge.tasks import PRECEDENCE, TASK_TYPES
from decision_service.settings import DecisionSettings

PAGE = (Path(__file__).parents[2] / "docs" / "knowledge.md").read_text()
PROSE = " ".join(PAGE.split())
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("|")]


def row(start: str) -> list[str]:
    (found,) = (cells for cells in ROWS if cells[0].startswith(start))
    return found[1:]


@pytest.mark.parametrize("step", CAPABILITY_FITNESS)
def test_the_capability_steps(step: str) -> None:
    assert [float(cell) for cell in row(f"{step}:")] == [CAPABILITY_FITNESS[step][task] for task in TASK_TYPES]


def test_the_bounds_of_the_specificity_hint() -> None:
    most = {name: float(row(name)[1]) for name in ("length", "tools", "code", "maths", "constraints")}
    assert most == {
        "length": specificity.LENGTH_POINTS,
        "tools": specificity.MOST_TOOL_POINTS,
        "code": specificity.CODE_POINTS,
        "maths": specificity.MATHS_POINTS,
        "constraints": specificity.MOST_CONSTRAINT_POINTS,
    }
    assert sum(most.values()) == 100.0


def test_words_and_orders() -> None:
    assert ", ".join(PRECEDENCE) in PROSE
    assert f"first {words.HEAD_CHARS:,} and the last {words.TAIL_CHARS:,} characters" in PROSE
    assert all(f"`{end}`" in PAGE for end in tiers.FREE_LIST)


@pytest.mark.parametrize(
    "field", ["arena_elo_sync_enabled", "arena_elo_url", "models_dev_url", "knowledge_sync_interval_s"]
)
def test_the_settings(field: str) -> None:
    assert field in DecisionSettings.__slots__
    assert f"`OMNIROUTE_{field.upper()}`" in PAGE
