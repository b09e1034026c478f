"""What a measurement comes to, and on what machine."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("grpcio", "protobuf", "uvloop", "sqlalchemy", "starlette", "uvicorn", "aiohttp", "omniroute-decision")

Figures = dict[str, float | int | None]


@dataclass(slots=True)
class Samples:
    """Calls of several rounds. Latencies in seconds; a rate for each round; CPU seconds by process."""

    latencies: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    cpu_s: dict[str, float] = field(default_factory=dict)

    def add_round(self, latencies: Sequence[float], seconds: float, cpu_s: dict[str, float] | None = None) -> None:
        self.latencies += latencies
        self.rates.append(len(latencies) / seconds)
        for name, used in (cpu_s or {}).items():
            self.cpu_s[name] = self.cpu_s.get(name, 0.0) + used

    def figures(self) -> Figures:
        """Rate: the median of the rounds. Latencies: quantiles over all rounds, microseconds."""
        calls = len(self.latencies)
        found: Figures = {
            "calls": calls,
            "per_s": round(statistics.median(self.rates)),
            "p50_us": round(1e6 * quantile(self.latencies, 0.50)),
            "p95_us": round(1e6 * quantile(self.latencies, 0.95)),
            "p99_us": round(1e6 * quantile(self.latencies, 0.99)),
        }
        return found | {f"{name}_cpu_us": round(1e6 * used / calls) for name, used in self.cpu_s.items()}


def quantile(values: Sequence[float], q: float) -> float:
    """The q-quantile of at least one value."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def ratio(part: Figures, whole: Figures, name: str) -> float:
    """How two figures of one name compare."""
    return round(float(part[name] or 0) / float(whole[name] or 1), 2)


def machine() -> dict[str, str | int | float]:
    """Processor, cores that this process may use, and how busy they were with other work just before."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "architecture": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "load_before": round(os.getloadavg()[0], 2),
    }


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    return found | {package: version(package) for package in PACKAGES}
