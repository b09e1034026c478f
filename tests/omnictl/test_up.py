"""What ``omnictl up`` decides to start, and with which environment."""

from __future__ import annotations

import json

import pytest

from omnictl import up
from omnictl.settings import LauncherSettings
from service_kit.settings import SettingsError

PORTS = (1, 2, 3)


@pytest.mark.parametrize(
    ("environ", "keyed"),
    [
        ({}, ()),
        ({"OPENAI_API_KEY": ""}, ()),
        ({"GITHUB_TOKEN": "x", "PATH": "/bin"}, ()),
        ({"OPENAI_API_KEY": "x", "ANTHROPIC_API_KEY": "y"}, ("anthropic", "openai")),
    ],
)
def test_provider_keys_are_found_by_the_names_of_the_catalogue(environ: dict[str, str], keyed: tuple[str, ...]) -> None:
    assert up.keyed_providers(environ) == keyed


def test_children_find_and_trust_each_other() -> None:
    wanted = LauncherSettings(decision_bind="0.0.0.0:1111", executor_bind="[::]:2222")
    environ = up.shared_environ(wanted, {"PATH": "/bin", "OMNIROUTE_LOG_JSON": "true"}, ())
    assert environ["OMNIROUTE_DECISION_ADDRESS"] == "127.0.0.1:1111"
    assert environ["OMNIROUTE_EXECUTOR_ADDRESS"] == "[::1]:2222"
    assert environ["PATH"] == "/bin"
    assert environ["OMNIROUTE_LOG_JSON"] == "true"
    assert environ["OMNIROUTE_DEMO_PROVIDERS"] == ""
    tokens = [environ["OMNIROUTE_EXECUTOR_TOKEN"], environ["OMNIROUTE_EDGE_TOKEN"]]
    assert len({*tokens, up.shared_environ(wanted, {}, ())["OMNIROUTE_EDGE_TOKEN"]}) == 3
    assert min(map(len, tokens)) >= 32


def test_tokens_that_are_set_are_kept() -> None:
    assert up.shared_environ(LauncherSettings(), {"OMNIROUTE_EDGE_TOKEN": "t"}, ())["OMNIROUTE_EDGE_TOKEN"] == "t"


def test_demo_providers_are_started_first_and_told_of() -> None:
    wanted = LauncherSettings()
    environ = up.shared_environ(wanted, {}, PORTS)
    names = [child.name for child in up.children(wanted, environ, PORTS)]
    assert names == ["demo", "decision", "executor", "edge"]
    assert environ["OMNIROUTE_DEMO_PORTS"] == "1,2,3"
    assert json.loads(environ["OMNIROUTE_DEMO_PROVIDERS"])[0]["base_url"] == "http://127.0.0.1:1/v1"
    assert [child.name for child in up.children(wanted, environ, ())] == ["decision", "executor", "edge"]


def test_every_port_names_the_setting_that_moves_it() -> None:
    ports = [port for child in up.children(LauncherSettings(), {}, ()) for port in child.ports]
    assert [(port.number, port.setting) for port in ports] == [
        (50051, "OMNIROUTE_DECISION_BIND"),
        (50061, "OMNIROUTE_DECISION_METRICS_PORT"),
        (50052, "OMNIROUTE_EXECUTOR_BIND"),
        (50062, "OMNIROUTE_EXECUTOR_METRICS_PORT"),
        (20128, "OMNIROUTE_EDGE_PORT"),
    ]


def test_a_bind_without_a_port_is_refused() -> None:
    with pytest.raises(SettingsError, match="OMNIROUTE_DECISION_BIND: got 'here'; allowed: host:port"):
        up.children(LauncherSettings(decision_bind="here"), {}, ())


def test_a_program_gets_one_line_of_json() -> None:
    line = up.ready_line(LauncherSettings(edge_host="0.0.0.0", edge_port=1234), ("openai",), with_demo=False)
    assert line.count("\n") == 1
    told = json.loads(line)
    assert told["openai_api"] == "http://127.0.0.1:1234/v1"
    assert (told["event"], told["providers"], told["demo_providers"]) == ("ready", ["openai"], False)


def test_the_banner_has_a_first_request_and_says_what_is_simulated() -> None:
    shown = up.banner(LauncherSettings(edge_host="0.0.0.0", edge_port=1234), (), with_demo=True)
    assert "curl http://127.0.0.1:1234/v1/chat/completions" in shown
    assert "simulated" in shown
    assert "simulated" not in up.banner(LauncherSettings(), ("openai",), with_demo=False)


def test_free_ports_differ() -> None:
    assert len(set(up.free_ports(5))) == 5
