"""The three services on this machine for one run: free ports, a data folder that goes away, nothing left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from omnictl import up
from omnictl.settings import LauncherSettings
from service_kit import settings
from service_kit.launcher import ChildSpec, supervise
from tests.decision_service.process import ROOT, free_ports
from tests.smoke.gateway import Gateway, connected

# Of the operator's own settings only those that say how providers are reached: the rest is for services that last.
KEPT = "OMNIROUTE_UPSTREAM_"
# Of a slow machine's first calls the defaults would make refusals.
PATIENCE = {"OMNIROUTE_EDGE_DECIDE_TIMEOUT_MS": "5000", "OMNIROUTE_EDGE_CONTROL_TIMEOUT_MS": "10000"}


@asynccontextmanager
async def services(environ: Mapping[str, str], beside: Sequence[ChildSpec] = ()) -> AsyncIterator[Gateway]:
    """Started, ready, and stopped at the end, ``beside`` first to start and last to stop.

    There are no simulated providers. Raises LaunchError when something does not start or does not stay.
    """
    with TemporaryDirectory(prefix="omniroute-smoke-") as folder:
        given = {**environ_of(environ), **_places(Path(folder))}
        wanted = settings.read(LauncherSettings, given)
        specs = [*beside, *up.children(wanted, up.shared_environ(wanted, given, ()), ())]
        stop, ready = asyncio.Event(), asyncio.Event()
        running = asyncio.create_task(supervise(specs, stop, on_ready=ready.set, emit=_unheard))
        try:
            await _first(ready, running)
            async with connected(f"http://127.0.0.1:{wanted.edge_port}") as gateway:
                yield gateway
        finally:
            stop.set()
            await running


def environ_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the services without what was set for others of their kind."""
    kept = {
        name: value for name, value in environ.items() if not name.startswith("OMNIROUTE_") or name.startswith(KEPT)
    }
    return kept | {"PYTHONPATH": f"{ROOT}:{ROOT / 'protos/gen'}"}


def _places(folder: Path) -> dict[str, str]:
    decision, decision_metrics, executor, executor_metrics, edge = free_ports(5)
    return {
        **PATIENCE,
        "OMNIROUTE_DATA_DIR": str(folder),
        "OMNIROUTE_DECISION_BIND": f"127.0.0.1:{decision}",
        "OMNIROUTE_DECISION_METRICS_PORT": str(decision_metrics),
        "OMNIROUTE_EXECUTOR_BIND": f"127.0.0.1:{executor}",
        "OMNIROUTE_EXECUTOR_METRICS_PORT": str(executor_metrics),
        "OMNIROUTE_EDGE_PORT": str(edge),
    }


async def _first(ready: asyncio.Event, running: asyncio.Task[None]) -> None:
    """Waits until all are ready, or raises what ended them before."""
    waiting = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait([waiting, running], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        waiting.cancel()


def _unheard(_name: str, _line: str) -> None:
    """The launcher keeps the last lines of each, and shows them where one does not start."""
