"""Ends of attempts from outside: every wait for an upstream can be ended from here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

SHUTTING_DOWN = "the gateway is shutting down"


class Drain:
    """While it is open, ``scope`` is a plain time-out. ``end`` makes every scope time out now, and every later one.

    The process has one; calls that may be ended together have a ``child`` of it. ``why`` says in words why it ended.
    """

    def __init__(self) -> None:
        self.why = ""
        self._scopes: set[asyncio.Timeout] = set()
        self._children: set[Drain] = set()

    @property
    def ended(self) -> bool:
        return bool(self.why)

    @contextmanager
    def child(self) -> Iterator[Drain]:
        """A drain that ends with this one, or earlier by itself."""
        child = Drain()
        if self.ended:
            child.end(self.why)
        self._children.add(child)
        try:
            yield child
        finally:
            self._children.discard(child)

    def scope(self, until: float) -> Scope:
        """Waits inside end at ``until`` (the loop's clock) with TimeoutError."""
        return Scope(self._scopes, asyncio.timeout_at(0.0 if self.ended else until))

    def end(self, why: str = SHUTTING_DOWN) -> None:
        self.why = self.why or why
        for child in self._children:
            child.end(why)
        now = asyncio.get_running_loop().time()
        for scope in self._scopes:
            if not scope.expired():
                scope.reschedule(now)


class Scope:
    """A time-out that its Drain knows of."""

    __slots__ = ("_scopes", "_timeout")

    def __init__(self, scopes: set[asyncio.Timeout], timeout: asyncio.Timeout) -> None:
        self._scopes = scopes
        self._timeout = timeout

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._scopes.add(self._timeout)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scopes.discard(self._timeout)
        await self._timeout.__aexit__(kind, error, trace)
