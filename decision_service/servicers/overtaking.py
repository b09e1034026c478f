"""Answers on a stream, each as soon as it is ready: one that has to wait holds up none that comes after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TypeVar

Q = TypeVar("Q")
A = TypeVar("A")


async def as_ready(
    requests: AsyncIterator[Q], answer: Callable[[Q], A | asyncio.Task[A]], most_waiting: int
) -> AsyncGenerator[A, None]:
    """The answers; those that need not wait come in the order of their requests.

    While ``most_waiting`` wait, no further request is read.
    """
    waiting: set[asyncio.Task[A]] = set()
    reading: asyncio.Task[Q | None] | None = None
    try:
        while True:
            if waiting:
                if reading is None and len(waiting) < most_waiting:
                    reading = asyncio.create_task(_next(requests))
                watched = waiting if reading is None else {*waiting, reading}
                done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
                for task in waiting & done:
                    waiting.remove(task)
                    yield await task
                if reading not in done:
                    continue
            request = await (_next(requests) if reading is None else reading)
            reading = None
            if request is None:
                break
            answered = answer(request)
            if isinstance(answered, asyncio.Task):
                waiting.add(answered)
            else:
                yield answered
        for ready in asyncio.as_completed(waiting):
            yield await ready
    finally:
        for left in (*waiting, *([] if reading is None else [reading])):
            left.cancel()


async def _next(requests: AsyncIterator[Q]) -> Q | None:
    return await anext(requests, None)
