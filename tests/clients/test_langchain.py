"""LangChain's chat models read every shape, in every way, whatever comes of it."""

from __future__ import annotations

import pytest

from tests.clients.matrix import Client, test_also, test_cut_off, test_refused, test_turned_away, test_well

__all__ = ["test_also", "test_cut_off", "test_refused", "test_turned_away", "test_well"]

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]
CLIENTS = {
    "chat": Client("langchain_chat", can=("async", "typed", "typed call", "picture", "embeddings")),
    "responses": Client("langchain_chat", {"responses": True}, can=("async", "typed", "typed call", "picture")),
    "messages": Client("langchain_messages", can=("async", "typed", "typed call", "picture")),
}
