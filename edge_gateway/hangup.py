"""Ends work at once when the client closes its connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import Receive

from edge_gateway.clients import Execution
from edge_gateway.json_body import Hangup


@asynccontextmanager
async def ends_at_hangup(receive: Receive, call: Execution) -> AsyncIterator[None]:
    """Cancel the call that the block reads when the client hangs up, and raise Hangup. The request's body must have
    been read.

    The last part of an answer is to be sent after the block: the server tells of an answer's end in the same way.
    """
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("not in a task")
    gone = False

    async def watch() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone = True
        # The call and not the task: gRPC does not free the memory of a read whose task is cancelled.
        call.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if gone and not task.cancelling():
            raise Hangup from None
        raise
    finally:
        watcher.cancel()
