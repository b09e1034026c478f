"""What an operator stores, kept through the command line against a running decision service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.omnictl.commands.conftest import Omnictl

SECRET = "sk-never-to-be-seen-again"
COMBO = """
name: {name}
strategy: weighted
steps:
  - {{model: openai/gpt-4o, connectionId: oa1, weight: 3, label: big}}
  - {{model: anthropic/claude-sonnet-4-6, weight: 1}}
config: {{stickyWeightedLimit: 2}}
"""


@pytest.fixture
def combo(omnictl: Omnictl) -> str:
    """A stored combo."""
    name = f"combo-{len(omnictl('combos', 'list', '--json').json)}"
    assert omnictl("combos", "create", "-f", "-", stdin=COMBO.format(name=name)).status == 0
    return name


@pytest.fixture
def key(omnictl: Omnictl) -> str:
    """The id of a stored key."""
    return str(omnictl("keys", "create", "of the test", "--json").json["key"]["id"])


def connection(omnictl: Omnictl, name: str) -> dict[str, Any]:
    return dict(omnictl("connections", "get", name, "--json").json)


def add(omnictl: Omnictl, name: str, *options: str, stdin: str = "", **environ: str) -> str:
    """Add a disabled connection; what was printed."""
    ran = omnictl("connections", "add", "groq", "--id", name, "--disabled", *options, stdin=stdin, **environ)
    assert ran.status == 0, ran.err
    assert SECRET not in ran.out + ran.err
    return ran.out


def test_a_key_comes_from_a_variable_a_file_or_standard_input(omnictl: Omnictl, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{SECRET}\n")
    add(omnictl, "by-env", "--api-key-env", "GROQ", GROQ=SECRET)
    add(omnictl, "by-file", "--api-key-file", str(tmp_path / "key"))
    add(omnictl, "by-dash", "--api-key-file", "-", stdin=SECRET)
    add(omnictl, "by-prompt", stdin=f"{SECRET}\n")
    views = [connection(omnictl, name)["credential_view"] for name in ("by-env", "by-file", "by-dash", "by-prompt")]
    assert {view["kind"] for view in views} == {"api_key"}
    assert len({view["fingerprint"] for view in views}) == 1
    assert SECRET not in omnictl("connections", "list").out


def test_other_credentials(omnictl: Omnictl, tmp_path: Path) -> None:
    tokens = f"access_token: {SECRET}\nrefreshToken: {SECRET}\n"
    (tmp_path / "oauth.yaml").write_text(f"{tokens}token_url: 'https://a.b/t'\nexpires_at: 2030-01-01T00:00:00Z\n")
    add(omnictl, "by-reference", "--reference", "env:GROQ_API_KEY")
    add(omnictl, "by-oauth", "--oauth-file", str(tmp_path / "oauth.yaml"))
    local = omnictl("connections", "add", "ollama-local", "--id", "by-none", "--no-credential", "--disabled")
    assert local.status == 0, local.err
    assert connection(omnictl, "by-reference")["credential_view"]["reference"] == "env:GROQ_API_KEY"
    assert connection(omnictl, "by-oauth")["credential_view"]["expires_at"] == "2030-01-01T00:00:00Z"
    assert connection(omnictl, "by-none")["credential_view"]["kind"] == "none"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--api-key-env", "NOT_SET"), "variable NOT_SET: empty"),
        (("--api-key-file", "/nowhere/key"), "No such file"),
        (("--api-key-env", "A", "--reference", "env:B"), "2 credentials are given"),
        ((), "standard input"),
    ],
)
def test_a_credential_that_is_not_there_is_wrong_usage(omnictl: Omnictl, options: tuple[str, ...], told: str) -> None:
    assert told in omnictl("connections", "add", "groq", *options).refused(2)


def test_a_remote_provider_is_not_said_to_need_no_credential(omnictl: Omnictl) -> None:
    line = omnictl("connections", "add", "groq", "--id", "bare", "--no-credential").refused(1)
    assert "credential: got none for provider 'groq', which is of class api_key" in line
    assert "allowed: an API key, a reference or OAuth tokens" in line
    assert "bare" not in omnictl("connections", "list").out


def test_a_credential_that_is_taken_away_is_told_of(omnictl: Omnictl) -> None:
    add(omnictl, "given-up", "--reference", "env:GROQ_API_KEY")
    out = omnictl("connections", "update", "given-up", "--no-credential").out
    assert "it has no credential that can be used" in out
    assert omnictl("connections", "update", "given-up", "--no-credential", "--json").json["id"] == "given-up"
    assert "no credential" not in omnictl("connections", "update", "given-up", "--reference", "env:A").out


def test_a_connection_is_changed_field_by_field(omnictl: Omnictl) -> None:
    add(omnictl, "changing", "--reference", "env:GROQ_API_KEY", "--label", "first", "--model", "m1", "--model", "m2")
    before = connection(omnictl, "changing")
    assert (before["label"], before["models"], before["enabled"]) == ("first", ["m1", "m2"], False)
    assert omnictl("connections", "update", "changing", "--label", "second").status == 0
    assert omnictl("connections", "update", "changing", "--model", "", "--tier", "ultra").status == 0
    after = connection(omnictl, "changing")
    assert (after["label"], after["models"], after["account_tier"]) == ("second", [], "ultra")
    assert after["credential_view"] == before["credential_view"]
    limited = omnictl("connections", "update", "changing", "--max-concurrent", "3", "--json").json
    assert (limited["max_concurrent"], limited["label"]) == (3, "second")
    assert omnictl("connections", "enable", "changing", "--json").json["enabled"] is True
    assert omnictl("connections", "disable", "changing", "--json").json["enabled"] is False
    assert "nothing to change" in omnictl("connections", "update", "changing").refused(2)
    assert omnictl("connections", "remove", "changing").out == "Connection changing is removed.\n"
    assert "there is no connection 'changing'" in omnictl("connections", "get", "changing").refused(1)


def test_markup_and_escapes_in_a_name_are_only_text(omnictl: Omnictl) -> None:
    add(omnictl, "loud", "--reference", "env:GROQ_API_KEY", "--label", "[red]not red[/red]")
    assert "[red]not red[/red]" in omnictl("connections", "list").out


def test_the_service_names_a_bad_field(omnictl: Omnictl) -> None:
    assert "provider: got" in omnictl("connections", "add", "nobody", "--no-credential").refused(1)
    assert "base_url: got" in omnictl("connections", "update", "an1", "--base-url", "ftp://x").refused(1)


def test_a_combo_is_found_by_its_name_and_sent_back_as_it_came(omnictl: Omnictl, combo: str, tmp_path: Path) -> None:
    shown = omnictl("combos", "get", combo).out
    assert "openai/gpt-4o" in shown
    assert "stickyWeightedLimit" in shown
    stored = omnictl("combos", "get", combo, "--json").json
    assert stored["steps"][0] | {"weight": 3, "connection_id": "oa1"} == stored["steps"][0]
    (tmp_path / "combo.json").write_text(json.dumps(stored | {"description": "changed"}))
    changed = omnictl("combos", "update", combo, "-f", str(tmp_path / "combo.json"), "--json").json
    assert changed["description"] == "changed"
    assert changed["steps"] == stored["steps"]
    assert changed["config"] == stored["config"] == {"stickyWeightedLimit": 2}
    assert "etag" in omnictl("combos", "update", combo, "-f", str(tmp_path / "combo.json")).refused(1)


def test_only_what_the_file_names_is_changed(omnictl: Omnictl, combo: str) -> None:
    before = omnictl("combos", "get", combo, "--json").json
    after = omnictl("combos", "update", combo, "-f", "-", "--json", stdin="strategy: priority").json
    assert after["strategy"] == "priority"
    assert after["steps"] == before["steps"]
    assert omnictl("combos", "remove", combo).status == 0
    assert f"there is no combo '{combo}'" in omnictl("combos", "get", combo).refused(1)


@pytest.mark.parametrize(
    ("text", "status", "told"),
    [
        ("stragety: priority", 2, "stragety: got an unknown key; allowed: id, name, strategy"),
        ("steps: [{modle: a/b}]", 2, "steps[0].modle: got an unknown key"),
        ("[]", 2, "standard input: got a list; allowed: an object"),
        ("name: [", 2, "standard input, line 2, column 1"),
        ("{name: x, strategy: sideways, steps: []}", 1, "strategy: got"),
        ("{name: x, strategy: priority, config: {1: .nan}}", 1, "config.1: got an unknown key"),
    ],
)
def test_a_bad_combo_file_is_one_line(omnictl: Omnictl, text: str, status: int, told: str) -> None:
    assert told in omnictl("combos", "create", "-f", "-", stdin=text).refused(status)


def test_a_key_is_shown_once(omnictl: Omnictl) -> None:
    made = omnictl("keys", "create", "once", "--rpm", "5", "--model", "gpt-*", "--expires", "2031-02-03").out
    secret = made.splitlines()[-1]
    stored = next(key for key in omnictl("keys", "list", "--json").json if key["name"] == "once")
    assert secret.startswith(stored["prefix"])
    assert len(secret) > len(stored["prefix"]) + 16
    assert stored["limits"]["requests_per_minute"] == 5
    assert stored["expires_at"] == "2031-02-03T00:00:00Z"
    assert secret not in omnictl("keys", "list").out + omnictl("keys", "list", "--json").out


def test_a_key_is_changed_field_by_field(omnictl: Omnictl) -> None:
    omnictl(
        "keys", "create", "kept", "--rpm", "5", "--usd-per-day", "1.5", "--model", "gpt-*", "--expires", "2031-02-03"
    )
    changed = omnictl("keys", "update", "kept", "--tpm", "7", "--expires", "never", "--disable", "--json").json
    assert changed["limits"] == {
        "requests_per_minute": 5,
        "tokens_per_minute": 7,
        "usd_per_day": 1.5,
        "usd_per_month": 0,
    }
    assert "expires_at" not in changed
    assert changed["enabled"] is False
    assert changed["allowed_models"] == ["gpt-*"]
    assert omnictl("keys", "update", "kept", "--model", "", "--json").json["allowed_models"] == []
    assert "--expires: got 'soon'" in omnictl("keys", "update", "kept", "--expires", "soon").refused(2)
    assert "one of them" in omnictl("keys", "update", "kept", "--enable", "--disable").refused(2)
    assert omnictl("keys", "remove", "kept").out == "Key kept is removed.\n"
    assert "there is no key 'kept'" in omnictl("keys", "remove", "kept").refused(1)


def test_a_mapping_leads_to_a_combo(omnictl: Omnictl, combo: str) -> None:
    mapping = omnictl("mappings", "add", "my-*", combo, "--priority", "-3", "--json").json
    assert mapping["priority"] == -3
    assert "my-*" in omnictl("mappings", "list").out
    assert omnictl("explain", "my-model", "--json").json["decision"]["combo"] == combo
    assert "my-*" in omnictl("combos", "remove", combo).refused(1)
    assert omnictl("mappings", "remove", mapping["id"]).status == 0
    assert omnictl("combos", "remove", combo).status == 0


def test_an_override_excludes_for_one_key_alone(omnictl: Omnictl, key: str) -> None:
    big, other = "openai/gpt-4o@oa1", "anthropic/claude-sonnet-4-6@an1"
    made = omnictl("overrides", "set", key, "fast", "--exclude", big, "--multiplier", f"{other}=0.25", "--json").json
    assert made["channel"] == "fast"
    assert {one["candidate"]: one.get("multiplier") for one in made["candidates"]} == {big: None, other: 0.25}
    assert f"{other} x 0.25" in omnictl("overrides", "get", key, "auto/fast").out
    assert [one["api_key_id"] for one in omnictl("overrides", "list", "--key", key, "--json").json] == [key]
    reachable = {
        row["candidate"]: row["reachable"]
        for row in omnictl("candidates", "auto/fast", "--key", key, "--json").json["candidates"]
    }
    assert reachable[big] is False
    assert reachable[other] is True
    assert omnictl("overrides", "remove", key, "fast").status == 0
    assert omnictl("overrides", "get", key, "fast").refused(1)


def test_a_multiplier_has_a_candidate_and_a_number(omnictl: Omnictl, key: str) -> None:
    assert "--multiplier: got 'a=b'" in omnictl("overrides", "set", key, "fast", "--multiplier", "a=b").refused(2)


def test_settings_are_set_shown_and_unset(omnictl: Omnictl) -> None:
    def sticky() -> dict[str, Any]:
        return dict(omnictl("settings", "get", "comboStickyRoundRobinLimit", "--json").json)

    default = sticky()
    assert omnictl("settings", "set", "comboStickyRoundRobinLimit=4").status == 0
    assert sticky() == {"key": "comboStickyRoundRobinLimit", "value": 4, "layer": "settings"}
    assert "comboStickyRoundRobinLimit" in omnictl("settings", "get").out
    assert omnictl("settings", "set", "comboStickyRoundRobinLimit=null").status == 0
    assert sticky() == default
    assert "values.nonsense" in omnictl("settings", "set", "nonsense=1").refused(1)
    assert "allowed: NAME=VALUE" in omnictl("settings", "set", "nonsense").refused(2)
    assert "there is no setting 'nonsense'" in omnictl("settings", "get", "nonsense").refused(1)


def test_models_of_connected_providers_are_listed(omnictl: Omnictl) -> None:
    connected = omnictl("models", "list", "--json").json
    assert {"openai", "anthropic"} <= {model["provider"] for model in connected}
    every = omnictl("models", "list", "--all", "--json").json
    assert len(every) > 1000 > len(connected)  # more than one page
    assert len({(model["provider"], model["model"]) for model in every}) == len(every)
    model = omnictl("models", "get", "openai/gpt-4o", "--json").json
    assert model["input_price"] == 2.5
    shown = dict(line.split(maxsplit=1) for line in omnictl("models", "get", "openai/gpt-4o").out.splitlines())
    assert shown["context_window"] == "128000"
    assert "allowed: PROVIDER/MODEL" in omnictl("models", "get", "gpt-4o").refused(2)


def test_states_are_listed_by_kind(omnictl: Omnictl) -> None:
    states = omnictl("state", "list", "--kind", "breaker", "--json").json
    assert all(state["kind"] == "breaker" for state in states)
    assert "kind: got 'mood'" in omnictl("state", "list", "--kind", "mood").refused(1)
    assert "no breaker 'nobody'" in omnictl("state", "reset", "breaker", "nobody").refused(1)
