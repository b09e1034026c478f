"""What the command line reads from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

PORT = {"least": 0, "most": 65_535}


def environment() -> Mapping[str, str]:
    """A copy of the process's environment."""
    return dict(os.environ)


@dataclass(frozen=True, slots=True)
class LauncherSettings:
    """Where ``omnictl up`` puts the services; the rest of the environment goes to them as it is.

    ``demo`` decides about the simulated providers: ``auto`` starts them when no provider key is set.
    """

    edge_host: str = "127.0.0.1"
    edge_port: int = field(default=20_128, metadata=PORT)
    decision_bind: str = "127.0.0.1:50051"
    decision_metrics_host: str = "127.0.0.1"
    decision_metrics_port: int = field(default=50_061, metadata=PORT)
    executor_bind: str = "127.0.0.1:50052"
    executor_metrics_host: str = "127.0.0.1"
    executor_metrics_port: int = field(default=50_062, metadata=PORT)
    demo: str = field(default="auto", metadata={"choices": ("auto", "always", "never")})
