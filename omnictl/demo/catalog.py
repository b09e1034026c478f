"""The three demo providers: what they cost, how fast they are, how often they fail."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

SEED = 0


class Fault(StrEnum):
    """How a demo provider fails a request."""

    SERVER_ERROR = "server error"
    RATE_LIMITED = "rate limit"
    BROKEN_OFF = "connection closed before any content"


@dataclass(frozen=True, slots=True)
class DemoModel:
    """Prices in USD per million tokens; window and limit in tokens."""

    id: str
    input_price: float
    output_price: float
    context_window: int
    max_output_tokens: int
    capabilities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DemoProvider:
    """``first_ms`` passes before the first word, ``word_ms`` between words. ``script`` repeats; None is an answer."""

    id: str
    models: tuple[DemoModel, ...]
    first_ms: int
    word_ms: int
    script: tuple[Fault | None, ...] = (None,)

    def fault(self, number: int, seed: int = SEED) -> Fault | None:
        """What happens to request ``number`` (0 is the first); another seed starts elsewhere in the script."""
        return self.script[(number + seed) % len(self.script)]


PROVIDERS = (
    DemoProvider(
        id="demo-fast",
        models=(
            DemoModel(
                "demo-fast-1", 3.0, 12.0, 200_000, 16_384, ("tools", "vision", "structured_output", "-embeddings")
            ),
        ),
        first_ms=60,
        word_ms=10,
    ),
    DemoProvider(
        id="demo-cheap",
        models=(DemoModel("demo-cheap-1", 0.4, 1.6, 128_000, 8_192, ("tools", "structured_output", "-embeddings")),),
        first_ms=350,
        word_ms=30,
    ),
    DemoProvider(
        id="demo-flaky",
        models=(
            DemoModel(
                "demo-flaky-1", 0.1, 0.3, 128_000, 8_192, ("tools", "vision", "structured_output", "-embeddings")
            ),
        ),
        first_ms=120,
        word_ms=15,
        script=(None, Fault.SERVER_ERROR, None, Fault.RATE_LIMITED, None, None, Fault.BROKEN_OFF, None),
    ),
)


def describe(ports: Sequence[int]) -> str:
    """The JSON list that tells the decision service of the providers, one port each in the order of PROVIDERS."""
    return json.dumps([_described(provider, port) for provider, port in zip(PROVIDERS, ports, strict=True)])


def _described(provider: DemoProvider, port: int) -> Mapping[str, Any]:
    models = [{name: getattr(model, name) for name in DemoModel.__dataclass_fields__} for model in provider.models]
    return {"id": provider.id, "base_url": f"http://127.0.0.1:{port}/v1", "models": models, "class": "local"}
