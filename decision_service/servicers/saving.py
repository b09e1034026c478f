"""Waiting for the disk, for a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future

from decision_service.journal import JournalClosed, JournalFailed, JournalFull
from service_kit.errors import Reason, ServiceError

SAVE_TIMEOUT_S = 5.0
BUSY = ServiceError(Reason.UNAVAILABLE, "the disk does not keep up; send this again", retry_after_ms=1_000)


async def saved(save: Callable[[], Future[None]]) -> None:
    """Wait until it is on disk. Raises UNAVAILABLE when that takes too long or cannot be."""
    try:
        async with asyncio.timeout(SAVE_TIMEOUT_S):
            await asyncio.wrap_future(save())
    except (JournalFull, JournalFailed, JournalClosed, TimeoutError):
        raise BUSY from None
