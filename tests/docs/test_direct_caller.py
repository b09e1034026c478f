"""The example of a service with I/O of its own, against a real decision service and two providers."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from omniroute.decision.v1 import decision_pb2 as pb
from omniroute.decision.v1 import decision_pb2_grpc
from omniroute.registry.v1 import registry_pb2, registry_pb2_grpc
from tests.docs import pages
from tests.docs.conftest import free_ports

EXAMPLE = pages.EXAMPLES / "direct_caller.py"
ANSWER = {
    "choices": [{"message": {"role": "assistant", "content": "The sea goes up and down."}}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 7},
}


class Provider(BaseHTTPRequestHandler):
    """Fails or answers, as the first part of the path says."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        broken = self.path.startswith("/broken/") or asked["model"] != "sea"
        body = json.dumps({"error": "broken"} if broken else ANSWER).encode()
        self.send_response(500 if broken else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that it has
        pass


@pytest.fixture
def providers() -> Iterator[str]:
    """The base of both providers' URLs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join(5)


@contextmanager
def decision_service(base: str, where: Path) -> Iterator[str]:
    """Its address; ``auto`` is a stored policy: the broken provider first, then the working one."""
    port, metrics = free_ports(2)
    address = f"127.0.0.1:{port}"
    listed = [
        {"id": name, "base_url": f"{base}/{name}", "models": [{"id": "sea", "input_price": 1.0}]}
        for name in ("broken", "working")
    ]
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "OMNIROUTE_DECISION_BIND": address,
        "OMNIROUTE_DECISION_METRICS_PORT": str(metrics),
        "OMNIROUTE_DATA_DIR": str(where / "data"),
        "OMNIROUTE_DEMO_PROVIDERS": json.dumps(listed),
    }
    with (where / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "decision_service"], env=environ, stdout=log, stderr=log)
    try:
        with grpc.insecure_channel(address) as channel:
            grpc.channel_ready_future(channel).result(timeout=20)
            steps = [registry_pb2.ComboStep(model=f"{name}/sea") for name in ("broken", "working")]
            combo = registry_pb2.Combo(name="auto", strategy="priority", steps=steps)
            request = registry_pb2.CreateComboRequest(combo=combo)
            registry_pb2_grpc.ComboServiceStub(channel).CreateCombo(request, timeout=10)
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0


def test_it_fails_over_and_reports_every_attempt(providers: str, tmp_path: Path) -> None:
    with decision_service(providers, tmp_path) as address:
        done = subprocess.run(
            [sys.executable, str(EXAMPLE), "What", "is", "a", "tide?"],
            env={**os.environ, "OMNIROUTE_DECISION_ADDRESS": address, "NO_PROXY": "*"},
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "The sea goes up and down.\n"), done.stderr
        assert done.stderr == "broken/sea: UPSTREAM_ERROR, 500\n"
        with grpc.insecure_channel(address) as channel:
            stub = decision_pb2_grpc.DecisionServiceStub(channel)
            (record,) = stub.ListDecisions(pb.ListDecisionsRequest(), timeout=5).records
            states = registry_pb2_grpc.StateServiceStub(channel)
            leases = states.ListStates(registry_pb2.ListStatesRequest(kind="lease"), timeout=5).states
            breakers = states.ListStates(registry_pb2.ListStatesRequest(kind="breaker"), timeout=5).states
    first, second = record.outcomes
    assert (first.attempt, first.target_id, first.outcome_class, first.final) == (
        1,
        "1",
        pb.OUTCOME_CLASS_UPSTREAM_ERROR,
        False,
    )
    assert (second.attempt, second.target_id, second.outcome_class, second.final) == (
        2,
        "2",
        pb.OUTCOME_CLASS_SUCCESS,
        True,
    )
    assert second.output_tokens == 7
    assert list(leases) == []
    assert {state.key: state.count for state in breakers} == {"broken": 1, "working": 0}


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (200, json.dumps(ANSWER), "SUCCESS"),
        (200, '{"choices": [{"message": {"content": ""}}]}', "EMPTY"),
        (200, "<html>", "MALFORMED"),
        (200, "[]", "MALFORMED"),
        (200, '{"choices": []}', "MALFORMED"),
        (400, "{}", "INVALID_REQUEST"),
        (401, "{}", "AUTH_FAILED"),
        (404, "{}", "MODEL_NOT_FOUND"),
        (429, "{}", "RATE_LIMITED"),
        (503, "{}", "UPSTREAM_ERROR"),
        (529, "{}", "OVERLOADED"),
    ],
)
def test_a_response_is_judged_by_status_and_content(status: int, body: str, told: str) -> None:
    judge = runpy.run_path(str(EXAMPLE))["judge"]
    response = httpx.Response(status, text=body, headers={"retry-after": "3"})
    outcome, answer = judge(response)
    assert pb.OutcomeClass.Name(outcome.outcome_class) == f"OUTCOME_CLASS_{told}"
    assert bool(answer) is (told == "SUCCESS")
    assert outcome.retry_after_ms == (0 if status == 200 else 3_000)


def test_a_provider_that_is_not_there_is_a_network_failure() -> None:
    call = runpy.run_path(str(EXAMPLE))["call"]
    (port,) = free_ports(1)
    target = pb.Target(provider="gone", model="sea", base_url=f"http://127.0.0.1:{port}", timeout_ms=2_000)
    started = time.monotonic()
    with httpx.Client(trust_env=False) as client:
        outcome, answer = call(client, target, "?")
    assert (outcome.outcome_class, answer) == (pb.OUTCOME_CLASS_NETWORK, "")
    assert time.monotonic() - started < 5
