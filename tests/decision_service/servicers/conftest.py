"""A decision service on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import uvloop

from tests.decision_service.client import Client
from tests.decision_service.loopback import serving


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the services run on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Client]:
    async with serving(tmp_path) as client:
        yield client
