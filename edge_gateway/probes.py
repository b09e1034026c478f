"""What orchestrators and monitoring ask: alive, ready, figures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response

from edge_gateway.models import as_json
from service_kit import metrics

FRESH_S = 1.0
RETRY_S = 0.1

Health = Callable[[], Awaitable[Mapping[str, str]]]


class Probes:
    """``health`` answers ``ok`` or why not, by what it checked; it is asked once a second at most, and more often while
    something is not ready.

    ``clock`` is monotonic, in seconds.
    """

    def __init__(self, health: Health, clock: Callable[[], float]) -> None:
        self._health = health
        self._clock = clock
        self._lock = asyncio.Lock()
        self._checks: Mapping[str, str] = {}
        self._fresh_until = 0.0
        self.draining = False

    async def alive(self, _request: Request) -> Response:
        """``GET /healthz``: the process serves."""
        return as_json({"status": "ok"})

    async def ready(self, _request: Request) -> Response:
        """``GET /readyz``: the services that a request needs answer."""
        if self.draining:
            return as_json({"ready": False, "checks": {"edge": "draining"}}, 503)
        async with self._lock:
            if self._clock() >= self._fresh_until:
                self._checks = await self._health()
                self._fresh_until = self._clock() + (FRESH_S if self._all_well() else RETRY_S)
        ready = self._all_well()
        return as_json({"ready": ready, "checks": dict(self._checks)}, 200 if ready else 503)

    def _all_well(self) -> bool:
        return all(check == "ok" for check in self._checks.values())

    async def figures(self, _request: Request) -> Response:
        """``GET /metrics``."""
        return Response(metrics.render(), media_type=metrics.CONTENT_TYPE)
