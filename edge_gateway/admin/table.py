"""Every operation of the administration API, in an order in which their examples can be sent."""

from __future__ import annotations

from edge_gateway.admin.asks import Operation
from edge_gateway.admin.resources import RESOURCES, operations
from edge_gateway.admin.singular_rows import SINGULAR

TABLE: tuple[Operation, ...] = (*(row for kind in RESOURCES for row in operations(kind)), *SINGULAR)


def by_path() -> dict[str, dict[str, Operation]]:
    """Operations by path and method; paths without a parameter come before those that would take them in."""
    found: dict[str, dict[str, Operation]] = {}
    for row in sorted(TABLE, key=lambda row: "{" in row.path):
        found.setdefault(row.path, {})[row.method] = row
    return found
