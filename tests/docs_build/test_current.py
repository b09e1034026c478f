"""The generated parts of the pages are current, and nothing that there is to tell is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from decision_service.kernel.factors import FACTORS, survey
from decision_service.kernel.grammar import CATEGORIES, FLAT_IDS, TIERS, VARIANT_IDS
from decision_service.kernel.knowledge.tasks import TASKS
from decision_service.kernel.model import ComboConfig, Request
from decision_service.kernel.reset import RESETS
from decision_service.kernel.routers import ROUTER_STRATEGIES
from decision_service.kernel.state import RoutingState
from decision_service.kernel.strategies import STRATEGIES
from decision_service.kernel.weights import FACTOR_NAMES, PACK_NAMES, PACKS
from decision_service.policy import vocabulary
from decision_service.policy.config import ROWS
from decision_service.policy.settings import SETTINGS
from docs_build import scoring, words
from docs_build.__main__ import DOCS, main, stale
from docs_build.parts import PARTS
from tests.docs.pages import by_first_code, codes, table
from tests.kernel.rig import combo, roster

POLICIES, SCORING, MACHINES = (DOCS / name for name in ("strategies.md", "scoring.md", "state-machines.md"))


def test_every_page_is_current() -> None:
    assert [path.name for path in stale()] == [], "run make docs"


def test_a_page_that_is_not_current_is_found_and_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in PARTS:
        (tmp_path / name).write_text((DOCS / name).read_text().replace("`priority`", "`posteriority`"))
    monkeypatch.setattr("docs_build.__main__.DOCS", tmp_path)
    assert main(["--check"]) == 1
    assert main([]) == 0
    assert main(["--check"]) == 0
    assert (tmp_path / "strategies.md").read_text() == POLICIES.read_text()


def test_the_words_of_policies_are_the_tables_of_the_kernel() -> None:
    by_kernel = set(STRATEGIES) | vocabulary.SEVERAL_CALLS
    assert {*vocabulary.STRATEGIES, vocabulary.INTERNAL_STRATEGY} == by_kernel
    ordered = [name for name in vocabulary.STRATEGIES if name in STRATEGIES]
    assert [*ordered, vocabulary.INTERNAL_STRATEGY] == list(STRATEGIES)
    assert tuple(FACTORS) == FACTOR_NAMES
    assert tuple(PACKS) == PACK_NAMES


def test_every_strategy_has_its_row_in_order() -> None:
    rows = by_first_code(table(POLICIES, "strategy", "order"), "strategy")
    assert tuple(rows) == vocabulary.STRATEGIES == tuple(words.STRATEGIES)
    assert f"`{vocabulary.INTERNAL_STRATEGY}`" in POLICIES.read_text()


def test_every_router_strategy_has_its_row_with_its_other_names() -> None:
    rows = by_first_code(table(POLICIES, "router strategy", "picks"), "router strategy")
    assert tuple(rows) == tuple(ROUTER_STRATEGIES) == tuple(words.ROUTERS)
    others = {alias: name for name, row in rows.items() for alias in codes(row["other names"])}
    assert {**others, **{name: name for name in rows}} == dict(vocabulary.ROUTERS)


def test_every_config_key_and_setting_has_its_row() -> None:
    listed = [spelling for row in table(POLICIES, "key", "means", "default") for spelling in codes(row["key"])]
    assert sorted(listed) == sorted(row.path for row in ROWS)
    assert set(words.KEYS) == {row.field for row in ROWS}
    settings = by_first_code(table(POLICIES, "setting", "means"), "setting")
    assert tuple(settings) == tuple(SETTINGS) == tuple(words.SETTINGS)


def test_every_value_and_default_is_told() -> None:
    for row in table(POLICIES, "key", "means", "default"):
        assert row["value"], row
        assert row["default"], row
    rows = by_first_code(table(POLICIES, "key", "means", "default"), "key")
    assert rows["explorationRate"]["default"] == f"{ComboConfig().exploration_rate:g}"
    assert rows["maxAttempts"]["value"] == "a whole number from 1 to 30"
    assert rows["resetWindowWindows"]["value"].endswith("session, weekly, monthly")


def test_keys_are_read_by_strategies_that_there_are() -> None:
    known = {*vocabulary.STRATEGIES, vocabulary.INTERNAL_STRATEGY, *words.ALL}
    assert {name for key in words.KEYS.values() for name in key.read_by} <= known


def test_every_factor_and_pack_has_its_row_and_column() -> None:
    assert tuple(by_first_code(table(SCORING, "factor", "value"), "factor")) == FACTOR_NAMES
    rows = by_first_code(table(SCORING, "factor", *PACK_NAMES), "factor")
    assert tuple(rows) == FACTOR_NAMES
    for pack, weights in PACKS.items():
        assert {factor: float(row[pack]) for factor, row in rows.items()} == pytest.approx(weights, abs=5e-5), pack


@pytest.mark.parametrize("name", FACTORS)
def test_what_stands_in_for_an_unknown_signal_is_what_the_factor_gives(name: str) -> None:
    state = RoutingState(roster(["p/m@a"], combo("auto", ["p/m@a"])))
    members = state.pool(state.combo("combo"), "combo", "").members
    told = (FACTORS[name].__doc__ or "").partition(scoring.UNKNOWN)[2].rstrip(".")
    if told.replace(".", "", 1).isdecimal():
        assert FACTORS[name](members[0], survey(members, Request("combo"), "coding", now=0)) == float(told)
    else:
        assert name in ("costInv", "latencyInv", "stability", "reliability")


def test_every_channel_category_tier_and_task_is_told() -> None:
    text = SCORING.read_text()
    assert all(f"`{word}`" in text for word in (*VARIANT_IDS, *CATEGORIES, *TIERS, *FLAT_IDS, *TASKS))


def test_every_machine_that_can_be_reset_has_a_diagram() -> None:
    sections = dict(section.split("\n", 1) for section in MACHINES.read_text().split("\n## ")[1:])
    assert all("```mermaid" in sections[kind.capitalize()] for kind in RESETS)
