"""What the process of the demo providers reads from the environment."""

from __future__ import annotations

from dataclasses import dataclass, field

from service_kit.log import LEVELS


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """``demo_ports``: one for each provider."""

    demo_ports: tuple[int, ...]
    log_level: str = field(default="info", metadata={"choices": LEVELS})
    log_json: bool = True
