"""Keeps a list of child processes running: start together, restart what crashes, stop in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from service_kit import child, probe
from service_kit.child import Child
from service_kit.lifecycle import MISCONFIGURED, Fatal

PROBE_PAUSE_S = 0.05

Emit = Callable[[str, str], None]
"""Takes a child's name and one line of its output."""


@dataclass(frozen=True, slots=True)
class Port:
    """A place where a child will listen; ``setting`` names the variable that moves it."""

    host: str
    number: int
    setting: str


@dataclass(frozen=True, slots=True)
class Probe:
    """A child is ready once ``GET http://host:port/path`` answers 200."""

    host: str
    port: int
    path: str = "/readyz"


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What to run. Children start together; they stop in the reverse of the order they are listed in."""

    name: str
    command: tuple[str, ...]
    environ: Mapping[str, str]
    ports: tuple[Port, ...] = ()
    ready: Probe | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """A crash within ``quick_s`` of the start is quick; ``quick_crashes`` of them in a row end the whole."""

    ready_s: float = 60.0
    stop_s: float = 25.0
    quick_s: float = 10.0
    quick_crashes: int = 4
    first_pause_s: float = 0.25
    longest_pause_s: float = 5.0


class LaunchError(Fatal):
    """The whole cannot run; the text is for the person who started it."""


@dataclass(slots=True)
class _Kept:
    spec: ChildSpec
    child: Child | None = None
    crashes: int = 0
    tail: tuple[str, ...] = field(default=())


async def supervise(
    specs: Sequence[ChildSpec],
    stop: asyncio.Event,
    *,
    on_ready: Callable[[], None],
    emit: Emit,
    limits: Limits = Limits(),
) -> None:
    """Run the children until ``stop``, then stop them in order. ``on_ready`` is called once, when all are ready.

    Raises LaunchError when a port is taken, a child is not ready in time, refuses its settings or keeps crashing; the
    others are stopped first.
    """
    check_ports(specs)
    kept = [_Kept(spec) for spec in specs]
    stopping = asyncio.create_task(stop.wait())
    keeping = [asyncio.create_task(_keep(one, emit, limits)) for one in kept]
    becoming_ready = asyncio.create_task(_announce(kept, on_ready, limits))
    try:
        await _first_end([stopping, becoming_ready, *keeping], until=stopping)
    finally:
        tasks = [stopping, becoming_ready, *keeping]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await _stop_in_order(kept, emit, limits)


def check_ports(specs: Sequence[ChildSpec]) -> None:
    """Raises LaunchError for the first port that cannot be listened on, or that two children want."""
    seen: dict[int, str] = {}
    for spec in specs:
        for port in spec.ports:
            other = seen.setdefault(port.number, spec.name) if port.number else spec.name
            if other != spec.name:
                raise LaunchError(f"{spec.name} and {other} both want port {port.number}: set {port.setting}")
            try:
                free = probe.is_free(port.host, port.number)
            except OSError as error:
                raise LaunchError(
                    f"{spec.name} cannot listen on {port.host} ({port.setting}): {error.strerror}"
                ) from error
            if not free:
                raise LaunchError(
                    f"port {port.number} on {port.host}, where {spec.name} would listen, is in use or not allowed: "
                    f"stop the program that holds it, or set {port.setting}"
                )


async def _first_end(tasks: list[asyncio.Task[bool] | asyncio.Task[None]], until: asyncio.Task[bool]) -> None:
    """Wait for ``until``, or for the first task that fails, and raise its error."""
    pending: set[asyncio.Task[bool] | asyncio.Task[None]] = set(tasks)
    while not until.done():
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


async def _keep(one: _Kept, emit: Emit, limits: Limits) -> None:
    """Start the child again and again; returns only by an error."""
    loop = asyncio.get_running_loop()
    while True:
        started = loop.time()
        status = await _run_once(one, emit)
        if status == MISCONFIGURED:
            raise LaunchError(f"{one.spec.name} refuses its settings:\n{_shown(one.tail)}")
        if loop.time() - started >= limits.quick_s:
            one.crashes = 0
        one.crashes += 1
        if one.crashes >= limits.quick_crashes:
            raise LaunchError(f"{one.spec.name} keeps ending ({_ending(status)}); its last lines:\n{_shown(one.tail)}")
        pause = min(limits.longest_pause_s, limits.first_pause_s * 2 ** (one.crashes - 1))
        emit(one.spec.name, f"ended ({_ending(status)}); starting again in {pause:g} s")
        await asyncio.sleep(pause)


async def _run_once(one: _Kept, emit: Emit) -> int:
    spec = one.spec
    starting = asyncio.create_task(child.start(spec.command, spec.environ, lambda line: emit(spec.name, line)))
    try:
        one.child = await asyncio.shield(starting)
    except asyncio.CancelledError:
        one.child = await starting  # it is under way: whoever stops the children must know of it
        raise
    except OSError as error:
        raise LaunchError(f"{spec.name}: cannot run {spec.command[0]}: {error.strerror}") from error
    status = await one.child.ended()
    one.tail, one.child = one.child.tail, None
    return status


async def _announce(kept: Sequence[_Kept], on_ready: Callable[[], None], limits: Limits) -> None:
    try:
        async with asyncio.timeout(limits.ready_s):
            for one in kept:  # in order: whoever relies on others would only say no, and may remember it for a while
                await _ready(one.spec)
    except TimeoutError:
        late = [one for one in kept if one.spec.ready and not await _asked(one.spec.ready)]
        tails = "\n".join(f"{one.spec.name}:\n{_shown(one.child.tail if one.child else one.tail)}" for one in late)
        names = ", ".join(one.spec.name for one in late)
        raise LaunchError(f"not ready after {limits.ready_s:g} s: {names}; last lines of\n{tails}") from None
    on_ready()


async def _ready(spec: ChildSpec) -> None:
    while spec.ready:
        if await _asked(spec.ready):
            return
        await asyncio.sleep(PROBE_PAUSE_S)


def _asked(ready: Probe) -> Awaitable[bool]:
    return probe.says_yes(ready.host, ready.port, ready.path)


async def _stop_in_order(kept: Sequence[_Kept], emit: Emit, limits: Limits) -> None:
    """One after the other, the last listed first; all share one grace, and each has at least a moment of it."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limits.stop_s
    for one in reversed(kept):
        if one.child is not None:
            status = await one.child.stop(max(0.2, deadline - loop.time()))
            emit(one.spec.name, f"stopped ({_ending(status)})")


def _ending(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"


def _shown(tail: Sequence[str]) -> str:
    return "\n".join(f"  {line}" for line in tail) or "  (it wrote nothing)"
