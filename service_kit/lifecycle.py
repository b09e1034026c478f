"""One way to run a service: uvloop, signals to an event, a bounded stop, one line on a crash."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import structlog
import uvloop

from service_kit.settings import SettingsError

STOP_LIMIT_S = 60.0
COLLECT_AFTER = 10_000  # new objects
CRASHED, MISCONFIGURED = 1, 2


class Fatal(Exception):
    """An end that a person can do something about: its text goes to stderr as it is, without a stack."""


Main = Callable[[asyncio.Event], Coroutine[Any, Any, None]]


def run(main: Main, stop_limit_s: float = STOP_LIMIT_S) -> int:
    """Run ``main(stop)`` to its end and return the exit status: 0, 1 after a crash or Fatal, 2 after a SettingsError.

    SIGTERM and SIGINT set ``stop``; main then has ``stop_limit_s`` to return. A second signal ends the process at once.
    """
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_supervised(main, stop_limit_s))
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return MISCONFIGURED
    except Fatal as error:
        sys.stderr.write(f"{error}\n")
        return CRASHED
    except Exception:  # noqa: BLE001 - the edge of the process
        structlog.get_logger().exception("crashed")
        return CRASHED
    return 0


async def _supervised(main: Main, stop_limit_s: float) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, number, stop, stop_limit_s)
    # What is there by now stays. Each request makes some thousand short-lived values: at the usual threshold a tenth of
    # the time goes into looking for cycles among them.
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    await main(stop)


def _on_signal(number: signal.Signals, stop: asyncio.Event, stop_limit_s: float) -> None:
    if stop.is_set():
        _end(128 + number)
    stop.set()
    # A thread, because a loop that hangs would never come to its own timer.
    limit = threading.Timer(stop_limit_s, _end, (CRASHED,))
    limit.daemon = True
    limit.start()


def _end(status: int) -> None:
    sys.stderr.flush()
    os._exit(status)
