"""The end of the process as the attempts see it: every wait for an upstream can be ended from here."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Drain:
    """While it is open, ``scope`` is a plain time-out. ``end`` makes every scope time out now, and every later one."""

    def __init__(self) -> None:
        self.ended = False
        self._scopes: set[asyncio.Timeout] = set()

    def scope(self, until: float) -> Scope:
        """Waits inside end at ``until`` (the loop's clock) with TimeoutError."""
        return Scope(self._scopes, asyncio.timeout_at(0.0 if self.ended else until))

    def end(self) -> None:
        self.ended = True
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
