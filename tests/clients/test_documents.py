"""What the gateway says is what the vendors' own OpenAPI documents describe: answers, events, models, errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tests.clients.documents import faults
from tests.clients.heard import DESCRIPTION, LOOK_UP, PARAMETERS
from tests.clients.matrix import EVERY, MODES, VECTORS
from tests.clients.shapes import QUESTION, SHAPES, Ask, Fate, World
from tests.e2e.stack import Answer
from tests.executor.upstream import answer

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASKED: Any = [{"role": "user", "content": QUESTION}]
FUNCTION: Any = {"name": LOOK_UP, "description": DESCRIPTION, "parameters": PARAMETERS}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "messages": ASKED,
        "tools": [{"type": "function", "function": FUNCTION}],
        "stream_options": {"include_usage": True},
    },
    "/v1/responses": {"input": ASKED, "tools": [{"type": "function", "strict": False, **FUNCTION}]},
    "/v1/messages": {
        "messages": ASKED,
        "max_tokens": 99,
        "tools": [{"name": LOOK_UP, "description": DESCRIPTION, "input_schema": PARAMETERS}],
    },
}
# By path: whose document, and what an answer, an event (if it has no type of its own) and an error are called there.
DESCRIBED = {
    "/v1/chat/completions": (
        "openai",
        "CreateChatCompletionResponse",
        "CreateChatCompletionStreamResponse",
        "ErrorResponse",
    ),
    "/v1/responses": ("openai", "Response", "", "ErrorResponse"),
    "/v1/messages": ("anthropic", "Message", "", "ErrorResponse"),
}
PATHS = pytest.mark.parametrize("path", BODIES)


async def asked(world: World, ask: Ask, path: str, *, streamed: bool) -> Answer:
    body = {"model": ask.model, **BODIES[path], "stream": streamed}
    if not ask.calls:
        del body["tools"]
    if not streamed:
        body.pop("stream_options", None)
    headers = {"authorization": f"Bearer {ask.key}", **ask.headers}
    return await world.stack.post(orjson.dumps(body), headers, path)


def events(got: Answer) -> Iterator[Any]:
    """The payloads of a stream but its mark of the end; a name of an event is that of its payload."""
    for told in got.body.decode().strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in told.split("\n"))
        if fields["data"] != "[DONE]":
            payload = orjson.loads(fields["data"])
            assert fields.get("event", payload.get("type")) == payload.get("type")
            yield payload


@PATHS
@MODES
@EVERY
async def test_answers(world: World, path: str, shape: str, streamed: bool) -> None:
    vendor, whole, event, _ = DESCRIBED[path]
    got = await asked(world, await SHAPES[shape](world, Fate.WELL), path, streamed=streamed)
    assert got.status == 200
    if streamed:
        assert [fault for each in events(got) for fault in faults(vendor, event, each)] == []
    else:
        assert faults(vendor, whole, got.json) == []


@PATHS
@EVERY
async def test_refusals(world: World, path: str, shape: str) -> None:
    vendor, _, _, error = DESCRIBED[path]
    ask = await SHAPES[shape](world, Fate.REFUSED)
    got = await asked(world, ask, path, streamed=True)
    assert got.status == ask.status
    assert faults(vendor, error, got.json) == []


@PATHS
async def test_a_stream_that_breaks(world: World, path: str) -> None:
    vendor, _, event, error = DESCRIBED[path]
    got = await asked(world, await SHAPES["single"](world, Fate.CUT), path, streamed=True)
    *well, last = events(got)
    assert [fault for each in well for fault in faults(vendor, event, each)] == []
    assert faults(vendor, "ResponseFailedEvent" if path == "/v1/responses" else error, last) == []


async def test_embeddings(world: World) -> None:
    last = await world.stack.provider("last", answer(200, VECTORS), capabilities=["embeddings"])
    body = orjson.dumps({"model": last.model, "input": ["one", "two"]})
    got = await world.stack.post(body, {"authorization": f"Bearer {world.key}"}, "/v1/embeddings")
    assert faults("openai", "CreateEmbeddingResponse", got.json) == []


LISTS = {"openai": ("ListModelsResponse", "Model"), "anthropic": ("ListResponse_ModelInfo_", "ModelInfo")}


@pytest.mark.parametrize("vendor", LISTS)
async def test_models(world: World, vendor: str) -> None:
    headers = {"authorization": f"Bearer {world.key}"}
    if vendor == "anthropic":
        headers["anthropic-version"] = "2023-06-01"
    every, one = LISTS[vendor]
    listed = await world.stack.get("/v1/models", headers)
    assert faults(vendor, every, listed.json) == []
    found = await world.stack.get(f"/v1/models/{listed.json['data'][0]['id']}", headers)
    assert faults(vendor, one, found.json) == []
    missing = await world.stack.get("/v1/models/nothing", headers)
    assert missing.status == 404
    assert faults(vendor, "ErrorResponse", missing.json) == []


async def test_counted_tokens(world: World) -> None:
    ask = await SHAPES["single"](world, Fate.WELL)
    body = orjson.dumps({"model": ask.model, "messages": ASKED})
    got = await world.stack.post(body, {"authorization": f"Bearer {ask.key}"}, "/v1/messages/count_tokens")
    assert faults("anthropic", "CountMessageTokensResponse", got.json) == []


async def test_a_fault_is_found() -> None:
    chunk: Any = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}
    assert faults("openai", "CreateChatCompletionStreamResponse", chunk) == []
    assert faults("openai", "CreateChatCompletionStreamResponse", chunk | {"choices": [{}]})
    assert faults("openai", "", {"type": "response.created", "sequence_number": 0, "response": {}})
    assert faults("anthropic", "", {"type": "content_block_stop"})
