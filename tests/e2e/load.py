"""Requests at a steady rate, whatever comes of them, and what came of each."""

from __future__ import annotations

import asyncio
import itertools
import math
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field, replace

import aiohttp

from tests.e2e.stack import REQUEST_LIMIT_S, Stack, until

FAILED = 0  # no whole answer came


@dataclass(frozen=True)
class Shot:
    """One request, sent at ``at`` on the loop's clock; ``status`` FAILED when its connection broke.

    ``beside_s`` is what the edge's answer to a probe took that was sent with it: what the machine costs by itself.
    """

    at: float
    took_s: float
    beside_s: float
    status: int
    degraded: bool = False
    decision_id: str = ""
    whole: bool = False

    @property
    def served(self) -> bool:
        return self.status == 200 and self.whole


@dataclass
class Load:
    """While it is open it shoots ``rate`` requests a second at the models in turn, every second one a stream."""

    stack: Stack
    models: Sequence[str]
    rate: float
    api_key: str = ""
    shots: list[Shot] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, http: aiohttp.ClientSession) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.TaskGroup() as group:
            for number in itertools.count():
                await asyncio.sleep(max(0.0, began + number / self.rate - loop.time()))
                if self.over.is_set():
                    break
                group.create_task(self._pair(http, number))

    async def _pair(self, http: aiohttp.ClientSession, number: int) -> None:
        shot, beside_s = await asyncio.gather(self._shoot(http, number), self._probe(http))
        self.shots.append(replace(shot, beside_s=beside_s))

    async def _probe(self, http: aiohttp.ClientSession) -> float:
        began = asyncio.get_running_loop().time()
        with suppress(aiohttp.ClientError):
            async with http.get(f"{self.stack.url}/healthz") as response:
                await response.read()
        return asyncio.get_running_loop().time() - began

    async def _shoot(self, http: aiohttp.ClientSession, number: int) -> Shot:
        loop = asyncio.get_running_loop()
        began = loop.time()
        streams = bool(number % 2)
        body = {
            "model": self.models[number // 2 % len(self.models)],
            "messages": [{"role": "user", "content": "Say hello"}],
            "stream": streams,
        }
        sent = {"authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        try:
            async with http.post(f"{self.stack.url}/v1/chat/completions", json=body, headers=sent) as response:
                said = await response.read()
        except (aiohttp.ClientError, TimeoutError):
            return Shot(began, loop.time() - began, 0.0, FAILED)
        return Shot(
            at=began,
            took_s=loop.time() - began,
            beside_s=0.0,
            status=response.status,
            degraded="x-omniroute-degraded" in response.headers,
            decision_id=response.headers.get("x-omniroute-decision-id", ""),
            whole=said.endswith(b"data: [DONE]\n\n") if streams else b"Hello" in said,
        )

    def between(self, start: float, end: float) -> list[Shot]:
        """Those sent in that time."""
        return [shot for shot in self.shots if start <= shot.at < end]


@asynccontextmanager
async def shooting(stack: Stack, *models: str, rate: float, api_key: str = "") -> AsyncIterator[Load]:
    """Load in the background; at the end every request that was sent is waited for."""
    load = Load(stack, models, rate, api_key)
    limit = aiohttp.ClientTimeout(total=REQUEST_LIMIT_S)
    async with aiohttp.ClientSession(timeout=limit, connector=aiohttp.TCPConnector(limit=0)) as http:
        running = asyncio.create_task(load.run(http))
        try:
            yield load
        finally:
            load.over.set()
            await running


def quantile(values: Iterable[float], share: float) -> float:
    """The value that ``share`` of these do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


async def kept_outcomes(stack: Stack, shots: Iterable[Shot]) -> Counter[str]:
    """How many outcomes are on disk of each shot's decision, once there is one of every shot that was served."""
    wanted = {shot.decision_id for shot in shots if shot.served}

    async def all_there() -> Counter[str] | None:
        with closing(sqlite3.connect(stack.database)) as connection:
            kept = Counter(row[0] for row in connection.execute("SELECT decision_id FROM outcomes"))
        return kept if kept.keys() >= wanted else None

    found: Counter[str] = await until(all_there)
    return Counter({decision_id: found[decision_id] for decision_id in wanted})
