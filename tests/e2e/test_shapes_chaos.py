"""The channel `auto/chaos`: one model a provider, all at once. It takes the whole pool, so the stack is its own."""

from __future__ import annotations

import pytest
import pytest_asyncio

from tests.e2e.stack import Stack
from tests.e2e.test_shapes import MODES, last_decision, said, told
from tests.executor.shapes.plans import TOOL, says
from tests.executor.upstream import answer, error_body

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def zoo(stack: Stack) -> Stack:
    """A stack with a pool of three, one of which refuses everything without being to blame."""
    await stack.provider("ant", says("in hills"))
    await stack.provider("bad", answer(400, error_body("flagged", code="content_policy_violation")))
    await stack.provider("cat", says("on sofas"))
    return stack


@MODES
async def test_every_provider_answers_and_the_first_has_the_last_word(zoo: Stack, streamed: bool) -> None:
    if streamed:
        text = await said(zoo, "auto/chaos", streamed=True)
        shown, primary = text[: -len("in hills")], text[-len("in hills") :]
        assert primary == "in hills"
        assert "/ant1-model**\n\nin hills\n\n" in shown
        assert "/cat3-model**\n\non sofas\n\n" in shown
    else:
        served = await zoo.chat("auto/chaos")
        assert (served.status, served.text, served.attempts) == (200, "in hills", 3)
        panel = served.json["omniroute"]["panel"]
        assert [(row["provider"], row["ok"]) for row in panel] == [("ant1", True), ("bad2", False), ("cat3", True)]
        assert panel[2]["content"] == "on sofas"
    record = await last_decision(zoo, "auto/chaos")
    assert sorted(told(record).values()) == ["CONTENT_POLICY", "SUCCESS", "SUCCESS"]


async def test_a_request_with_tools_is_the_primarys_alone(zoo: Stack) -> None:
    served = await zoo.chat("auto/chaos", tools=[TOOL])
    assert (served.status, served.text, served.attempts) == (200, "in hills", 1)


async def test_none_is_well(zoo: Stack) -> None:
    for upstream in zoo.upstreams:
        upstream.scripts = [answer(500, error_body("broken"))]
    served = await zoo.chat("auto/chaos", stream=True)
    assert served.status == 502
    assert len(served.error["members"]) >= 2
