"""Decide and Report of a real decision service, beside a bare echo that takes and answers messages of the same sizes.

Both servers stand on one core, in turns; the client has another.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import services
from bench.calls import DECIDE, Client, connect, decide_messages
from bench.figures import Samples, ratio
from bench.load import Pace, Work, measure
from bench.processes import Process, free_ports, listening, running
from omniroute.decision.v1 import decision_pb2

POOLS = (10, 100)
CONCURRENCIES = (1, 64)


async def rpc(pace: Pace, server_core: int, where: Path) -> dict[str, Any]:
    """Figures by pool, load and call."""
    return {f"pool_{pool}": await _of_pool(pool, pace, server_core, where) for pool in POOLS}


async def _of_pool(pool: int, pace: Pace, core: int, where: Path) -> dict[str, Any]:
    ports = free_ports(3)
    with ExitStack() as parts:
        service = parts.enter_context(services.decision_service(pool, ports, {core}, where))
        echo = parts.enter_context(running("bench.echo", (str(ports[2]),), {}, {core}, where))
        await listening(service, ports[1], "/readyz")
        await listening(echo, ports[2])
        bench = _Bench(pace, service, echo, await connect(ports[0]), await connect(ports[2]))
        parts.callback(bench.close)
        return await bench.figures(pool)


class _Bench:
    """Two servers and a client of each."""

    def __init__(self, pace: Pace, service: Process, echo: Process, decisions: Client, echoes: Client) -> None:
        self._pace = pace
        self._service, self._echo = service, echo
        self._decisions, self._echoes = decisions, echoes

    def close(self) -> None:
        self._decisions.close()
        self._echoes.close()

    async def figures(self, pool: int) -> dict[str, Any]:
        message = decide_messages()
        answer = await self._decisions.one(DECIDE, message())
        targets = len(decision_pb2.DecideResponse.FromString(answer).plan.targets)
        if targets != pool:
            raise RuntimeError(f"the plan has {targets} targets, not {pool}")
        found: dict[str, Any] = {"request_bytes": len(message()), "answer_bytes": len(answer)}
        await self._warm(len(answer))
        for concurrency in CONCURRENCIES:
            found[f"at_once_{concurrency}"] = await self._side_by_side(concurrency, len(answer))
        return found

    async def _warm(self, size: int) -> None:
        decided = self._decisions.pairs(decide_messages(), [])
        for work in (self._echoes.calls(f"/bench.Echo/{size}", decide_messages()), decided):
            await measure(work, 64, self._pace.warm_s, Samples(), {})

    async def _side_by_side(self, concurrency: int, size: int) -> dict[str, Any]:
        """In turns, so that noise of the machine falls on all alike."""
        message, reports = decide_messages(), Samples()
        samples: dict[str, Samples] = defaultdict(Samples)
        for _ in range(self._pace.rounds):
            round_reports: list[float] = []
            works: dict[str, tuple[Work, Process]] = {
                "echo": (self._echoes.calls(f"/bench.Echo/{size}", message), self._echo),
                "decide": (self._decisions.calls(DECIDE, message), self._service),
                "decide_and_report": (self._decisions.pairs(message, round_reports), self._service),
            }
            for name, (work, process) in works.items():
                await measure(work, concurrency, self._pace.round_s, samples[name], {"server": process})
            reports.add_round(round_reports, self._pace.round_s)
        found: dict[str, Any] = {name: one.figures() for name, one in samples.items()}
        found["report"] = reports.figures()
        found["decide_to_echo_rate"] = ratio(found["decide"], found["echo"], "per_s")
        found["decide_to_echo_cpu"] = ratio(found["decide"], found["echo"], "server_cpu_us")
        found["decide_to_echo_p50"] = ratio(found["decide"], found["echo"], "p50_us")
        return found
