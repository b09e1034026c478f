"""Channels to the services of the system, with one set of limits."""

from __future__ import annotations

import json

import grpc.aio

from service_kit import tls as tls_files

MAX_MESSAGE_BYTES = 32 * 2**20
KEEPALIVE_MS = 20_000
CONNECT_TIMEOUT_MS = 2_000  # what this option of gRPC means: a busy server may take its time over a connection

# round_robin spreads the calls over every address behind a name; the default pins a client to one replica.
SERVICE_CONFIG = json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})


def open_channel(
    address: str, tls: tls_files.TlsFiles | None = None, *, max_message_bytes: int = MAX_MESSAGE_BYTES
) -> grpc.aio.Channel:
    """A channel to ``host:port`` or ``dns:///name:port``; connects at the first call. The caller closes it."""
    options = (
        ("grpc.service_config", SERVICE_CONFIG),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", CONNECT_TIMEOUT_MS),
        ("grpc.max_reconnect_backoff_ms", 500),
        ("grpc.dns_min_time_between_resolutions_ms", 5_000),
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.max_receive_message_length", max_message_bytes),
    )
    if tls is None:
        return grpc.aio.insecure_channel(address, options)
    return grpc.aio.secure_channel(address, tls_files.channel_credentials(tls), options)
