"""Every setting of the edge, in one frozen value."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from service_kit.addresses import ADDRESS
from service_kit.log import LEVELS

SECRET = {"secret": True}
POSITIVE = {"least": 1}


@dataclass(frozen=True, slots=True)
class Settings:
    """Field ``edge_port`` is read from ``OMNIROUTE_EDGE_PORT``, and so on. Times are milliseconds."""

    edge_host: str = "127.0.0.1"
    edge_port: int = field(default=20128, metadata={"least": 0, "most": 65535})
    decision_address: str = field(default="127.0.0.1:50051", metadata=ADDRESS)
    executor_address: str = field(default="127.0.0.1:50052", metadata=ADDRESS)
    edge_token: str = field(default="", metadata=SECRET)
    admin_token: str = field(default="", metadata=SECRET)

    edge_decide_timeout_ms: int = field(default=250, metadata=POSITIVE)
    edge_control_timeout_ms: int = field(default=2_000, metadata=POSITIVE)
    edge_request_timeout_ms: int = field(default=600_000, metadata=POSITIVE)
    edge_head_timeout_ms: int = field(default=30_000, metadata=POSITIVE)
    edge_body_timeout_ms: int = field(default=120_000, metadata=POSITIVE)
    edge_body_idle_timeout_ms: int = field(default=15_000, metadata=POSITIVE)
    edge_write_timeout_ms: int = field(default=120_000, metadata=POSITIVE)
    edge_keep_alive_ms: int = field(default=75_000, metadata=POSITIVE)
    edge_drain_ms: int = field(default=20_000, metadata={"least": 0, "most": 25_000})

    edge_max_body_bytes: int = field(default=16 * 2**20, metadata={"least": 1, "most": 30 * 2**20})
    edge_max_head_bytes: int = field(default=64 * 2**10, metadata={"least": 1024})
    edge_max_concurrent: int = field(default=1024, metadata=POSITIVE)
    edge_max_concurrent_per_key: int = field(default=512, metadata=POSITIVE)
    edge_report_queue: int = field(default=20_000, metadata=POSITIVE)
    edge_access_log: bool = True

    log_level: str = field(default="info", metadata={"choices": LEVELS})
    log_json: bool = True
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_ca: str | None = None

    @property
    def loopback_only(self) -> bool:
        """True when nobody outside this machine can connect."""
        return is_loopback(self.edge_host)


def is_loopback(host: str) -> bool:
    """Whether a host name or address, brackets allowed, is this machine itself."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
