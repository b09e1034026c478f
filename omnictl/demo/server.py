"""The demo providers as HTTP servers on loopback."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import structlog
from aiohttp import web

from omnictl.demo import wire
from omnictl.demo.answers import Answer, BadBodyError, answer
from omnictl.demo.catalog import PROVIDERS, SEED, DemoProvider, Fault
from service_kit import clock

RETRY_AFTER_S = 15
MAX_BODY_BYTES = 32 * 2**20
CONTENT_LIMIT_S = 5.0

log = structlog.get_logger()


class Provider:
    """One simulated provider; counts its requests, for the script of its faults."""

    def __init__(self, provider: DemoProvider, now: clock.Clock = clock.wall, seed: int = SEED) -> None:
        self._provider = provider
        self._now = now
        self._seed = seed
        self._numbers = itertools.count()

    def application(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._chat)
        return app

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _models(self, _request: web.Request) -> web.Response:
        models = [
            {"id": model.id, "object": "model", "created": 0, "owned_by": self._provider.id}
            for model in self._provider.models
        ]
        return web.json_response({"object": "list", "data": models})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        number = next(self._numbers)
        try:
            body = await request.json()
            ready = answer(self._provider.id, body)
        except (BadBodyError, ValueError) as error:
            return web.json_response(wire.problem(str(error), "invalid_request_error"), status=400)
        model = str(body.get("model"))
        if model not in [known.id for known in self._provider.models]:
            text = f"model {model[:80]!r} is not served here"
            return web.json_response(wire.problem(text, "invalid_request_error", "model_not_found"), status=404)
        await asyncio.sleep(self._provider.first_ms / 1000)
        fault = self._provider.fault(number, self._seed)
        log.info("simulated", provider=self._provider.id, model=model, ends_in=fault or "answer")
        if fault is not None:
            return FAULTS[fault](request)
        identity = {"id": f"chatcmpl-simulated-{number}", "created": int(self._now()), "model": model}
        if body.get("stream"):
            return await self._stream(request, body, identity, ready)
        await asyncio.sleep(len(ready.pieces) * self._provider.word_ms / 1000)
        return web.json_response(wire.completion(identity, ready))

    async def _stream(
        self, request: web.Request, body: Mapping[str, Any], identity: Mapping[str, Any], ready: Answer
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-cache"})
        with suppress(ConnectionError):  # the client left
            await response.prepare(request)
            for chunk in wire.chunks(identity, ready):
                await response.write(chunk)
                await asyncio.sleep(self._provider.word_ms / 1000)
            options = body.get("stream_options")
            if isinstance(options, dict) and options.get("include_usage"):
                await response.write(wire.usage_chunk(identity, ready))
            await response.write(wire.DONE)
            await response.write_eof()
        return response


def _server_error(_request: web.Request) -> web.Response:
    return web.json_response(wire.problem("a demo provider that fails now and then", "server_error"), status=500)


def _rate_limited(_request: web.Request) -> web.Response:
    body = wire.problem("a demo provider that limits you now and then", "rate_limit_error", "rate_limit_exceeded")
    return web.json_response(body, status=429, headers={"retry-after": str(RETRY_AFTER_S)})


def _broken_off(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


FAULTS: Mapping[Fault, Callable[[web.Request], web.Response]] = {
    Fault.SERVER_ERROR: _server_error,
    Fault.RATE_LIMITED: _rate_limited,
    Fault.BROKEN_OFF: _broken_off,
}


async def serve(
    ports: Sequence[int], stop: asyncio.Event, on_ready: Callable[[list[int]], None] = lambda _: None
) -> None:
    """Serve the demo providers until ``stop``, one port each in the order of PROVIDERS; ``on_ready`` gets real ports.

    Raises OSError when a port is taken.
    """
    runners: list[web.AppRunner] = []
    try:
        for provider, port in zip(PROVIDERS, ports, strict=True):
            runner = web.AppRunner(Provider(provider).application(), access_log=None, shutdown_timeout=CONTENT_LIMIT_S)
            runners.append(runner)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", port).start()
        on_ready([runner.addresses[0][1] for runner in runners])
        await stop.wait()
    finally:
        await asyncio.gather(*(runner.cleanup() for runner in runners))
