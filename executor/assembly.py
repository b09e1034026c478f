"""Where the executor's parts meet."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from executor.attempt import Limits, Means
from executor.credentials import Credentials
from executor.drain import Drain
from executor.gate import Gates, QueueLimits
from executor.registry import GrpcRegistry
from executor.servicer import ExecutorServicer
from executor.settings import Settings
from executor.transport import TRANSPORTS
from executor.transport.port import TransportLimits
from omniroute.executor.v1 import executor_pb2, executor_pb2_grpc
from service_kit import clock, metrics, tls
from service_kit.grpc_client import Balancing, open_channel
from service_kit.grpc_server import GrpcServer, start_server

MIB = 2**20
LAST_WORDS_S = 2.0  # after the grace, for outcomes and error events to go out
SERVICE = executor_pb2.DESCRIPTOR.services_by_name["ExecutorService"].full_name

log = structlog.get_logger()


async def serve(
    settings: Settings, environ: Mapping[str, str], stop: asyncio.Event, started: asyncio.Future[int] | None = None
) -> None:
    """Serve until ``stop``, then let open executions end within the grace. ``started`` gets the port."""
    files = tls.from_paths(settings.tls_cert, settings.tls_key, settings.tls_ca)
    channel = open_channel(settings.decision_address, files, balancing=Balancing.IN_ORDER)
    transport = TRANSPORTS[settings.upstream_transport](transport_limits(settings))
    registry = GrpcRegistry(channel, settings.executor_token, settings.credential_timeout_s)
    credentials = Credentials(registry, environ, asyncio.get_running_loop().time)
    gates = Gates(queue_limits(settings))
    means = Means(transport, credentials, Drain(), clock.wall, gates, attempt_limits(settings))
    servicer = ExecutorServicer(means, settings.executor_max_executions)
    server = await start_server(
        settings.executor_bind,
        lambda server: executor_pb2_grpc.add_ExecutorServiceServicer_to_server(servicer, server),
        (SERVICE,),
        tls=files,
        max_connection_age_s=settings.max_connection_age_s or None,
    )
    metrics_server = await metrics.start_metrics_server(
        settings.executor_metrics_host, settings.executor_metrics_port, ready=lambda: not stop.is_set()
    )
    log.info("serving", port=server.port, transport=settings.upstream_transport)
    if started is not None:
        started.set_result(server.port)
    try:
        await stop.wait()
        servicer.refuse()
        await _drained(server, means.drain, settings.executor_grace_s)
    finally:
        await metrics_server.stop()
        await transport.close()
        await channel.close()
    log.info("stopped")


async def _drained(server: GrpcServer, drain: Drain, grace_s: float) -> None:
    end = asyncio.get_running_loop().call_later(grace_s, drain.end)
    await server.stop(grace_s + LAST_WORDS_S)
    end.cancel()


def queue_limits(settings: Settings) -> QueueLimits:
    return QueueLimits(
        calls_per_host=settings.upstream_calls_per_host,
        queue_per_host=settings.upstream_queue_per_host,
        queue_per_connection=settings.upstream_queue_per_connection,
        timeout_s=settings.upstream_queue_timeout_s,
    )


def transport_limits(settings: Settings) -> TransportLimits:
    return TransportLimits(
        connect_timeout_s=settings.upstream_connect_timeout_s,
        keepalive_s=settings.upstream_keepalive_s,
        ca_file=settings.upstream_ca,
        proxy=settings.upstream_proxy,
    )


def attempt_limits(settings: Settings) -> Limits:
    return Limits(
        max_answer_bytes=settings.upstream_max_answer_mb * MIB,
        max_event_bytes=settings.upstream_max_event_mb * MIB,
        stall_s=settings.upstream_stall_s,
    )
