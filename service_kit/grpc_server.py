"""A gRPC server with everything a service needs around its servicers: health, reflection, errors, ids, metrics, TLS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from service_kit import tls as tls_files
from service_kit.grpc_client import KEEPALIVE_MS, KEEPALIVE_TIMEOUT_MS, MAX_MESSAGE_BYTES
from service_kit.grpc_health import Health
from service_kit.grpc_observed import observed
from service_kit.lifecycle import Fatal

Register = Callable[[grpc.aio.Server], None]


class GrpcServer:
    """A started server. ``port`` is the real one when 0 was asked for; ``health`` sets the status by service."""

    def __init__(self, server: grpc.aio.Server, port: int, health_servicer: Health) -> None:
        self._server = server
        self.port = port
        self.health = health_servicer

    async def stop(self, grace: float) -> None:
        """Report NOT_SERVING, take no new calls; those in flight have ``grace`` seconds before they are cancelled."""
        await self.health.leave()
        self.health.end_watches()
        await self._server.stop(grace)


async def start_server(
    address: str,
    register: Register,
    services: Sequence[str],
    *,
    tls: tls_files.TlsFiles | None = None,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
    max_connection_age_s: float | None = None,
) -> GrpcServer:
    """Serve what ``register`` adds (``add_...Servicer_to_server``) at ``host:port``; Fatal if it cannot listen there.

    ``services`` are the full names that health and reflection tell of. A servicer's method may be async, or plain: a
    plain one runs on the loop and must not block. A method refuses a call by raising ServiceError.
    ``max_connection_age_s`` makes clients reconnect, so that they find new replicas (open streams get another hour).
    """
    server = grpc.aio.server(options=_options(max_message_bytes, max_connection_age_s))
    register(cast(grpc.aio.Server, _ObservedRegistration(server)))
    health_servicer = Health()
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
    reflection.enable_server_reflection([*services, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
    port = _listen(server, address, tls)
    await server.start()
    for service in ("", *services):
        await health_servicer.set(service, health_pb2.HealthCheckResponse.SERVING)
    return GrpcServer(server, port, health_servicer)


def _listen(server: grpc.aio.Server, address: str, tls: tls_files.TlsFiles | None) -> int:
    credentials = tls_files.server_credentials(tls) if tls else None
    try:
        return server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
    except RuntimeError as error:
        raise Fatal(f"gRPC: cannot listen on {address}; allowed: a local address and a free port") from error


class _ObservedRegistration:
    """Stands in for the server while servicers register, and wraps each method once.

    Interceptors would do the same for every call: an extra coroutine and a new handler object each time. Generated code
    registers each method in both ways; one is enough.
    """

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server

    def add_registered_method_handlers(
        self, service_name: str, method_handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]]
    ) -> None:
        wrapped = {name: observed(f"{service_name}/{name}", handler) for name, handler in method_handlers.items()}
        self._server.add_registered_method_handlers(service_name, wrapped)

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        pass


def _options(max_message_bytes: int, max_connection_age_s: float | None) -> list[tuple[str, int]]:
    options = [
        ("grpc.so_reuseport", 0),  # a second process on the same port is an error, not a silent share of the calls
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.keepalive_time_ms", 2 * KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
        ("grpc.keepalive_permit_without_calls", 1),
    ]
    if max_connection_age_s is not None:
        options += [
            ("grpc.max_connection_age_ms", round(1000 * max_connection_age_s)),
            ("grpc.max_connection_age_grace_ms", 3_600_000),
        ]
    return options
