"""The launcher with tiny real children: ready, restart, crash loop, order of the stop, no orphans."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from service_kit import metrics, probe
from service_kit.launcher import ChildSpec, LaunchError, Limits, Port, Probe, check_ports, supervise

QUICK = Limits(ready_s=5, stop_s=5, quick_s=60, quick_crashes=3, first_pause_s=0.05, longest_pause_s=0.1)

SLEEPER = """
import signal, sys, time
def end(*_):
    print("ending", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("up", flush=True)
time.sleep(60)
"""
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
LISTENER = """
import asyncio, sys
from service_kit import lifecycle, metrics
async def main(stop):
    server = await metrics.start_metrics_server("127.0.0.1", int(sys.argv[1]))
    await stop.wait()
    await server.stop()
sys.exit(lifecycle.run(main))
"""


def spec(name: str, code: str, *arguments: str, ready: Probe | None = None) -> ChildSpec:
    return ChildSpec(name, (sys.executable, "-c", code, *arguments), dict(os.environ), ready=ready)


@dataclass
class Run:
    """A supervised run; ``lines`` are (child, line) as they came."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self, specs: Sequence[ChildSpec], limits: Limits = QUICK) -> None:
        emit = lambda name, line: self.lines.append((name, line))  # noqa: E731
        await supervise(specs, self.stop, on_ready=self.ready.set, emit=emit, limits=limits)

    async def until(self, name: str, line: str, times: int = 1) -> None:
        async with asyncio.timeout(10):
            while self.lines.count((name, line)) < times:
                await asyncio.sleep(0.01)


async def test_children_stop_in_the_reverse_of_their_order() -> None:
    run = Run()
    task = asyncio.create_task(run.start([spec("first", SLEEPER), spec("second", SLEEPER), spec("third", SLEEPER)]))
    for name in ("first", "second", "third"):
        await run.until(name, "up")
    run.stop.set()
    await asyncio.wait_for(task, 10)
    assert [name for name, line in run.lines if line == "ending"] == ["third", "second", "first"]
    assert [name for name, line in run.lines if line == "stopped (status 0)"] == ["third", "second", "first"]


async def test_a_child_that_ignores_the_signal_is_killed_after_the_grace() -> None:
    run = Run()
    task = asyncio.create_task(run.start([spec("good", SLEEPER), spec("stubborn", STUBBORN)], Limits(stop_s=0.3)))
    await run.until("stubborn", "up")
    await run.until("good", "up")
    run.stop.set()
    await asyncio.wait_for(task, 10)
    assert ("stubborn", "stopped (signal 9)") in run.lines
    assert ("good", "stopped (status 0)") in run.lines


async def test_a_child_that_ends_is_started_again() -> None:
    run = Run()
    code = "import sys; print('up', flush=True); sys.exit(7)"
    task = asyncio.create_task(run.start([spec("weak", code)], Limits(first_pause_s=0.01, quick_crashes=10)))
    await run.until("weak", "up", times=3)
    run.stop.set()
    await asyncio.wait_for(task, 10)
    assert ("weak", "ended (status 7); starting again in 0.01 s") in run.lines
    assert ("weak", "ended (status 7); starting again in 0.02 s") in run.lines


async def test_a_child_killed_from_outside_is_started_again() -> None:
    run = Run()
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    task = asyncio.create_task(run.start([spec("target", code)]))
    async with asyncio.timeout(10):
        while not run.lines:
            await asyncio.sleep(0.01)
        os.kill(int(run.lines[0][1]), signal.SIGKILL)
        while len(run.lines) < 3:
            await asyncio.sleep(0.01)
    run.stop.set()
    await asyncio.wait_for(task, 10)
    assert run.lines[1] == ("target", "ended (signal 9); starting again in 0.05 s")
    assert run.lines[2][1] != run.lines[0][1]


async def test_a_crash_loop_ends_the_whole_and_shows_the_childs_last_lines() -> None:
    run = Run()
    code = "import sys; print('no disk', file=sys.stderr); sys.exit(1)"
    with pytest.raises(LaunchError, match=r"broken keeps ending \(status 1\); its last lines:\n  no disk"):
        await asyncio.wait_for(run.start([spec("steady", SLEEPER), spec("broken", code)]), 10)
    assert [line for name, line in run.lines if name == "broken"].count("no disk") == 3
    assert any(name == "steady" and line.startswith("stopped") for name, line in run.lines)


async def test_slow_crashes_never_end_the_whole() -> None:
    run = Run()
    code = "print('up', flush=True)"
    task = asyncio.create_task(run.start([spec("weak", code)], Limits(quick_s=0, quick_crashes=2, first_pause_s=0.01)))
    await run.until("weak", "up", times=5)
    run.stop.set()
    await asyncio.wait_for(task, 10)


async def test_a_child_that_refuses_its_settings_is_not_tried_again() -> None:
    run = Run()
    code = "import sys; print('OMNIROUTE_X: bad'); sys.exit(2)"
    with pytest.raises(LaunchError, match="strict refuses its settings:\n  OMNIROUTE_X: bad"):
        await asyncio.wait_for(run.start([spec("strict", code)]), 10)
    assert run.lines == [("strict", "OMNIROUTE_X: bad")]


async def test_a_command_that_does_not_exist_is_told() -> None:
    run = Run()
    with pytest.raises(LaunchError, match="ghost: cannot run /no/such/program"):
        await asyncio.wait_for(run.start([ChildSpec("ghost", ("/no/such/program",), {})]), 10)


async def test_ready_is_told_once_all_probes_say_yes(free_ports: list[int]) -> None:
    run = Run()
    specs = [spec(f"c{port}", LISTENER, str(port), ready=Probe("127.0.0.1", port)) for port in free_ports]
    task = asyncio.create_task(run.start(specs, Limits()))
    await asyncio.wait_for(run.ready.wait(), 15)
    for port in free_ports:
        assert await probe.says_yes("127.0.0.1", port, "/readyz")
    run.stop.set()
    await asyncio.wait_for(task, 10)
    assert all(probe.is_free("127.0.0.1", port) for port in free_ports)


async def test_a_child_that_is_never_ready_is_named_with_its_last_lines(free_ports: list[int]) -> None:
    run = Run()
    specs = [spec("late", SLEEPER, ready=Probe("127.0.0.1", free_ports[0])), spec("other", SLEEPER)]
    with pytest.raises(LaunchError, match=r"not ready after 1 s: late; last lines of\nlate:\n  up"):
        await asyncio.wait_for(run.start(specs, Limits(ready_s=1)), 10)
    assert not run.ready.is_set()


async def test_a_taken_port_is_told_before_anything_starts() -> None:
    run = Run()
    server = await metrics.start_metrics_server("127.0.0.1", 0)
    taken = ChildSpec("edge", (sys.executable,), {}, (Port("127.0.0.1", server.port, "OMNIROUTE_EDGE_PORT"),))
    with pytest.raises(LaunchError, match=rf"port {server.port} .* edge .* in use .* OMNIROUTE_EDGE_PORT"):
        await asyncio.wait_for(run.start([spec("first", SLEEPER), taken]), 10)
    await server.stop()
    assert run.lines == []


def test_ports_that_collide_or_are_not_ours_are_told() -> None:
    two = [ChildSpec(name, ("x",), {}, (Port("127.0.0.1", 1234, f"SET_{name}"),)) for name in "ab"]
    with pytest.raises(LaunchError, match="b and a both want port 1234: set SET_b"):
        check_ports(two)
    with pytest.raises(LaunchError, match=r"a cannot listen on 203\.0\.113\.1 \(SET\)"):
        check_ports([ChildSpec("a", ("x",), {}, (Port("203.0.113.1", 1234, "SET"),))])
    check_ports([ChildSpec(name, ("x",), {}, (Port("127.0.0.1", 0, "SET"),)) for name in "ab"])


async def test_output_without_end_is_cut_into_lines_and_bounded() -> None:
    run = Run()
    code = "import sys, time; sys.stdout.write('x' * 100_000 + '\\nlast'); sys.stdout.flush(); time.sleep(0.1)"
    with pytest.raises(LaunchError, match=r"  last$"):
        await asyncio.wait_for(run.start([spec("loud", code)], Limits(quick_crashes=1)), 10)
    assert max(len(line) for _, line in run.lines) <= 2 * 8_192 + 1
    assert sum(line.count("x") for _, line in run.lines) == 100_000


LAUNCHER = f"""
import asyncio, os, sys
from service_kit import lifecycle
from service_kit.launcher import ChildSpec, supervise
SPECS = [ChildSpec(n, (sys.executable, "-c", {STUBBORN!r} if n == "stubborn" else {SLEEPER!r}), dict(os.environ))
         for n in sys.argv[1:]]
def emit(name, line):
    print(name, line, flush=True)
sys.exit(lifecycle.run(lambda stop: supervise(SPECS, stop, on_ready=lambda: None, emit=emit)))
"""


def children_of(pid: int) -> set[int]:
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def start_launcher(*names: str) -> tuple[subprocess.Popen[str], set[int]]:
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER, *names], stdout=subprocess.PIPE, text=True)
    assert launcher.stdout is not None
    for _ in names:
        assert launcher.stdout.readline().endswith("up\n")
    return launcher, children_of(launcher.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="only the Linux kernel stops children with their parent")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_however_the_launcher_ends_no_child_is_left(number: signal.Signals) -> None:
    launcher, pids = start_launcher("a", "b")
    try:
        assert len(pids) == 2
        launcher.send_signal(number)
        launcher.communicate(timeout=10)
        deadline = time.monotonic() + 5
        while any(map(alive, pids)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not any(map(alive, pids))
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        launcher.kill()


def test_a_ctrl_c_at_the_terminal_reaches_only_the_launcher() -> None:
    launcher, pids = start_launcher("a")
    try:
        assert {os.getsid(pid) for pid in pids} != {os.getsid(launcher.pid)}
    finally:
        launcher.terminate()
        launcher.communicate(timeout=10)
