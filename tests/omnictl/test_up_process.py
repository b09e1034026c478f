"""``omnictl up`` for real: every service as a process of its own, with the demo providers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path

import httpx
import openai
import pytest

from omnictl import up

MODULES = {"demo": "omnictl.demo", "decision": "decision_service", "executor": "executor", "edge": "edge_gateway"}


@dataclass(frozen=True)
class Stack:
    """A running launcher and where its edge is."""

    launcher: subprocess.Popen[str]
    edge_port: int
    log: Path
    banner: str

    def client(self) -> openai.OpenAI:
        return openai.OpenAI(
            api_key="none", base_url=f"http://127.0.0.1:{self.edge_port}/v1", timeout=20, max_retries=0
        )

    def pid(self, child: str) -> int:
        """Of a child that runs now; raises StopIteration when it does not."""
        return next(pid for pid in self.pids() if command(pid)[-1] == MODULES[child])

    def has_told(self, text: str) -> bool:
        return text in self.log.read_text()

    def runs_without(self, pid: int) -> bool:
        return pid not in self.pids() and len(self.pids()) == len(MODULES)

    def pids(self) -> list[int]:
        children = Path(f"/proc/{self.launcher.pid}/task/{self.launcher.pid}/children").read_text()
        return [int(pid) for pid in children.split()]


def command(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().strip("\0").split("\0")
    return [""]


def eventually(condition: Callable[[], bool], limit_s: float, told: str) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, told
        time.sleep(0.05)


def environ(data: Path) -> dict[str, str]:
    """No provider keys, free ports, data of its own."""
    decision, decision_metrics, executor, executor_metrics, edge = up.free_ports(5)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | {
        "OMNIROUTE_DATA_DIR": str(data),
        "OMNIROUTE_DECISION_BIND": f"127.0.0.1:{decision}",
        "OMNIROUTE_DECISION_METRICS_PORT": str(decision_metrics),
        "OMNIROUTE_EXECUTOR_BIND": f"127.0.0.1:{executor}",
        "OMNIROUTE_EXECUTOR_METRICS_PORT": str(executor_metrics),
        "OMNIROUTE_EDGE_PORT": str(edge),
    }


def launch(settings: dict[str, str], log: Path) -> subprocess.Popen[str]:
    with log.open("w") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", "omnictl", "up"], env=settings, stdout=subprocess.PIPE, stderr=errors, text=True
        )


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    settings = environ(tmp_path / "data")
    launcher = launch(settings, tmp_path / "log")
    try:
        assert launcher.stdout is not None
        lines = list(takewhile(lambda line: not line.startswith("Ctrl-C"), launcher.stdout))
        yield Stack(launcher, int(settings["OMNIROUTE_EDGE_PORT"]), tmp_path / "log", "".join(lines))
    finally:
        launcher.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            launcher.wait(15)
        launcher.kill()


def ask(client: openai.OpenAI) -> tuple[str, int]:
    """The answer, and after how many attempts it came."""
    answer = client.chat.completions.with_raw_response.create(
        model="auto", messages=[{"role": "user", "content": "Hello"}], max_tokens=20
    )
    return answer.parse().choices[0].message.content or "", int(answer.headers["x-omniroute-attempts"])


def test_the_first_requests_are_answered_and_failover_is_seen(stack: Stack) -> None:
    assert f"http://127.0.0.1:{stack.edge_port}/v1" in stack.banner
    assert "simulated" in stack.banner
    assert httpx.get(f"http://127.0.0.1:{stack.edge_port}/readyz", trust_env=False).status_code == 200
    with stack.client() as client:
        answers = [ask(client) for _ in range(4)]
    assert all(text.startswith("[simulated answer from demo-") for text, _ in answers)
    assert answers[0][1] == 1
    assert max(attempts for _, attempts in answers) > 1


def test_a_killed_child_comes_back_and_requests_are_served(stack: Stack) -> None:
    def answered() -> bool:
        with contextlib.suppress(openai.APIError), stack.client() as client:
            return ask(client)[0].startswith("[simulated")
        return False

    for child in ("edge", "executor", "decision"):
        before = stack.pid(child)
        os.kill(before, signal.SIGKILL)
        eventually(partial(stack.has_told, f"{child:<8} | ended (signal 9)"), 5, "its end is not told")
        eventually(partial(stack.runs_without, before), 5, "it is not started again")
        eventually(answered, 20, stack.log.read_text())


def test_ctrl_c_stops_everything_in_order(stack: Stack) -> None:
    pids = stack.pids()
    assert len(pids) == 4
    stack.launcher.send_signal(signal.SIGINT)
    assert stack.launcher.wait(20) == 0
    stopped = [line.split()[0] for line in stack.log.read_text().splitlines() if line.endswith("stopped (status 0)")]
    assert stopped == ["edge", "executor", "decision", "demo"]
    assert "Traceback" not in stack.log.read_text()
    assert not any(command(pid)[-1] in MODULES.values() for pid in pids)


def test_a_killed_launcher_leaves_nobody_behind(stack: Stack) -> None:
    pids = stack.pids()
    stack.launcher.kill()
    eventually(
        lambda: not any(command(pid)[-1] in MODULES.values() for pid in pids), 15, "a child outlives its launcher"
    )


def test_a_taken_port_is_told_with_the_setting_that_moves_it(tmp_path: Path) -> None:
    settings = environ(tmp_path / "data")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings["OMNIROUTE_EDGE_PORT"] = str(taken.getsockname()[1])
        launcher = launch(settings, tmp_path / "log")
        assert launcher.wait(15) == 1
    told = (tmp_path / "log").read_text()
    assert told.startswith(f"port {settings['OMNIROUTE_EDGE_PORT']} on 127.0.0.1, where edge would listen, is in use")
    assert "OMNIROUTE_EDGE_PORT" in told
    assert len(told.splitlines()) == 1
    assert not (tmp_path / "data").exists()


def test_bad_settings_are_told_in_one_line(tmp_path: Path) -> None:
    launcher = launch(environ(tmp_path) | {"OMNIROUTE_DEMO": "perhaps"}, tmp_path / "log")
    assert launcher.wait(15) == 2
    assert (tmp_path / "log").read_text() == "OMNIROUTE_DEMO: got 'perhaps'; allowed: auto | always | never\n"
