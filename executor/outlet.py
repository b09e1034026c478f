"""The way of events out to the caller of Execute."""

from __future__ import annotations

import asyncio

import grpc.aio

from executor import wire
from executor.model import Event, is_followed
from omniroute.executor.v1.executor_pb2 import ExecuteRequest, ExecuteResponse

Context = grpc.aio.ServicerContext[ExecuteRequest, ExecuteResponse]


class Outlet:
    """Sends the events of one execution, also those of calls that run at once.

    For a caller that reads ``batches``, an event which another follows at once waits for that one.
    """

    def __init__(self, context: Context, decision_id: str, *, batches: bool) -> None:
        self._context = context
        self._decision_id = decision_id
        self._batches = batches
        self._turn = asyncio.Lock()
        self._waiting: list[ExecuteResponse] = []

    async def send(self, event: Event) -> None:
        """Waits while the caller does not read. Raises CancelledError when it has left."""
        self._waiting.append(wire.event_out(event, self._decision_id))
        if self._batches and is_followed(event):
            return
        try:
            async with self._turn:
                await self._write()
        except grpc.aio.BaseError as error:
            # The client left in this moment; the cancellation that says so is on its way.
            raise asyncio.CancelledError from error

    async def _write(self) -> None:
        """All that waits: in one message where the caller reads that."""
        events, self._waiting = self._waiting, []
        if self._batches and len(events) > 1:
            events = [wire.batch_out(events)]
        for event in events:
            await self._context.write(event)
