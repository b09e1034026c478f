"""The baseline of a relay: Starlette and the executor's HTTP client, with nothing between them.

``python -m bench.bare_relay PORT UPSTREAM_PORT``.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import aiohttp
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from executor.transport.direct import open_session
from executor.transport.port import TransportLimits

CONTENT_TYPE = {"content-type": "application/json"}


class Bare:
    """Passes each request on as it is, and its answer back: whole where it has a length, else as it arrives."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._session: aiohttp.ClientSession | None = None

    async def relay(self, request: Request) -> Response:
        if self._session is None:
            self._session = open_session(TransportLimits())
        response = await self._session.post(self._upstream, data=await request.body(), headers=CONTENT_TYPE)
        media_type = response.headers["content-type"]
        if response.content_length is not None:
            return Response(await response.read(), response.status, media_type=media_type)
        return StreamingResponse(_pieces(response), response.status, media_type=media_type)


async def _pieces(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async with response:
        async for piece in response.content.iter_any():
            yield piece


def main(port: int, upstream_port: int) -> None:
    bare = Bare(f"http://127.0.0.1:{upstream_port}/v1/chat/completions")
    app = Starlette(routes=[Route("/v1/chat/completions", bare.relay, methods=["POST"])])
    quiet = {"access_log": False, "log_level": "warning"}
    uvicorn.run(app, port=port, loop="uvloop", http="httptools", timeout_keep_alive=75, **quiet)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
