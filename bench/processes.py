"""The processes that are measured: started on cores of their own, stopped when the run ends, however it ends."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from service_kit import probe

READY_S = 30.0
STOP_S = 10.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class Process:
    """A started child; its output is in ``log``."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def cpu_s(self) -> float:
        """Seconds of CPU that it has used so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def last_words(self) -> str:
        return f"{self._log.stem}: {self._log.read_text()[-2_000:]}"

    def check(self) -> None:
        """Raises RuntimeError with its last words when it has ended."""
        if self._process.poll() is not None:
            raise RuntimeError(f"it ended: {self.last_words()}")

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def running(
    module: str, arguments: Sequence[str], environ: Mapping[str, str], cores: set[int], where: Path
) -> Iterator[Process]:
    """``python -m module`` on some cores, with nothing of this process's environment but the path."""
    log = where / f"{module}.log"
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "PYTHONPATH") if name in os.environ}

    def arrange() -> None:
        os.sched_setaffinity(0, cores)
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # a killed benchmark leaves nothing behind

    with log.open("wb") as output:
        started = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            env={**inherited, **environ},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=arrange,  # noqa: PLW1509 - there are no threads here
        )
    process = Process(started, log)
    try:
        yield process
    finally:
        process.stop()


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on now."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


async def listening(process: Process, port: int, path: str = "") -> None:
    """Waits until ``GET path`` answers 200, or without one until the port takes connections.

    Raises RuntimeError when the process ends first, or is late.
    """
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        process.check()
        if await (probe.says_yes("127.0.0.1", port, path) if path else _takes_connections(port)):
            return
        await asyncio.sleep(0.05)
    raise RuntimeError(f"nothing answered on port {port} within {READY_S:g} s")


async def _takes_connections(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
