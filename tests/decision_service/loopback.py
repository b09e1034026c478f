"""A whole decision service on a free port of loopback, inside the test's process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from decision_service import assembly
from decision_service.settings import DecisionSettings
from tests.decision_service.client import Client

START_LIMIT_S = 20.0
STOP_LIMIT_S = 20.0
EDGE_TOKEN, EXECUTOR_TOKEN = "edge-identity-of-the-test", "executor-identity-of-the-test"


@asynccontextmanager
async def serving(data_dir: Path, environ: Mapping[str, str] | None = None, **settings: Any) -> AsyncIterator[Client]:
    """A client of a service over the store in ``data_dir``; ``settings`` are fields of DecisionSettings."""
    chosen = {
        "decision_bind": "127.0.0.1:0",
        "decision_metrics_port": 0,
        "decision_grace_s": 0.2,
        "data_dir": data_dir,
        "edge_token": EDGE_TOKEN,
        "executor_token": EXECUTOR_TOKEN,
        **settings,
    }
    stop = asyncio.Event()
    started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(assembly.serve(DecisionSettings(**chosen), environ or {}, stop, started))
    running.add_done_callback(lambda _: started.done() or started.cancel())  # it could not start
    try:
        port = await asyncio.wait_for(started, START_LIMIT_S)
    except asyncio.CancelledError:
        await running
        raise
    client = Client(f"127.0.0.1:{port}")
    try:
        yield client
    finally:
        await client.close()
        stop.set()
        await asyncio.wait_for(running, STOP_LIMIT_S)
