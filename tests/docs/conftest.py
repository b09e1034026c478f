"""The services as ``make run`` starts them, on ports of their own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

READY_S, STOP_S = 40.0, 20.0
BIN = Path(sys.executable).parent
CLIENTS = ROOT / ".venv-clients" / "bin"  # after the project's own, for what only they have


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that runs. ``ports`` are by the number that a page names."""

    ports: dict[str, int]
    data_dir: Path
    environ: dict[str, str]

    def here(self, text: str) -> str:
        """A block with the ports of these services instead of the usual ones."""
        return re.sub(r"\b(?:20128|5005[12]|5006[12])\b", lambda found: str(self.ports[found[0]]), text)


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """What ``make run`` starts, by its own recipe; only the making of the environment is left out."""
    where = tmp_path_factory.mktemp("services")
    ports = dict(zip(("20128", "50051", "50052", "50061", "50062"), free_ports(5), strict=True))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OMNIROUTE_")}
    environ = {name: value for name, value in clean.items() if not name.endswith(("_KEY", "_TOKEN", "_proxy"))} | {
        "PATH": f"{BIN}:{os.environ['PATH']}:{CLIENTS}",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OMNIROUTE_EDGE_PORT": str(ports["20128"]),
        "OMNIROUTE_DECISION_BIND": f"127.0.0.1:{ports['50051']}",
        "OMNIROUTE_DECISION_ADDRESS": f"127.0.0.1:{ports['50051']}",
        "OMNIROUTE_EXECUTOR_BIND": f"127.0.0.1:{ports['50052']}",
        "OMNIROUTE_DECISION_METRICS_PORT": str(ports["50061"]),
        "OMNIROUTE_EXECUTOR_METRICS_PORT": str(ports["50062"]),
        "OMNIROUTE_DATA_DIR": str(where / "data"),
        "BACKUP_DIR": str(where / "backup"),
    }
    log = where / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["make", "--old-file=.venv/.run-ready", "run"],
            cwd=ROOT,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_until_ready(process, ports["20128"], log)
        yield Services(ports, where / "data", environ)
    finally:
        os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C at a terminal does
        try:
            process.wait(STOP_S)
        finally:
            os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None
    ends = re.findall(r"^(\w+) +\| stopped \((.*)\)$", log.read_text(), re.MULTILINE)
    assert ends == [(name, "status 0") for name in ("edge", "executor", "decision", "demo")]


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()[-2_000:]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise AssertionError(f"not ready within {READY_S:g} s: {log.read_text()[-2_000:]}")
