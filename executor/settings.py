"""The executor's settings: one frozen value, read once from the environment (prefix ``OMNIROUTE_``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from service_kit.addresses import ADDRESS, PLACE
from service_kit.log import LEVELS


@dataclass(frozen=True, slots=True)
class Settings:
    """Times in seconds, sizes in MiB. Unset TLS files: plain text, for one machine or behind a mesh.

    ``max_connection_age_s`` makes edges reconnect, so that they find new executors; 0: never.
    """

    executor_bind: str = field(default="127.0.0.1:50052", metadata=PLACE)
    executor_metrics_host: str = "127.0.0.1"
    executor_metrics_port: int = field(default=50062, metadata={"least": 0, "most": 65_535})
    executor_max_executions: int = field(default=2_048, metadata={"least": 1})
    executor_grace_s: float = field(default=30.0, metadata={"least": 0, "most": 3_600})
    max_connection_age_s: int = field(default=0, metadata={"least": 0})
    executor_token: str = field(default="", metadata={"secret": True})
    decision_address: str = field(default="127.0.0.1:50051", metadata=ADDRESS)
    credential_timeout_s: float = field(default=5.0, metadata={"least": 0.05, "most": 60})

    upstream_transport: str = field(default="aiohttp", metadata={"choices": ("aiohttp", "httpx")})
    upstream_connect_timeout_s: float = field(default=10.0, metadata={"least": 0.05, "most": 120})
    upstream_keepalive_s: float = field(default=15.0, metadata={"least": 0, "most": 600})
    upstream_calls_per_host: int = field(default=512, metadata={"least": 1})
    upstream_queue_per_host: int = field(default=1_024, metadata={"least": 0})
    upstream_queue_per_connection: int = field(default=256, metadata={"least": 0})
    upstream_queue_timeout_s: float = field(default=10.0, metadata={"least": 0.05, "most": 600})
    upstream_proxy: str = field(default="", metadata={"secret": True})
    upstream_ca: str = ""
    upstream_max_answer_mb: int = field(default=64, metadata={"least": 1, "most": 1_024})
    upstream_max_event_mb: int = field(default=8, metadata={"least": 1, "most": 256})
    upstream_stall_s: float = field(default=60.0, metadata={"least": 0.05, "most": 3_600})

    log_level: str = field(default="info", metadata={"choices": LEVELS})
    log_json: bool = True
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_ca: Path | None = None
