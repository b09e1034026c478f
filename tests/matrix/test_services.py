"""The same through the three services: what an upstream answers becomes the gate that the next request meets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count, cycle
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.stack import Provided, Stack, running
from tests.executor.upstream import Script, answer, error_body
from tests.matrix.policies import SINGLE_SHAPE

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUOTA = error_body("You exceeded your current quota", code="insufficient_quota")
MISSING = error_body("The model does not exist", code="model_not_found")
FAILURES: dict[str, Script] = {
    "429": answer(429, error_body("Slow down"), {"retry-after": "90"}),
    "429-quota": answer(429, QUOTA),
    "401": answer(401, error_body("Incorrect API key provided")),
    "404": answer(404, MISSING),
    "529": answer(529, error_body("Overloaded"), {"retry-after": "90"}),
}
STRATEGIES: dict[str, dict[str, Any]] = {
    **{name: {"strategy": name} for name in SINGLE_SHAPE},
    "quota-share": {"quotaShare": True},
}
SURELY = 30
CONVERSATIONS = count(1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    async with running(tmp_path_factory.mktemp("stack")) as stack:
        yield stack


async def served(stack: Stack, combo: str) -> str:
    """Who answered a request, once all of it is known to the decision service."""
    answered = await stack.chat(combo, f"Conversation {next(CONVERSATIONS)}")
    assert answered.status == 200, answered.body
    await stack.settled(answered.decision_id)
    return answered.provider


async def pair(stack: Stack, strategy: str, *scripts: Script) -> tuple[Provided, Provided, str]:
    """Two providers, the first of which plays these scripts, and a combo over them."""
    first, second = await stack.provider("ill", *scripts), await stack.provider("well")
    return first, second, await stack.combo(first, second, **STRATEGIES[strategy])


@pytest.mark.parametrize(("strategy", "failure"), list(zip(STRATEGIES, cycle(FAILURES), strict=False)))
async def test_who_failed_once_is_not_asked_again(stack: Stack, strategy: str, failure: str) -> None:
    """The client notices nothing: the request that meets the failure is answered by the other one."""
    ill, well, combo = await pair(stack, strategy, FAILURES[failure])
    for _ in range(SURELY):
        assert await served(stack, combo) == well.name
        if ill.upstream.requests:
            break
    for _ in range(3):
        assert await served(stack, combo) == well.name
    assert len(ill.upstream.requests) == 1


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_where_all_are_limited_the_client_is_told_for_how_long(stack: Stack, strategy: str) -> None:
    ill, other, combo = await pair(stack, strategy, FAILURES["429"])
    other.plays(answer(429, error_body("Slow down"), {"retry-after": "60"}))
    failed = await stack.chat(combo)
    assert (failed.status, failed.headers["retry-after"]) == (429, "60")
    assert [len(each.upstream.requests) for each in (ill, other)] == [1, 1]
    await stack.settled(failed.headers["x-omniroute-decision-id"])
    refused = await stack.chat(combo)
    assert (refused.status, refused.error["code"]) == (429, "no_available_target")
    assert 30 < int(refused.headers["retry-after"]) <= 60
    assert [len(each.upstream.requests) for each in (ill, other)] == [1, 1], "nobody was called"
