"""Shared by the tests of the command line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import uvloop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the services run on."""
    return {"uvloop": uvloop.new_event_loop}
