"""What a server says of itself, to those who ask once and to those who watch."""

from __future__ import annotations

import asyncio
from typing import Any

from grpc_health.v1 import health

# For watchers to hear that the server stops serving, and to send no more calls: those that reach a closing server fail.
LAST_WORD_S = 0.25


class Health(health.aio.HealthServicer):
    """The health service whose watches end with it: to the server each is a call in flight, and would hold up its stop.

    Every client that balances over several servers watches each of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._watches: set[asyncio.Task[Any]] = set()

    async def Watch(self, request: Any, context: Any) -> None:  # noqa: N802 - the contract's name
        task = asyncio.current_task()
        assert task is not None
        self._watches.add(task)
        try:
            await super().Watch(request, context)
        finally:
            self._watches.discard(task)

    async def leave(self) -> None:
        """Say NOT_SERVING from now on, to everybody; returns when those who watch have had the time to hear it."""
        await self.enter_graceful_shutdown()
        if self._watches:
            await asyncio.sleep(LAST_WORD_S)

    def end_watches(self) -> None:
        for task in list(self._watches):
            task.cancel()
