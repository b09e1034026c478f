"""Plans of several calls for clients of every dialect: judged, lone and shown answers, and errors, in their form."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from omniroute.decision.v1.decision_pb2 import Plan
from omniroute.executor.v1 import executor_pb2
from tests.executor.conftest import Answer, House, target
from tests.executor.shapes.plans import fanout, fusion, pipeline, run, says
from tests.executor.upstream import answer, error_body

MESSAGES = executor_pb2.CLIENT_DIALECT_ANTHROPIC_MESSAGES
RESPONSES = executor_pb2.CLIENT_DIALECT_OPENAI_RESPONSES
BODIES: dict[int, dict[str, Any]] = {
    MESSAGES: {"model": "auto", "max_tokens": 99, "messages": [{"role": "user", "content": "say hello"}]},
    RESPONSES: {"model": "auto", "input": "say hello"},
}
ENDS: dict[int, bytes] = {MESSAGES: b"event: message_stop\n", RESPONSES: b"event: response.completed\n"}
EVERY = pytest.mark.parametrize("dialect", BODIES, ids=["messages", "responses"])
MODES = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])


async def asked(house: House, plan: Plan, dialect: int, streamed: bool) -> Answer:
    body = orjson.dumps({**BODIES[dialect], "stream": streamed})
    return await run(house, plan, body, client_dialect=dialect)


def texts(got: Answer, dialect: int) -> str:
    """The text of a plain answer."""
    if dialect == MESSAGES:
        return "".join(block["text"] for block in got.json["content"])
    return "".join(part["text"] for item in got.json["output"] for part in item["content"])


@EVERY
@MODES
@pytest.mark.parametrize("shape", ["judged", "lone", "pipeline", "fanout"])
async def test_answers(house: House, dialect: int, streamed: bool, shape: str) -> None:
    ant, bad = await house.upstream(says("antsays")), await house.upstream(answer(500, error_body()))
    last = await house.upstream(says("lastsays"))
    plan = {
        "judged": fusion([target(ant, "1"), target(ant, "2")], target(last, "judge")),
        "lone": fusion([target(bad, "1"), target(ant, "2")], target(last, "judge")),
        "pipeline": pipeline(target(ant, "1"), target(last, "2")),
        "fanout": fanout(target(ant, "1"), target(last, "2")),
    }[shape]
    got = await asked(house, plan, dialect, streamed)
    assert got.head.status == 200
    word = "lastsays" if shape in ("judged", "pipeline") else "antsays"
    if streamed:
        assert got.headers["content-type"].startswith("text/event-stream")
        assert ENDS[dialect] in got.data
        assert b"[DONE]" not in got.data
        assert word[:2].encode() in got.data
    else:
        assert texts(got, dialect) == word
    assert ant.requests[0].body["messages"] == [{"role": "user", "content": "say hello"}]


@EVERY
@MODES
async def test_errors(house: House, dialect: int, streamed: bool) -> None:
    bad = await house.upstream(answer(500, error_body("broken")))
    got = await asked(house, fusion([target(bad, "1"), target(bad, "2")], target(bad, "judge")), dialect, streamed)
    assert got.head.status == 503
    assert "broken" in got.json["error"]["message"]
    assert (got.json.get("type") == "error") is (dialect == MESSAGES)
