"""The services that are measured, each a real process with settings of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import orjson

from bench.processes import Process, running

PROVIDERS = 10
TOKENS = {"OMNIROUTE_EDGE_TOKEN": "bench-edge", "OMNIROUTE_EXECUTOR_TOKEN": "bench-executor"}
NOWHERE = "http://127.0.0.1:9/v1"


def providers(pool: int, base_url: str) -> str:
    """The setting that makes a pool of so many candidates, spread over ten providers."""

    def model(number: int) -> dict[str, object]:
        prices = {"input_price": 0.1 + number % 7, "output_price": 0.4 + number % 5}
        return {"id": f"model-{number}", **prices, "context_window": 128_000, "max_output_tokens": 8_192}

    groups = [[model(n) for n in range(pool) if n % PROVIDERS == p] for p in range(min(pool, PROVIDERS))]
    listed = [{"id": f"bench-{p}", "base_url": base_url, "models": models} for p, models in enumerate(groups)]
    return orjson.dumps(listed).decode()


@contextmanager
def decision_service(
    pool: int, ports: Sequence[int], cores: set[int], where: Path, base_url: str = NOWHERE
) -> Iterator[Process]:
    """A decision service with a store of its own, at two ports: calls, metrics."""
    environ = {
        **TOKENS,
        "OMNIROUTE_DECISION_BIND": f"127.0.0.1:{ports[0]}",
        "OMNIROUTE_DECISION_METRICS_PORT": str(ports[1]),
        "OMNIROUTE_DATA_DIR": str(where / f"data-{pool}-{ports[0]}"),
        "OMNIROUTE_DEMO_PROVIDERS": providers(pool, base_url),
    }
    with running("decision_service", (), environ, cores, where) as process:
        yield process


@contextmanager
def whole_chain(
    pool: int, ports: Sequence[int], cores: set[int], where: Path, base_url: str
) -> Iterator[dict[str, Process]]:
    """All three services by name, at five ports: decision and its metrics, executor and its metrics, edge."""
    environ = {
        **TOKENS,
        "OMNIROUTE_DECISION_ADDRESS": f"127.0.0.1:{ports[0]}",
        "OMNIROUTE_EXECUTOR_ADDRESS": f"127.0.0.1:{ports[2]}",
        "OMNIROUTE_EXECUTOR_BIND": f"127.0.0.1:{ports[2]}",
        "OMNIROUTE_EXECUTOR_METRICS_PORT": str(ports[3]),
        "OMNIROUTE_EDGE_PORT": str(ports[4]),
    }
    with (
        decision_service(pool, ports[:2], cores, where, base_url) as decision,
        running("executor", (), environ, cores, where) as executor,
        running("edge_gateway", (), environ, cores, where) as edge,
    ):
        yield {"decision": decision, "executor": executor, "edge": edge}
