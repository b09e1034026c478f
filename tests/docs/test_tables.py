"""Tables of the pages against what they describe: each names everything there is, and nothing else."""

from __future__ import annotations

import dataclasses
from importlib import import_module

import pytest

from decision_service.kernel.blame import RULINGS
from decision_service.kernel.health import Verdict
from decision_service.kernel.model import OutcomeClass
from decision_service.scenario.read import CANDIDATE_KEYS, TOP_KEYS
from decision_service.scenario.run import REPORT_KEYS
from decision_service.scenario.signals import SIGNALS
from edge_gateway import controls
from edge_gateway.problems import KINDS
from executor.dialects import DIALECTS
from executor.problems import CODES
from executor.shapes import SHAPES
from service_kit.errors import STATUS, Reason
from service_kit.metrics import REGISTRY
from tests.docs import pages

STRATEGIES_PAGE = pages.DOCS / "strategies.md"
SCENARIOS_PAGE = pages.DOCS / "scenarios.md"
SETTINGS_CLASSES = (
    ("decision_service.settings", "DecisionSettings", "Decision service"),
    ("executor.settings", "Settings", "Executor"),
    ("edge_gateway.settings", "Settings", "Edge gateway"),
    ("omnictl.settings", "LauncherSettings", "Launcher"),
    ("omnictl.demo.settings", "DemoSettings", "Launcher"),
    ("omnictl.connecting", "ClientSettings", "All services"),
)
WORDS = """provider connection candidate pool combo step target plan channel strategy attempt outcome breaker cooldown
lockout exclusion lease probe blame score factor edge gateway executor""".split()


def _served(path: str) -> bool:
    edge = pages.ROOT / "edge_gateway"
    return any(f'"{path}' in source.read_text() for source in (edge / "app.py", *edge.glob("admin/*.py")))


def test_every_reason_has_its_codes_on_the_errors_page() -> None:
    rows = pages.table(pages.DOCS / "errors.md", "reason", "gRPC", "HTTP")
    listed = {row["reason"]: (row["gRPC"], int(row["HTTP"]), row["type"], row["code"]) for row in rows}
    limited = listed.pop("NO_AVAILABLE_TARGET, every reason a limit")
    assert limited == ("RESOURCE_EXHAUSTED", 429, "rate_limit_error", "no_available_target")
    assert listed == {
        reason.value: (code.name, status, KINDS[reason][0], KINDS[reason][1])
        for reason, (code, status) in STATUS.items()
    }
    assert set(STATUS) == set(Reason)


def test_every_outcome_class_has_its_code_and_blame_on_the_errors_page() -> None:
    rows = {row["outcome class"]: row for row in pages.table(pages.DOCS / "errors.md", "outcome class")}
    assert {name: row["`code`"] for name, row in rows.items()} == {kind.value: code for kind, code in CODES.items()}
    for name, row in rows.items():
        told = row["whose fault it counts as"]
        ruling = RULINGS[OutcomeClass(name)]
        assert told.startswith(ruling.blame.value), name
        assert ("breaker counts" in told) is (ruling.breaker is Verdict.FAILURE), name
        assert ("rests" in told) is (ruling.wait is not None), name


def test_every_setting_is_on_the_configuration_page_with_its_default() -> None:
    listed = {
        code: codes[0] if (codes := pages.codes(row["default"])) else row["default"]
        for row in pages.table(pages.DOCS / "configuration.md", "variable", "default")
        for code in pages.codes(row["variable"])
    }
    there = {}
    for module, name, _ in SETTINGS_CLASSES:
        for field in dataclasses.fields(getattr(import_module(module), name)):
            there[f"OMNIROUTE_{field.name.upper()}"] = _shown(field.default)
    assert listed == there


def _shown(default: object) -> str:
    if default in ("", None):
        return "unset"
    if default is dataclasses.MISSING:
        return "set by the launcher"
    return str(default).lower() if isinstance(default, bool) else str(default)


def test_every_metric_is_on_the_operations_page() -> None:
    for assembly in ("decision_service.assembly", "executor.assembly", "edge_gateway.assembly"):
        import_module(assembly)
    rows = pages.by_first_code(pages.table(pages.DOCS / "operations.md", "metric", "kind"), "metric")
    there = {metric.name: metric.type for metric in REGISTRY.collect() if metric.name.startswith("omniroute_")}
    assert {name: row["kind"] for name, row in rows.items()} == there


def test_every_control_header_is_listed() -> None:
    rows = pages.by_first_code(pages.table(STRATEGIES_PAGE, "header", "means"), "header")
    assert set(rows) == {*controls.HEADER_OF.values(), controls.SESSION, controls.TASK}


def test_every_key_of_a_scenario_is_listed() -> None:
    text = SCENARIOS_PAGE.read_text()
    keys = pages.by_first_code(pages.table(SCENARIOS_PAGE, "key", "meaning", "default"), "key")
    assert set(TOP_KEYS) == set(keys)
    told = set(pages.by_first_code(pages.table(SCENARIOS_PAGE, "signal", "meaning"), "signal"))
    assert told == set(SIGNALS)
    assert all(f"`{key}`" in text for key in CANDIDATE_KEYS)
    counts = {"ttft_ms", "input_tokens", "output_tokens", "cached_tokens"}  # "tokens" on the page, as a group
    assert all(f"`{key}`" in text for key in set(REPORT_KEYS) - counts)


def test_the_words_of_the_code_are_in_the_glossary() -> None:
    rows = {row["word"] for row in pages.table(pages.DOCS / "glossary.md", "word", "meaning")}
    text = " ".join(rows)
    assert [word for word in WORDS if word not in text] == []


@pytest.mark.parametrize(
    ("words", "there"),
    [
        ("Plans of several calls", len(SHAPES) > 1),
        ("Anthropic's", "anthropic" in DIALECTS),
        ("Gemini's", "gemini" in DIALECTS),
        ("`/v1/embeddings`", _served("/v1/embeddings")),
        ("`/v1/responses`", _served("/v1/responses")),
        ("`/v1/messages`", _served("/v1/messages")),
        ("administration API over HTTP", _served("/api/combos")),
        ("Helm", (pages.ROOT / "deploy" / "helm").exists()),
    ],
)
def test_the_readme_names_what_is_missing_as_long_as_it_is(words: str, there: bool) -> None:
    missing = pages.README.read_text().partition("Not yet:")[2]
    assert (words in missing) is not there
