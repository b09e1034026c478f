"""The vendors' own clients read every shape, in every way, whatever comes of it."""

from __future__ import annotations

import pytest

from tests.clients.matrix import Client, test_also, test_cut_off, test_refused, test_turned_away, test_well

__all__ = ["test_also", "test_cut_off", "test_refused", "test_turned_away", "test_well"]

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]
CLIENTS = {
    "chat": Client("openai_chat", can=("async", "typed", "picture", "embeddings")),
    "responses": Client("openai_responses", can=("async", "typed", "picture")),
    "messages": Client("anthropic_messages", can=("async", "typed", "picture", "counting")),
}
