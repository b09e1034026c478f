"""One child process: its start, the tail of its output, its end."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

TAIL_LINES = 20
MAX_LINE_BYTES = 8_192
OUTPUT_LIMIT_S = 1.0
PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None

Emit = Callable[[str], None]


class Child:
    """A started process in a session of its own, so that a Ctrl-C at the terminal reaches only the launcher."""

    def __init__(self, process: Process, tail: deque[str], reading: asyncio.Task[None]) -> None:
        self._process = process
        self._tail = tail
        self._reading = reading

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines that it wrote, oldest first."""
        return tuple(self._tail)

    async def ended(self) -> int:
        """Its exit status, once it ends and its output is read; negative for a signal."""
        status = await self._process.wait()
        try:
            async with asyncio.timeout(OUTPUT_LIMIT_S):
                await asyncio.shield(self._reading)
        except TimeoutError:  # a process that it left behind holds the pipe open
            self._reading.cancel()
        return status

    async def stop(self, grace_s: float) -> int:
        """SIGTERM, then after the grace SIGKILL; the exit status."""
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                await self._process.wait()
        except TimeoutError:
            self._signal(signal.SIGKILL)
        try:
            return await self.ended()
        finally:
            self._reading.cancel()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)


async def start(command: Sequence[str], environ: Mapping[str, str], emit: Emit) -> Child:
    """Start a process; each line of its output goes to ``emit``. Raises OSError when the command cannot be run."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env=dict(environ),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
        start_new_session=True,
        preexec_fn=_dies_with(os.getpid()),
    )
    assert process.stdout is not None
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    return Child(process, tail, asyncio.create_task(_read(process.stdout, tail, emit)))


def _dies_with(parent: int) -> Callable[[], None] | None:
    """On Linux the kernel itself stops the child when the launcher is gone, however it went."""
    if _libc is None:
        return None

    def arrange() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return arrange


async def _read(stream: asyncio.StreamReader, tail: deque[str], emit: Emit) -> None:
    rest = b""
    while chunk := await stream.read(MAX_LINE_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            lines, rest = [*lines, rest], b""
        for line in lines:
            _line(line, tail, emit)
    if rest:
        _line(rest, tail, emit)


def _line(line: bytes, tail: deque[str], emit: Emit) -> None:
    text = line.decode(errors="replace").rstrip()
    tail.append(text)
    emit(text)
