"""Settings of the decision service, read once from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from service_kit import settings


@dataclass(frozen=True, slots=True)
class DecisionSettings:
    """Each field is the variable ``OMNIROUTE_<FIELD>``."""

    decision_bind: str = "127.0.0.1:50051"
    decision_metrics_bind: str = "127.0.0.1:50061"
    data_dir: Path = Path("data")
    database_url: str = field(default="", metadata={"secret": True})
    secret_key: str = field(default="", metadata={"secret": True})
    executor_token: str = field(default="", metadata={"secret": True})
    edge_token: str = field(default="", metadata={"secret": True})
    admin_token: str = field(default="", metadata={"secret": True})
    demo_providers: str = ""
    outcome_retention_days: int = field(default=7, metadata={"least": 1, "most": 3650})
    max_connection_age_s: int = field(default=0, metadata={"least": 0})
    stop_grace_s: float = field(default=5.0, metadata={"least": 0.0})
    log_level: str = field(default="info", metadata={"choices": ("debug", "info", "warning", "error")})
    log_json: bool = True
    tls_cert: str = ""
    tls_key: str = ""
    tls_ca: str = ""


def read_settings() -> DecisionSettings:
    """The settings of this process. Raises SettingsError."""
    return settings.read(DecisionSettings, os.environ)


def environment() -> Mapping[str, str]:
    """The environment, for provider keys and what names them."""
    return os.environ
