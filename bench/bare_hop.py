"""The least that a relay behind gRPC does: each call goes out by the executor's HTTP client, and its answer back.

``python -m bench.bare_hop PORT UPSTREAM_PORT``; any method, the message is the body.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import aiohttp
import grpc.aio
import uvloop

from executor.transport.direct import open_session
from executor.transport.port import TransportLimits

CONTENT_TYPE = {"content-type": "application/json"}


class Hop(grpc.GenericRpcHandler):
    """A message for each read of the answer; the whole answer where it has a length."""

    def __init__(self, upstream: str, session: aiohttp.ClientSession) -> None:
        self._upstream = upstream
        self._session = session

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        return grpc.unary_stream_rpc_method_handler(self._relay)  # type: ignore[arg-type]

    async def _relay(self, body: bytes, context: Any) -> None:
        async with self._session.post(self._upstream, data=body, headers=CONTENT_TYPE) as response:
            if response.content_length is not None:
                await context.write(await response.read())
                return
            async for piece in response.content.iter_any():
                await context.write(piece)


async def main(port: int, upstream_port: int) -> None:
    server = grpc.aio.server()
    session = open_session(TransportLimits())
    server.add_generic_rpc_handlers((Hop(f"http://127.0.0.1:{upstream_port}/v1/chat/completions", session),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2])))
