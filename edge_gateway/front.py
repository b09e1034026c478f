"""Around every request: an id, a place in the house, the last word on errors, one line in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import structlog
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from edge_gateway import headers, metrics, problems
from edge_gateway.exchange import HUNG_UP, KEY, Exchange
from edge_gateway.json_body import Hangup
from edge_gateway.problems import HIDDEN, Problem, Refused
from service_kit import calls
from service_kit.errors import ServiceError

# Served even when the house is full, and not worth a line in the log.
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})

log = structlog.get_logger()


class Front:
    """The outermost ASGI application. ``clock`` is monotonic, in seconds; ``new_id`` makes request ids."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        max_concurrent: int,
        access_log: bool,
        clock: Callable[[], float],
        new_id: Callable[[], str],
    ) -> None:
        self._app = app
        self._max_concurrent = max_concurrent
        self._access_log = access_log
        self._clock = clock
        self._new_id = new_id
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_stopping = False

    async def drained(self, limit_s: float) -> None:
        """Refuse every request from now on, and wait for those in flight to end, for at most ``limit_s``."""
        self._is_stopping = True
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._idle.wait()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served here")
        exchange = self._open(scope, send)
        if scope["path"] in PROBES:
            await self._serve(exchange, scope, receive)
            return
        self._in_flight += 1
        self._idle.clear()
        metrics.IN_FLIGHT.set(self._in_flight)
        try:
            if self._is_stopping:
                await exchange.refuse(problems.stopping())
            elif self._in_flight > self._max_concurrent:
                metrics.REFUSED_BUSY.inc()
                await exchange.refuse(problems.too_busy())
            else:
                await self._serve(exchange, scope, receive)
        finally:
            self._in_flight -= 1
            metrics.IN_FLIGHT.set(self._in_flight)
            self._record(exchange, scope)
            if not self._in_flight:
                self._idle.set()

    def _open(self, scope: Scope, send: Send) -> Exchange:
        incoming = headers.incoming(scope)
        exchange = Exchange(self._new_id(), self._clock(), self._clock, send)
        exchange.render = problems.render_for(scope["path"], incoming)
        exchange.client_request_id = headers.well_formed_id(incoming.get("x-request-id", ""))
        trace = incoming.get("traceparent", "")
        calls.CURRENT.set(calls.received(((calls.REQUEST_ID, exchange.request_id), (calls.TRACEPARENT, trace))))
        scope[KEY] = exchange
        scope["app"] = self  # makes the router raise its 404 and 405 instead of answering them in plain text
        return exchange

    async def _serve(self, exchange: Exchange, scope: Scope, receive: Receive) -> None:
        try:
            await self._app(scope, receive, exchange.forward)
        except Hangup:
            metrics.HANGUPS.inc()
            exchange.status, exchange.outcome = HUNG_UP, "client_gone"
        except asyncio.CancelledError:  # the drain is over; nobody waits for this task any more
            await exchange.refuse(problems.stopping())
        except Exception as error:  # noqa: BLE001 - the edge of the process
            await exchange.refuse(_problem(error, scope))

    def _record(self, exchange: Exchange, scope: Scope) -> None:
        route = getattr(scope.get("route"), "path", "other")
        metrics.REQUESTS.labels(route, exchange.status).inc()
        metrics.REQUEST_SECONDS.labels(route).observe(exchange.elapsed_s)
        if self._access_log:
            log.info(
                "request",
                method=scope["method"],
                path=scope["path"][:500],
                status=exchange.status,
                ms=round(1000 * exchange.elapsed_s, 1),
                bytes=exchange.bytes_out,
                model=exchange.model,
                stream=exchange.stream,
                decision_id=exchange.decision_id,
                degraded=exchange.degraded,
                provider=exchange.provider,
                attempts=exchange.attempts,
                outcome=exchange.outcome,
                client_request_id=exchange.client_request_id,
            )


def _problem(error: Exception, scope: Scope) -> Problem:
    match error:
        case Refused():
            return error.problem
        case ServiceError():
            if error.reason in HIDDEN:
                log.warning("service failed", reason=error.reason.value, detail=error.message)
            return problems.of_error(error)
        case HTTPException(status_code=404):
            return problems.no_route(scope["path"])
        case HTTPException(status_code=405):
            return problems.no_method(scope["method"], scope["path"], (error.headers or {}).get("Allow", ""))
        case _:
            log.error("unexpected error", path=scope["path"], exc_info=error)
            return problems.INTERNAL
