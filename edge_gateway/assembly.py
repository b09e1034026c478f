"""The only place where the edge's parts meet."""

from __future__ import annotations

import asyncio
import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import structlog
import uvicorn

from edge_gateway.app import routes
from edge_gateway.auth import NO_KEYS_YET, Gate
from edge_gateway.clients import Services
from edge_gateway.completion import House
from edge_gateway.fallback import Decider
from edge_gateway.front import Front
from edge_gateway.http_protocol import bounded
from edge_gateway.json_body import BodyLimits
from edge_gateway.key_turns import KeyTurns
from edge_gateway.patience import Patience
from edge_gateway.probes import Probes
from edge_gateway.report import OutcomeQueue
from edge_gateway.settings import Settings
from service_kit import clock
from service_kit import log as logs
from service_kit.errors import ServiceError
from service_kit.settings import SettingsError, read

KEY_CHECKS, KEY_CHECK_PAUSE_S = 10, 1.0
# What the drain leaves over has a moment more, and is then cancelled.
LAST_MOMENT_S = 1
# Cancelled requests still put their outcomes into the queue, and the queue still delivers them.
CANCEL_GRACE_S, REPORT_GRACE_S = 1.0, 3.0

log = structlog.get_logger()


async def main(environ: Mapping[str, str], stop: asyncio.Event) -> None:
    """Serve until ``stop`` is set. Raises SettingsError for settings that cannot be served with."""
    settings = read(Settings, environ)
    logs.configure("edge", settings.log_level, settings.log_json)
    async with Edge(settings) as edge:
        log.info("serving", host=settings.edge_host, port=edge.port)
        await stop.wait()
        log.info("draining")


class Edge:
    """The running gateway: an async context manager; ``port`` is the real one when 0 was asked for."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.port = 0

    async def __aenter__(self) -> Edge:
        settings = self._settings
        self._services = Services(settings)
        self._outcomes = OutcomeQueue(self._services.report, settings.edge_report_queue)
        patience = Patience(time.monotonic)
        gate = Gate(
            self._services.authenticate,
            loopback_only=settings.loopback_only,
            patience=patience,
            patience_s=settings.edge_decide_timeout_ms / 1000,
            clock=time.monotonic,
            wall=clock.wall,
        )
        try:
            self._services.connect()
            if not settings.loopback_only:
                await refuse_open_house(gate)
            listener = _listen(settings)
        except BaseException:
            await self._services.close()
            raise
        self.port = listener.getsockname()[1]
        self._probes = Probes(lambda: checks(self._services, gate), time.monotonic)
        self._outcomes.start()
        self._server = _Server(self._config(gate, patience))
        self._serving = asyncio.create_task(self._server.serve([listener]), name="http server")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Refuse what is new, let requests end, deliver their outcomes; each for a bounded time.

        The port is listened on until the requests have ended: whoever still sends here is told to try again.
        """
        self._probes.draining = True
        await self._front.drained(max(0.0, self._settings.edge_drain_ms / 1000 - LAST_MOMENT_S))
        self._server.should_exit = True
        await self._serving
        if self._server.server_state.tasks:
            await asyncio.wait(self._server.server_state.tasks, timeout=CANCEL_GRACE_S)
        await self._outcomes.stop(REPORT_GRACE_S)
        await self._services.close()

    def _config(self, gate: Gate, patience: Patience) -> uvicorn.Config:
        settings = self._settings
        limits = BodyLimits(
            settings.edge_max_body_bytes,
            idle_s=settings.edge_body_idle_timeout_ms / 1000,
            total_s=settings.edge_body_timeout_ms / 1000,
        )
        house = House(
            self._services,
            Decider(self._services.decide, settings.edge_decide_timeout_ms / 1000, patience, time.monotonic),
            gate,
            self._outcomes,
            limits,
            KeyTurns(settings.edge_max_concurrent_per_key),
            settings.edge_request_timeout_ms / 1000,
            time.monotonic,
        )
        self._front = Front(
            routes(house, self._probes),
            max_concurrent=settings.edge_max_concurrent,
            access_log=settings.edge_access_log,
            clock=time.monotonic,
            new_id=lambda: uuid.uuid4().hex,
        )
        return uvicorn.Config(
            self._front,
            http=bounded(
                max_head_bytes=settings.edge_max_head_bytes,
                head_timeout_s=settings.edge_head_timeout_ms / 1000,
                write_timeout_s=settings.edge_write_timeout_ms / 1000,
            ),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=max(1, settings.edge_keep_alive_ms // 1000),
            timeout_graceful_shutdown=min(LAST_MOMENT_S, settings.edge_drain_ms // 1000),
        )


class _Server(uvicorn.Server):
    """Leaves signals to the process's own handlers."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def refuse_open_house(gate: Gate) -> None:
    """Raise SettingsError when anybody could use the gateway: it listens beyond this machine and there is no key.

    An unreachable registry does not stop the start: no anonymous caller is served on such an address at any time.
    """
    for _ in range(KEY_CHECKS):
        try:
            if await gate.keys_exist():
                return
            raise SettingsError(f"OMNIROUTE_EDGE_HOST: {NO_KEYS_YET}")
        except ServiceError as error:
            log.warning("cannot ask whether API keys exist", detail=error.message)
            await asyncio.sleep(KEY_CHECK_PAUSE_S)


async def checks(services: Services, gate: Gate) -> dict[str, str]:
    """What a request needs, each ``ok`` or why not."""
    found = await services.health()
    if found["decision"] == "ok":
        found["identity"] = await gate.standing()
    return found


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.edge_host else socket.AF_INET
    host = settings.edge_host.strip("[]")
    try:
        return socket.create_server((host, settings.edge_port), family=family, backlog=2048)
    except OSError as error:
        raise SettingsError(
            f"OMNIROUTE_EDGE_HOST and OMNIROUTE_EDGE_PORT: cannot listen on {host} port {settings.edge_port}: "
            f"{error.strerror}; allowed: a local address and a free port"
        ) from None
