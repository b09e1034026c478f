"""A limit of calls at once to each upstream host, with a bounded queue in front of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from executor.transport.port import FaultKind, TransportFault, TransportLimits


@dataclass(slots=True)
class _Host:
    slots: asyncio.Semaphore
    users: int = 0  # calls that hold a slot or wait for one


@dataclass(slots=True)
class Gate:
    """Slots by host. A caller leaves with the same name that it entered by."""

    limits: TransportLimits
    _hosts: dict[str, _Host] = field(default_factory=dict)

    async def enter(self, host: str) -> None:
        """Take a slot; raises TransportFault(QUEUE) when the queue is full or the wait too long."""
        entry = self._hosts.get(host)
        if entry is None:
            entry = self._hosts[host] = _Host(asyncio.Semaphore(self.limits.calls_per_host))
        if entry.users >= self.limits.calls_per_host + self.limits.queue_per_host:
            raise TransportFault(FaultKind.QUEUE, "too many calls wait for this host")
        entry.users += 1
        try:
            if entry.slots.locked():
                async with asyncio.timeout(self.limits.queue_timeout_s):
                    await entry.slots.acquire()
            else:
                await entry.slots.acquire()
        except BaseException as error:
            self._forget(host, entry)
            if isinstance(error, TimeoutError):
                raise TransportFault(FaultKind.QUEUE, "waited too long for a free slot to this host") from error
            raise

    def leave(self, host: str) -> None:
        entry = self._hosts[host]
        entry.slots.release()
        self._forget(host, entry)

    def calls(self) -> int:
        """Calls that hold a slot or wait for one, over all hosts."""
        return sum(entry.users for entry in self._hosts.values())

    def _forget(self, host: str, entry: _Host) -> None:
        entry.users -= 1
        if not entry.users:
            del self._hosts[host]
