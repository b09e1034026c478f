"""The process's metrics, and a small HTTP server for them and the two probes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge, GCCollector, PlatformCollector, ProcessCollector, exposition

from service_kit.lifecycle import Fatal

CONTENT_TYPE = exposition.CONTENT_TYPE_PLAIN_0_0_4
REQUEST_LIMIT_S = 5.0
MAX_HEAD_BYTES = 8_192

REGISTRY = CollectorRegistry(auto_describe=True)
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)
TASKS = Gauge("omniroute_tasks", "Tasks of the event loop; those that nobody ends show here.", registry=REGISTRY)

Answer = tuple[str, str, bytes]


def render() -> bytes:
    """Every metric of the process in Prometheus' text form (CONTENT_TYPE). Called on the process's loop."""
    TASKS.set(len(asyncio.all_tasks()))
    return exposition.generate_latest(REGISTRY)


class MetricsServer:
    """A listening server; ``port`` is the real one when 0 was asked for."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        self.port: int = server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        await self._server.wait_closed()


async def start_metrics_server(host: str, port: int, ready: Callable[[], bool] = lambda: True) -> MetricsServer:
    """Serve ``/metrics``, ``/healthz`` (the process lives) and ``/readyz`` (``ready()``, else 503).

    It runs on the service's own loop, so that ``/healthz`` fails when that loop hangs. Raises Fatal when it cannot
    listen there.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_LIMIT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_encoded(_answer(head, ready)))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass  # a client that breaks off or talks nonsense gets no answer
        finally:
            writer.close()

    try:
        return MetricsServer(await asyncio.start_server(serve, host, port, limit=MAX_HEAD_BYTES))
    except OSError as error:
        raise Fatal(f"metrics: cannot listen on {host} port {port}: {error.strerror}") from error


def _answer(head: bytes, ready: Callable[[], bool]) -> Answer:
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method != b"GET":
        return "405 Method Not Allowed", "text/plain", b"only GET\n"
    if path == b"/metrics":
        return "200 OK", CONTENT_TYPE, render()
    if path == b"/healthz":
        return "200 OK", "text/plain", b"ok\n"
    if path == b"/readyz":
        return ("200 OK", "text/plain", b"ready\n") if ready() else ("503 Service Unavailable", "text/plain", b"no\n")
    return "404 Not Found", "text/plain", b"allowed: /metrics /healthz /readyz\n"


def _encoded(answer: Answer) -> bytes:
    status, content_type, body = answer
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
