"""Services as processes of their own, as an operator runs them."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from service_kit import probe

ROOT = Path(__file__).parents[2]
READY_LIMIT_S = 30.0
END_LIMIT_S = 30.0
# Below the ports that the system gives to clients, so that a port stays free while its server is away.
PORTS = range(20_200, 32_000)


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on, and no client gets by chance."""
    chosen: list[int] = []
    for port in random.SystemRandom().sample(PORTS, 200):
        with closing(socket.socket()) as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                attempt.bind(("127.0.0.1", port))
            except OSError:
                continue
        chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise AssertionError("no free ports")


@dataclass
class Service:
    """One service's process; it may be started again, and then finds the same ports and data.

    It is ready when GET ``ready_path`` on ``ready_port`` says so. ``environ`` is all that it sees of the environment.
    """

    module: str
    environ: Mapping[str, str]
    ready_port: int
    log: Path
    ready_path: str = "/readyz"
    process: asyncio.subprocess.Process | None = field(default=None, init=False)

    @property
    def said(self) -> str:
        """All that it wrote, over all its lives."""
        return self.log.read_text(errors="replace")

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    async def spawn(self) -> None:
        """Start it, without waiting until it is ready."""
        environ = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}:{ROOT / 'protos/gen'}", **self.environ}
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", self.module, cwd=ROOT, env=environ, stdout=log, stderr=log
            )

    async def ready(self) -> None:
        async with asyncio.timeout(READY_LIMIT_S):
            while not await probe.says_yes("127.0.0.1", self.ready_port, self.ready_path):
                assert self.process is not None
                assert self.process.returncode is None, f"it ended:\n{self.said[-2000:]}"
                await asyncio.sleep(0.05)

    async def start(self) -> None:
        await self.spawn()
        await self.ready()

    async def kill(self) -> None:
        """As by a lost machine: it gets no chance to end well. Nothing happens when it is not running."""
        if self.process is not None:
            await self._signal(signal.SIGKILL)

    async def terminate(self) -> int:
        """As by an operator; its exit status."""
        return await self._signal(signal.SIGTERM)

    def freeze(self) -> None:
        """It keeps its connections and says nothing more, as on a machine that stands still."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    async def _signal(self, number: signal.Signals) -> int:
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(number)
        async with asyncio.timeout(END_LIMIT_S):
            return await self.process.wait()


def decision_service(data_dir: Path, log: Path, port: int, metrics_port: int, **variables: str) -> Service:
    """A decision service that is not started yet; ``variables`` are whole environment variables."""
    environ = {
        "OMNIROUTE_DECISION_BIND": f"127.0.0.1:{port}",
        "OMNIROUTE_DECISION_METRICS_PORT": str(metrics_port),
        "OMNIROUTE_DATA_DIR": str(data_dir),
        **variables,
    }
    return Service("decision_service", environ, metrics_port, log)
