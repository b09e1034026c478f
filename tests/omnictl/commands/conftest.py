"""The command line as a person runs it, against a decision service that runs as a process of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from omnictl.__main__ import main

START_LIMIT_S, STOP_LIMIT_S = 30.0, 15.0
ADDRESS = "OMNIROUTE_DECISION_ADDRESS"


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.status == 0, self.err
        return json.loads(self.out)

    def refused(self, status: int) -> str:
        """The one line on standard error."""
        assert self.status == status, (self.out, self.err)
        assert self.err.startswith("omnictl: ")
        assert self.err.count("\n") == 1
        assert "Traceback" not in self.err
        return self.err


@dataclass(frozen=True)
class Omnictl:
    """Runs commands in this process, with an environment of their own."""

    environ: dict[str, str] = field(default_factory=dict)

    def __call__(self, *arguments: str, stdin: str | bytes = "", **environ: str) -> Ran:
        out, err, given = stream(), stream(), stream(stdin if isinstance(stdin, bytes) else stdin.encode())
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            for name in [name for name in os.environ if name.startswith("OMNIROUTE_")]:
                patch.delenv(name)
            for name, value in (self.environ | environ).items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["omnictl", *arguments])
            patch.setattr(sys, "stdin", given)
            try:
                main()
                status = 0
            except SystemExit as end:
                status = int(end.code or 0)
        return Ran(status, written(out), written(err))


def stream(content: bytes = b"") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", write_through=True)


def written(text: io.TextIOWrapper) -> str:
    text.flush()
    assert isinstance(text.buffer, io.BytesIO)
    return text.buffer.getvalue().decode()


@contextlib.contextmanager
def decision_service(folder: Path, **environ: str) -> Iterator[str]:
    """A running decision service on a free port; its address."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OMNIROUTE_")}
    own = {
        "OMNIROUTE_DECISION_BIND": "127.0.0.1:0",
        "OMNIROUTE_DECISION_METRICS_PORT": "0",
        "OMNIROUTE_DATA_DIR": str(folder / "data"),
        "OMNIROUTE_LOG_JSON": "true",
        **environ,
    }
    log = folder / "log"
    with (
        log.open("wb") as sink,
        subprocess.Popen(
            [sys.executable, "-m", "decision_service"], env=kept | own, stdout=sink, stderr=sink
        ) as process,
    ):
        try:
            yield f"127.0.0.1:{port_of(process, log)}"
        finally:
            process.terminate()
            try:
                process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()


def port_of(process: subprocess.Popen[bytes], log: Path) -> int:
    """The port that the service says it serves on."""
    until = time.monotonic() + START_LIMIT_S
    while time.monotonic() < until and process.poll() is None:
        for line in log.read_text().splitlines():
            if '"event":"serving"' in line:
                return int(json.loads(line)["port"])
        time.sleep(0.05)
    raise AssertionError(log.read_text())


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with two accounts, which the tests leave as they are."""
    with decision_service(tmp_path_factory.mktemp("decision")) as at:
        omnictl = Omnictl({ADDRESS: at, "OPENAI_TEST_KEY": "sk-a-secret-of-openai"})
        openai = ("connections", "add", "openai", "--id", "oa1", "--api-key-env", "OPENAI_TEST_KEY", "--tier", "pro")
        assert omnictl(*openai, "--model", "gpt-4o", "--model", "gpt-4o-mini").status == 0
        anthropic = ("connections", "add", "anthropic", "--id", "an1", "--model", "claude-sonnet-4-6")
        assert omnictl(*anthropic, "--reference", "env:ANTHROPIC_TEST_KEY").status == 0
        yield at


@pytest.fixture
def omnictl(address: str) -> Omnictl:
    """Commands against that service."""
    return Omnictl({ADDRESS: address})


@pytest.fixture
def offline() -> Omnictl:
    """Commands without a service."""
    return Omnictl()
