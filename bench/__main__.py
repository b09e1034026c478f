"""``python -m bench``: every benchmark in one run, of about two minutes and a half; the last line is one JSON object.

``--quick`` only shows that everything works, in a few seconds.

Linux alone: it pins processes to cores and reads their CPU time. Everything stays on loopback and ends by itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import uvloop

from bench import figures
from bench.kernel import kernel
from bench.load import QUICK, Pace
from bench.path import path
from bench.relay import relay
from bench.rpc import rpc

LIMIT_S = 240.0


async def measured(pace: Pace, where: Path) -> dict[str, Any]:
    cores = sorted(os.sched_getaffinity(0))
    found: dict[str, Any] = {"machine": figures.machine(), "versions": figures.versions()}
    try:
        os.sched_setaffinity(0, {cores[0]})
        found["kernel"] = kernel(pace.kernel_s)
        async with asyncio.timeout(LIMIT_S):
            found["rpc"] = await rpc(pace, cores[-1], where)
            os.sched_setaffinity(0, set(cores))
            found["path"] = await path(pace, set(cores), where)
            os.sched_setaffinity(0, {cores[0]})
            found["relay"] = await relay(pace, cores, where)
    finally:
        os.sched_setaffinity(0, set(cores))
    return found


def rows(found: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each set of figures with the names that lead to it."""
    plain = {key: value for key, value in found.items() if not isinstance(value, Mapping)}
    if plain:
        yield name, plain
    for key, value in found.items():
        if isinstance(value, Mapping):
            yield from rows(value, f"{name} {key}".strip())


def main(arguments: Sequence[str]) -> int:
    if set(arguments) - {"--quick"}:
        print("usage: python -m bench [--quick]", file=sys.stderr)
        return 2
    pace = QUICK if arguments else Pace()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="omniroute-bench-") as where:
        found = uvloop.run(measured(pace, Path(where)))
    found["seconds"] = round(time.monotonic() - started, 1)
    for name, values in rows(found):
        print(f"{name:48} " + "  ".join(f"{key} {value}" for key, value in values.items()))
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
