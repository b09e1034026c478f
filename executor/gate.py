"""Limits of calls at once to a host and with a connection, each with a bounded queue in front of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import urlsplit

from executor import telemetry


class NoTurn(Exception):
    """Our own queue is full, or the wait in it was too long: nobody's fault but ours."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Calls at once, calls that may wait, and seconds that each may wait."""

    calls_per_host: int = 512
    queue_per_host: int = 1024
    queue_per_connection: int = 256
    timeout_s: float = 10.0


@dataclass(slots=True)
class _Place:
    most: int
    inside: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)


class Gate:
    """Turns by name, first come, first served. ``kind`` says what the names are of."""

    def __init__(self, kind: str, most_waiting: int, timeout_s: float) -> None:
        self._kind = kind
        self._most_waiting = most_waiting
        self._timeout_s = timeout_s
        self._places: dict[str, _Place] = {}

    async def enter(self, name: str, most: int) -> None:
        """Take one of ``most`` turns; the number last given holds. Raises NoTurn."""
        place = self._places.get(name)
        if place is None:
            place = self._places[name] = _Place(most)
        place.most = most
        if place.inside < most and not place.waiting:
            place.inside += 1
            return
        if len(place.waiting) >= self._most_waiting:
            telemetry.NO_TURN.labels(self._kind, "full").inc()
            raise NoTurn(f"too many calls wait for this {self._kind}")
        with telemetry.WAITING.labels(self._kind).track_inprogress():
            await self._wait(name, place)

    def leave(self, name: str) -> None:
        """End a turn. Its place goes to who waits longest."""
        place = self._places[name]
        place.inside -= 1
        while place.waiting and place.inside < place.most:
            turn = place.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                place.inside += 1
        if not place.inside and not place.waiting:
            del self._places[name]

    async def _wait(self, name: str, place: _Place) -> None:
        turn = asyncio.get_running_loop().create_future()
        place.waiting.append(turn)
        try:
            async with asyncio.timeout(self._timeout_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.leave(name)  # the turn came in the same moment
            elif turn in place.waiting:
                place.waiting.remove(turn)
            if not isinstance(error, TimeoutError):
                raise  # also where the time was over in the same moment: who is cancelled ends
            telemetry.NO_TURN.labels(self._kind, "late").inc()
            raise NoTurn(f"waited too long for a turn with this {self._kind}") from error


class Gates:
    """The gates that every call goes through."""

    def __init__(self, limits: QueueLimits) -> None:
        self._calls_per_host = limits.calls_per_host
        self._connections = Gate("connection", limits.queue_per_connection, limits.timeout_s)
        self._hosts = Gate("host", limits.queue_per_host, limits.timeout_s)

    async def enter(self, connection_id: str, most: int, base_url: str) -> Callable[[], None]:
        """Wait for a turn with the connection, of which there are ``most`` (0: any number), then with the host.

        What it gives ends the turn. Raises NoTurn.
        """
        if most:
            await self._connections.enter(connection_id, most)
        host = host_of(base_url)
        try:
            await self._hosts.enter(host, self._calls_per_host)
        except BaseException:
            if most:
                self._connections.leave(connection_id)
            raise

        def leave() -> None:
            self._hosts.leave(host)
            if most:
                self._connections.leave(connection_id)

        return leave


@lru_cache(maxsize=4096)
def host_of(url: str) -> str:
    """Name and port."""
    return urlsplit(url).netloc.rpartition("@")[2].lower()
