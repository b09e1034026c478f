"""LiteLLM's Router picking among as many deployments, for comparison. Runs in an environment of its own.

``python rival.py SECONDS``: one JSON object on standard output, microseconds by pool and strategy.
"""

from __future__ import annotations

import json
import logging
import os
import statistics
import sys
import time
from importlib.metadata import version
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
POOLS = (10, 100, 1_000)
STRATEGIES = ("simple-shuffle", "latency-based-routing")
MESSAGES = [{"role": "user", "content": "Refactor this function."}]


def main(seconds: float) -> None:
    from litellm import Router  # type: ignore[import-not-found]  # noqa: PLC0415 - its environment is another one

    logging.disable(logging.CRITICAL)
    found: dict[str, Any] = {"version": version("litellm")}
    for strategy in STRATEGIES:
        found[strategy] = {f"pool_{pool}": _of_pool(Router, strategy, pool, seconds) for pool in POOLS}
    print(json.dumps(found))


def _of_pool(router_class: Any, strategy: str, pool: int, seconds: float) -> dict[str, float]:
    deployments = [
        {
            "model_name": "group",
            "litellm_params": {"model": f"openai/model-{n}", "api_key": "none", "api_base": f"http://127.0.0.1:9/{n}"},
        }
        for n in range(pool)
    ]
    router = router_class(model_list=deployments, routing_strategy=strategy)
    took: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(took) < 20:
        started = time.perf_counter()
        router.get_available_deployment(model="group", messages=MESSAGES)
        took.append(time.perf_counter() - started)
    took.sort()
    return {
        "picks": len(took),
        "pick_p50_us": round(1e6 * statistics.median(took), 1),
        "pick_p95_us": round(1e6 * took[int(0.95 * (len(took) - 1))], 1),
    }


if __name__ == "__main__":
    main(float(sys.argv[1]))
