"""Where the service is, who may ask it, and what is said when it does not answer."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from omnictl import printing
from omniroute.decision.v1 import decision_pb2 as pb
from tests.omnictl.commands.conftest import ADDRESS, Omnictl, decision_service
from tests.service_kit.test_tls import authority

TOKEN = "a-token-for-operators"


@contextmanager
def free_port() -> Iterator[int]:
    """A port that nobody listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def fails(request: pb.ListCandidatesRequest, context: grpc.ServicerContext) -> pb.ListCandidatesResponse:
    """Ends with the status that is asked for, without the details that the real service gives."""
    context.abort(grpc.StatusCode[request.model], "a text\nof two lines \x1b[31m")
    raise AssertionError


@pytest.fixture
def broken() -> Iterator[str]:
    """The address of a server that fails."""
    server = grpc.server(futures.ThreadPoolExecutor(1))
    handler = grpc.unary_unary_rpc_method_handler(
        fails, pb.ListCandidatesRequest.FromString, pb.ListCandidatesResponse.SerializeToString
    )
    service = pb.DESCRIPTOR.services_by_name["DecisionService"].full_name
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {"ListCandidates": handler})])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait(5)


def test_nobody_there_is_one_line_with_advice(offline: Omnictl) -> None:
    with free_port() as port:
        line = offline("state", "list", "--address", f"127.0.0.1:{port}").refused(1)
    assert f"no decision service answers at 127.0.0.1:{port}" in line
    assert "`make run`" in line
    assert ADDRESS in line


@pytest.mark.parametrize("address", ["nonsense", "no such host:1", "127.0.0.1:99999999", ":"])
def test_a_wrong_address_is_one_line(offline: Omnictl, address: str) -> None:
    assert address in offline("state", "list", "--timeout", "3", "--address", address).refused(1)


def test_a_silent_peer_is_given_up(offline: Omnictl) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert address in offline("state", "list", "--address", address, "--timeout", "0.3").refused(1)


def test_a_peer_that_does_not_speak_tls_is_one_line(address: str, tmp_path: Path) -> None:
    ours = authority(tmp_path / "ours")
    command = [sys.executable, "-m", "omnictl", "state", "list", "--address", address, "--tls-ca", str(ours.file)]
    ran = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert ran.returncode == 1
    assert ran.stderr.count(b"\n") == 1, ran.stderr
    assert ran.stderr.startswith(b"omnictl: no decision service answers")


def test_an_option_counts_before_and_after_the_command(offline: Omnictl, address: str) -> None:
    assert offline("--address", address, "--json", "settings", "get").json["effective"]
    with free_port() as port:
        nobody = f"127.0.0.1:{port}"
        assert offline("--address", nobody, "settings", "get", "--address", address).status == 0
        assert offline("settings", "get", "--address", address, **{ADDRESS: nobody}).status == 0
        assert nobody in offline("settings", "get", **{ADDRESS: nobody}).refused(1)


@pytest.mark.parametrize("code", ["INTERNAL", "UNIMPLEMENTED", "DATA_LOSS"])
def test_a_failure_without_details_names_the_request(offline: Omnictl, broken: str, code: str) -> None:
    line = offline("candidates", code, "--address", broken).refused(1)
    assert f"{broken} answered {code}: a text of two lines \\x1b[31m" in line
    assert "request id omnictl-" in line


def test_the_admin_token_and_tls(offline: Omnictl, tmp_path: Path) -> None:
    ours = authority(tmp_path / "ours")
    server = ours.issue("server")
    files = {"OMNIROUTE_TLS_CERT": str(server.cert), "OMNIROUTE_TLS_KEY": str(server.key)}
    with decision_service(tmp_path / "service", OMNIROUTE_ADMIN_TOKEN=TOKEN, **files) as address:
        tls = ("--tls-ca", str(ours.file))
        there = ("settings", "get", "--address", address)
        assert "the admin token is needed" in (refused := offline(*there, *tls).refused(1))
        assert "OMNIROUTE_ADMIN_TOKEN" in refused
        assert offline(*there, *tls, "--token", TOKEN).status == 0
        assert offline(*there, OMNIROUTE_ADMIN_TOKEN=TOKEN, OMNIROUTE_TLS_CA=str(ours.file)).status == 0
        assert offline(*there, *tls, "--token", "another").refused(1)
        assert "no decision service answers" in offline(*there, "--token", TOKEN, "--timeout", "3").refused(1)


def test_settings_that_make_no_sense_are_one_line(offline: Omnictl) -> None:
    assert "TLS_CERT and TLS_KEY" in offline("settings", "get", "--tls-cert", "x.pem").refused(1)
    assert "/nowhere.pem" in offline("settings", "get", "--tls-ca", "/nowhere.pem").refused(1)
    refused = offline("settings", "get", "--token", "gehe\u00efm").refused(2)
    assert "printable ASCII" in refused
    assert "gehe" not in refused


def test_an_argument_that_is_no_utf8_is_wrong_usage(omnictl: Omnictl) -> None:
    assert "not UTF-8" in omnictl("keys", "create", "caf\udce9").refused(2)
    line = omnictl("connections", "add", "groq", "--api-key-env", "GROQ", GROQ="sk-secret-\udce9").refused(2)
    assert "not UTF-8" in line
    assert "sk-secret" not in line


def test_a_pipe_gets_neither_colours_nor_cut_lines(address: str) -> None:
    environ = os.environ | {ADDRESS: address, "COLUMNS": "40", "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "omnictl", "explain", "auto", "--factors"]
    ran = subprocess.run(command, env=environ, capture_output=True, timeout=30, check=True)
    assert b"\x1b" not in ran.stdout
    assert max(map(len, ran.stdout.decode().splitlines())) > 160


def test_completion_and_help_know_every_command(offline: Omnictl) -> None:
    known = "candidates combos connections decide explain keys mappings models overrides settings simulate state up"
    told = offline("--help").out
    assert [name for name in known.split() if f" {name} " not in told] == []
    words = {"_OMNICTL_COMPLETE": "complete_bash", "COMP_WORDS": "omnictl co", "COMP_CWORD": "1"}
    assert offline(**words).out.split() == ["combos", "connections"]


def test_values_are_plain_whatever_they_hold() -> None:
    assert printing.cell("\x1b[2J[bold]x").plain == "\\x1b[2J[bold]x"
    assert printing.short(pb.OutcomeClass.DESCRIPTOR, pb.OUTCOME_CLASS_SUCCESS) == "SUCCESS"
    assert printing.short(pb.OutcomeClass.DESCRIPTOR, 999) == "999"
