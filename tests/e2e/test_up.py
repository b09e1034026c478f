"""``omnictl up`` as a person runs it, with the demo providers."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import orjson

from service_kit import probe
from tests.decision_service.client import Client
from tests.decision_service.process import ROOT, free_ports
from tests.e2e.stack import until

START_LIMIT_S, STOP_LIMIT_S = 60.0, 40.0


@dataclass
class Launched:
    """The launcher's process and where its services are."""

    process: asyncio.subprocess.Process
    edge_port: int
    decision_port: int
    ports: list[int]
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def children(self) -> dict[str, int]:
        """Process ids by module."""
        pid = self.process.pid
        found = {}
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with suppress(OSError):  # it ended meanwhile
                words = Path(f"/proc/{child}/cmdline").read_text().split("\0")
                if "-m" in words:
                    found[words[words.index("-m") + 1]] = int(child)
        return found

    async def chat(self, model: str) -> httpx.Response:
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}
        async with httpx.AsyncClient(timeout=30) as http:
            return await http.post(f"http://127.0.0.1:{self.edge_port}/v1/chat/completions", json=body)

    async def interrupt(self) -> int:
        """Ctrl-C; the exit status."""
        self.process.send_signal(signal.SIGINT)
        async with asyncio.timeout(STOP_LIMIT_S):
            return await self.process.wait()


@asynccontextmanager
async def launched(folder: Path) -> AsyncIterator[Launched]:
    ports = free_ports(5)
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT}:{ROOT / 'protos/gen'}",
        "OMNIROUTE_DATA_DIR": str(folder / "data"),
        "OMNIROUTE_EDGE_DECIDE_TIMEOUT_MS": "5000",
        "OMNIROUTE_EDGE_PORT": str(ports[0]),
        "OMNIROUTE_DECISION_BIND": f"127.0.0.1:{ports[1]}",
        "OMNIROUTE_EXECUTOR_BIND": f"127.0.0.1:{ports[2]}",
        "OMNIROUTE_DECISION_METRICS_PORT": str(ports[3]),
        "OMNIROUTE_EXECUTOR_METRICS_PORT": str(ports[4]),
    }
    log = folder / "log"
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "omnictl", "up", cwd=ROOT, env=environ, stdout=out, stderr=out
        )
    started = Launched(process, ports[0], ports[1], ports, log)
    try:
        yield started
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_up_serves_fails_over_heals_and_stops(tmp_path: Path) -> None:
    async with launched(tmp_path) as up:
        await until(lambda: probe.says_yes("127.0.0.1", up.edge_port, "/readyz"), START_LIMIT_S)
        first = await up.chat("auto")
        assert first.status_code == 200
        assert "simulated" in first.text
        await until(lambda: _said(up, "OmniRoute is ready"))
        await fails_over(up)
        await heals(up)
        pids = up.children()
        assert set(pids) == {"omnictl.demo", "decision_service", "executor", "edge_gateway"}
        assert await up.interrupt() == 0
        assert not [pid for pid in pids.values() if alive(pid)]
        assert not [port for port in up.ports if not probe.is_free("127.0.0.1", port)]
        assert "Traceback" not in up.said


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def _said(up: Launched, words: str) -> bool:
    return words in up.said


async def fails_over(up: Launched) -> None:
    """The flaky demo provider fails now and then; nobody notices but by the number of attempts."""
    client = Client(f"127.0.0.1:{up.decision_port}")
    try:
        await client.add_combo("tour", ["demo-flaky/demo-flaky-1", "demo-fast/demo-fast-1"])
    finally:
        await client.close()
    answers = [await up.chat("tour") for _ in range(8)]
    assert [answer.status_code for answer in answers] == [200] * 8
    wasted = [answer for answer in answers if int(answer.headers["x-omniroute-attempts"]) > 1]
    assert wasted
    assert {answer.headers["x-omniroute-provider"] for answer in wasted} == {"demo-fast"}
    assert all("simulated" in orjson.loads(answer.content)["choices"][0]["message"]["content"] for answer in answers)


async def heals(up: Launched) -> None:
    """A killed child is started again, each of them in turn."""
    for module in ("executor", "decision_service", "edge_gateway"):
        old = up.children()[module]
        os.kill(old, signal.SIGKILL)

        async def answers(module: str = module, old: int = old) -> bool:
            if up.children().get(module, old) == old:
                return False
            try:
                return (await up.chat("auto")).status_code == 200
            except httpx.TransportError:
                return False

        await until(answers, START_LIMIT_S)
