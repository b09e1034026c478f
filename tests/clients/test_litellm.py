"""LiteLLM as a client reads every shape, in every way, whatever comes of it."""

from __future__ import annotations

import pytest

from tests.clients.matrix import Client, test_also, test_cut_off, test_refused, test_turned_away, test_well

__all__ = ["test_also", "test_cut_off", "test_refused", "test_turned_away", "test_well"]

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]
CLIENTS = {
    "openai": Client("litellm_client", can=("async", "typed", "picture", "embeddings")),
    "anthropic": Client("litellm_client", {"protocol": "anthropic"}, can=("async", "picture"), retold={503: 500}),
}
