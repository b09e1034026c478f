"""The command `llm` reads every shape, in every way, whatever comes of it."""

from __future__ import annotations

import pytest

from tests.clients.matrix import Client, test_also, test_cut_off, test_refused, test_turned_away, test_well

__all__ = ["test_also", "test_cut_off", "test_refused", "test_turned_away", "test_well"]

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]
CLIENTS = {
    "chat": Client("llm_command", can=("typed", "picture")),
    "responses": Client("llm_command", {"responses": True}, can=("typed", "picture"), tells_breaks=False),
}
