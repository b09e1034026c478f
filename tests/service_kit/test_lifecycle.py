"""A service's process: how it ends by signals, crashes, bad settings and hanging stops."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

RUN = """
import asyncio, sys, time
from service_kit import lifecycle, log
from service_kit.settings import SettingsError
log.configure("sample")
{body}
sys.exit(lifecycle.run(main{options}))
"""
CLEAN = """
async def main(stop):
    print("started", flush=True)
    await stop.wait()
    print("cleaned up", flush=True)
"""
HANGING = """
async def main(stop):
    print("started", flush=True)
    await stop.wait()
    print("stopping", flush=True)
    {hang}
"""


@contextmanager
def process(body: str, options: str = "") -> Iterator[subprocess.Popen[str]]:
    code = RUN.format(body=body, options=options)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True) as one:
        try:
            yield one
        finally:
            one.kill()


def line(one: subprocess.Popen[str]) -> str:
    assert one.stdout is not None
    return one.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_main_clean_up(number: signal.Signals) -> None:
    with process(CLEAN) as one:
        assert line(one) == "started"
        one.send_signal(number)
        out, err = one.communicate(timeout=10)
    assert (one.returncode, out, err) == (0, "cleaned up\n", "")


def test_a_second_signal_ends_at_once() -> None:
    with process(HANGING.format(hang="await asyncio.sleep(60)")) as one:
        assert line(one) == "started"
        one.send_signal(signal.SIGINT)
        assert line(one) == "stopping"
        one.send_signal(signal.SIGINT)
        assert one.wait(timeout=5) == 128 + signal.SIGINT


@pytest.mark.parametrize("hang", ["await asyncio.sleep(60)", "time.sleep(60)"])
def test_a_stop_that_hangs_is_cut_off(hang: str) -> None:
    with process(HANGING.format(hang=hang), ", stop_limit_s=0.3") as one:
        assert line(one) == "started"
        one.send_signal(signal.SIGTERM)
        assert one.wait(timeout=5) == 1


def test_a_crash_is_one_log_line_and_status_1() -> None:
    with process("async def main(stop):\n    raise ValueError('odd')") as one:
        _, err = one.communicate(timeout=10)
    assert one.returncode == 1
    assert len(err.splitlines()) == 1
    assert '"event":"crashed"' in err
    assert "ValueError: odd" in err


@pytest.mark.parametrize(
    ("error", "status"), [("SettingsError('X: bad')", 2), ("lifecycle.Fatal('X: bad')", 1)], ids=["settings", "fatal"]
)
def test_an_error_for_people_is_told_without_a_stack(error: str, status: int) -> None:
    with process(f"async def main(stop):\n    raise {error}") as one:
        _, err = one.communicate(timeout=10)
    assert (one.returncode, err) == (status, "X: bad\n")
