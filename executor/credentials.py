"""The credential of a connection, asked of the registry and kept for at most a minute.

It is asked for anew long before that, beside the requests that use it, so that a registry that is away for a short
while is not missed. What holds no secret, a reference or that none is needed, may serve longer while it is away.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

MAX_AGE_S = 60.0
# Of what is shared with a registry that is well, so that little of its life is gone when that goes away.
RENEWED_AT = 0.25
# Without a secret, while the registry is away.
STALE_S = 15 * 60.0
# How long such a one waits for the registry to say it again.
PATIENCE_S = 0.25
MAX_KEPT = 10_000
MAX_SECRET_BYTES = 16 * 1024


class Unusable(Exception):
    """The connection has no credential that can be used. Its text holds no secret."""


class Away(Exception):
    """The registry could not be asked."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the registry answered: ``secret`` itself, or a ``reference`` to it; neither: none is needed.

    ``max_concurrent`` calls may be made at once with the connection; 0: any number.
    """

    secret: str = ""
    reference: str = ""
    max_age_s: float = MAX_AGE_S
    max_concurrent: int = 0


class Registry(Protocol):
    """Where credentials come from."""

    async def resolve(self, connection_id: str, *, refresh: bool) -> Resolved:
        """Raises Unusable or Away."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """What was answered at ``since``, by the clock."""

    resolved: Resolved
    since: float

    @property
    def renewed_from(self) -> float:
        return self.since + RENEWED_AT * min(self.resolved.max_age_s, MAX_AGE_S)

    @property
    def until(self) -> float:
        return self.since + min(self.resolved.max_age_s, MAX_AGE_S)

    @property
    def stale_until(self) -> float:
        return self.until if self.resolved.secret else self.since + STALE_S


class Credentials:
    """One question at a time to the registry for each connection. ``clock`` gives seconds that only grow."""

    def __init__(self, registry: Registry, environ: Mapping[str, str], clock: Callable[[], float]) -> None:
        self._registry = registry
        self._references = References(environ)
        self._clock = clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._asking: dict[tuple[str, bool], asyncio.Task[_Kept]] = {}
        self._away = False  # the registry was asked in vain, and has not answered since

    async def secret(self, connection_id: str) -> str:
        """The secret to send, empty when none is needed. Raises Unusable or Away."""
        kept, now = self._kept.get(connection_id), self._clock()
        if kept is None or kept.stale_until <= now:
            kept = await self._ask(connection_id, refresh=False)
        elif kept.until <= now:
            kept = await self._ask_or(connection_id, kept)
        elif kept.renewed_from <= now:
            self._question(connection_id, refresh=False)
        return self._secret_of(kept.resolved)

    def most_at_once(self, connection_id: str) -> int:
        """Calls at once with the connection, as the registry last told; 0: any number."""
        kept = self._kept.get(connection_id)
        return 0 if kept is None else kept.resolved.max_concurrent

    async def renewed(self, connection_id: str, refused: str) -> str | None:
        """Another secret than the ``refused`` one; None when there is none, or it cannot be had now."""
        kept = self._kept.get(connection_id)
        try:
            if kept is None or kept.until <= self._clock() or self._secret_of(kept.resolved) == refused:
                self._kept.pop(connection_id, None)
                kept = await self._ask(connection_id, refresh=True)
            secret = self._secret_of(kept.resolved)
        except (Unusable, Away):
            return None
        return secret if secret != refused else None

    async def _ask_or(self, connection_id: str, kept: _Kept) -> _Kept:
        """The answer anew; what is kept while the registry is away or silent."""
        try:
            async with asyncio.timeout(0 if self._away else PATIENCE_S):
                return await self._ask(connection_id, refresh=False)
        except (TimeoutError, Away):
            self._away = True
            return kept

    async def _ask(self, connection_id: str, *, refresh: bool) -> _Kept:
        """A caller that leaves does not end the question."""
        return await asyncio.shield(self._question(connection_id, refresh=refresh))

    def _question(self, connection_id: str, *, refresh: bool) -> asyncio.Task[_Kept]:
        """The question that is under way, or a new one."""
        task = self._asking.get((connection_id, refresh))
        if task is None:
            task = asyncio.create_task(self._asked(connection_id, refresh=refresh))
            self._asking[connection_id, refresh] = task
            task.add_done_callback(lambda done: self._settle((connection_id, refresh), done))
        return task

    async def _asked(self, connection_id: str, *, refresh: bool) -> _Kept:
        resolved = await self._registry.resolve(connection_id, refresh=refresh)
        return _Kept(resolved, self._clock())

    def _settle(self, question: tuple[str, bool], task: asyncio.Task[_Kept]) -> None:
        del self._asking[question]
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            if isinstance(error, Unusable):
                self._kept.pop(question[0], None)
            return
        self._away = False
        self._kept[question[0]] = task.result()
        self._kept.move_to_end(question[0])
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)

    def _secret_of(self, resolved: Resolved) -> str:
        secret = self._references.read(resolved.reference) if resolved.reference else resolved.secret
        if not (secret.isascii() and secret.isprintable()):
            raise Unusable("the connection's credential holds characters that no header may carry")
        return secret


class References:
    """Reads ``env:NAME`` and ``file:/path``; a file is read again when it has changed."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._files: dict[str, tuple[tuple[int, int, int], str]] = {}

    def read(self, reference: str) -> str:
        """Raises Unusable, naming the kind of reference but neither its target nor its value."""
        kind, _, name = reference.partition(":")
        if kind == "env":
            secret = self._environ.get(name, "").strip()
        elif kind == "file":
            secret = self._file(name)
        else:
            raise Unusable("the connection's credential reference is neither env:NAME nor file:/path")
        if not secret:
            raise Unusable(f"the connection's credential reference ({kind}) leads to nothing")
        return secret

    def _file(self, name: str) -> str:
        try:
            path = Path(name)
            stat = path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            known = self._files.get(name)
            if known is not None and known[0] == stamp:
                return known[1]
            if stat.st_size > MAX_SECRET_BYTES:
                raise Unusable("the connection's credential file is too large")
            secret = path.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError, ValueError) as error:
            raise Unusable("the connection's credential file cannot be read") from error
        self._files[name] = (stamp, secret)
        return secret
