"""Channels to the services of the system, with one set of limits."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

import grpc.aio

from service_kit import addresses
from service_kit import tls as tls_files
from service_kit.settings import SettingsError

MAX_MESSAGE_BYTES = 32 * 2**20
# A server that is connected and silent is given up after both: its calls fail, and go elsewhere where they may.
KEEPALIVE_MS, KEEPALIVE_TIMEOUT_MS = 3_000, 4_000
# A peer that accepts a connection and says nothing; a handshake on a busy machine takes a part of it.
CONNECT_LIMIT_MS = 1_000
# How often a call goes out, while nothing of its answer is known.
ATTEMPTS = 3


class Balancing(Enum):
    """Which of several addresses gets a call: ``SPREAD``, each in turn; ``IN_ORDER``, the first that can be reached.

    IN_ORDER is for servers with state of their own, which one conversation should not be spread over.
    """

    SPREAD = "round_robin"
    IN_ORDER = "pick_first"


def open_channel(
    address: str,
    tls: tls_files.TlsFiles | None = None,
    *,
    balancing: Balancing = Balancing.SPREAD,
    again: tuple[str, ...] = (),
    max_message_bytes: int = MAX_MESSAGE_BYTES,
) -> grpc.aio.Channel:
    """A channel to an address, or to several (``addresses.ALLOWED``); connects at the first call. The caller closes it.

    A server that says of itself that it does not serve gets no calls under SPREAD. ``again`` names services whose calls
    may be sent to another server when theirs went away before it said anything. Raises SettingsError.
    """
    if tls is not None and addresses.is_list(address):
        raise SettingsError(
            "several addresses and TLS: certificates are checked for one name; "
            "allowed: dns:///name:port, with a name that every certificate holds"
        )
    options = (
        ("grpc.service_config", _service_config(balancing, again)),
        ("grpc.per_rpc_retry_buffer_size", max_message_bytes),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_MS),  # a minute otherwise, whatever the line above says
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", CONNECT_LIMIT_MS),  # in truth the least time that an attempt to connect has
        ("grpc.max_reconnect_backoff_ms", 500),
        ("grpc.dns_min_time_between_resolutions_ms", 5_000),
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.max_receive_message_length", max_message_bytes),
    )
    target = addresses.target(address)
    if tls is None:
        return grpc.aio.insecure_channel(target, options)
    return grpc.aio.secure_channel(target, tls_files.channel_credentials(tls), options)


def _service_config(balancing: Balancing, again: tuple[str, ...]) -> str:
    config: dict[str, Any] = {
        "loadBalancingConfig": [{balancing.value: {}}],
        "healthCheckConfig": {"serviceName": ""},
    }
    if again:
        retries = {
            "maxAttempts": ATTEMPTS,
            "initialBackoff": "0.02s",
            "maxBackoff": "0.1s",
            "backoffMultiplier": 2,
            "retryableStatusCodes": ["UNAVAILABLE"],
        }
        config["methodConfig"] = [{"name": [{"service": name} for name in again], "retryPolicy": retries}]
    return json.dumps(config)
