"""The baseline: a gRPC server that only answers. ``python -m bench.echo PORT``; method ``/bench.Echo/SIZE``."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import grpc.aio
import uvloop


class Echo(grpc.GenericRpcHandler):
    """Answers as many bytes as the method's name says, whatever it is sent."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        answer = b"x" * int(handler_call_details.method.rpartition("/")[2])

        async def call(_request: bytes, _context: Any) -> bytes:
            return answer

        return grpc.unary_unary_rpc_method_handler(call)


async def main(port: int) -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Echo(),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
