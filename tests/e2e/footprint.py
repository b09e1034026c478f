"""What a running service holds: sockets, tasks and memory; and what its metrics say."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.decision_service.process import Service
from tests.e2e.stack import Stack

PAGE = resource.getpagesize()
Figures = Mapping[tuple[str, ...], float]


@dataclass(frozen=True)
class Footprint:
    """Of one process. ``resident`` is in bytes."""

    sockets: int
    tasks: int
    resident: int

    def within(self, other: Footprint) -> bool:
        """It holds no more than the other, memory left aside."""
        return self.sockets <= other.sockets and self.tasks <= other.tasks


async def footprints(stack: Stack) -> dict[str, Footprint]:
    """Of every service, by module."""
    found = {}
    for service in stack.services:
        told = await figures(stack.http, service)
        found[service.module] = Footprint(sockets(service.pid), int(told["omniroute_tasks",]), resident(service.pid))
    return found


def sockets(pid: int) -> int:
    """Open sockets of a process, those included that the other side has closed."""
    return sum(_is_socket(descriptor) for descriptor in Path(f"/proc/{pid}/fd").iterdir())


def _is_socket(descriptor: Path) -> bool:
    try:
        return str(descriptor.readlink()).startswith("socket:")
    except FileNotFoundError:  # closed since it was listed
        return False


def resident(pid: int) -> int:
    """Bytes of memory that a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


async def figures(http: httpx.AsyncClient, service: Service) -> Figures:
    """What a service's metrics say, by name and values of labels, in the order of the labels' names."""
    text = (await http.get(f"http://127.0.0.1:{service.ready_port}/metrics")).text
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
