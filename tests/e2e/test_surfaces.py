"""Every surface through all three services, to providers that speak OpenAI's protocol, and Anthropic's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

import anthropic
import openai
import orjson
import pytest

from omniroute.decision.v1 import decision_pb2
from omniroute.registry.v1 import registry_pb2
from tests.e2e.stack import REQUEST_LIMIT_S, Provided, Stack
from tests.executor.upstream import (
    DONE,
    ROLE,
    USAGE,
    Connection,
    Received,
    Script,
    Upstream,
    answer,
    completion,
    delta,
    error_body,
    event,
    stream,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

Said = tuple[str, str]  # text, and the name and arguments of a call
HELLO: Any = [{"role": "user", "content": "Say hello"}]
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}
HANG_UP_LIMIT_S = 2.0


async def calls_then_tells(received: Received, connection: Connection) -> None:
    """Wants the weather of Oslo first, and tells it once it knows it."""
    results = [message for message in received.body["messages"] if message["role"] == "tool"]
    streams = bool(received.body.get("stream"))
    if results:
        text = f"It is {results[-1]['content']}"
        script = spoken(text) if streams else answer(200, completion(text))
    elif streams:
        call: Any = {"tool_calls": [{"index": 0, **CALL}]}
        finish = event(delta(finish="tool_calls"))
        script = stream(ROLE, event(delta(**call)), finish, event(USAGE), DONE)
    else:
        script = answer(200, completion("", "tool_calls", tool_calls=[CALL]))
    await script(received, connection)


def spoken(*words: str) -> Script:
    deltas = (event(delta(word)) for word in words)
    return stream(ROLE, *deltas, event(delta(finish="stop")), event(USAGE), DONE)


def claude(stack: Stack) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=stack.url, api_key="any", max_retries=0, timeout=REQUEST_LIMIT_S)


# One conversation with a tool, in each dialect: what was asked first, and what goes on with its result.


async def chat(stack: Stack, model: str, *, streamed: bool, result: str = "") -> Said:
    messages: Any = [*HELLO]
    if result:
        messages += [{"role": "assistant", "tool_calls": [CALL]}, tool_message(result)]
    tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
    client = stack.openai()
    if not streamed:
        whole = await client.chat.completions.create(model=model, messages=messages, tools=tools)
        message = whole.choices[0].message
        called: Any = [call.function for call in message.tool_calls or () if call.type == "function"]
        return message.content or "", "".join(f"{each.name}{each.arguments}" for each in called)
    text, call = "", ""
    async for chunk in await client.chat.completions.create(model=model, messages=messages, tools=tools, stream=True):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            functions = [each.function for each in choice.delta.tool_calls or () if each.function is not None]
            call += "".join(f"{function.name or ''}{function.arguments or ''}" for function in functions)
    return text, call


def tool_message(result: str) -> dict[str, str]:
    return {"role": "tool", "tool_call_id": "call_1", "content": result}


async def responses(stack: Stack, model: str, *, streamed: bool, result: str = "") -> Said:
    asked: Any = [*HELLO]
    if result:
        asked += [
            {"type": "function_call", "call_id": "call_1", **CALL["function"]},  # type: ignore[dict-item]
            {"type": "function_call_output", "call_id": "call_1", "output": result},
        ]
    tools: Any = [{"type": "function", "name": "weather", "parameters": SCHEMA}]
    client = stack.openai()
    if not streamed:
        return told(await client.responses.create(model=model, input=asked, tools=tools))
    events = [each async for each in await client.responses.create(model=model, input=asked, tools=tools, stream=True)]
    assert [each.sequence_number for each in events] == list(range(len(events)))
    last = events[-1]
    assert last.type == "response.completed"
    assert "".join(each.delta for each in events if each.type == "response.output_text.delta") == told(last.response)[0]
    return told(last.response)


def told(response: Any) -> Said:
    called = [f"{item.name}{item.arguments}" for item in response.output if item.type == "function_call"]
    return response.output_text, "".join(called)


async def messages(stack: Stack, model: str, *, streamed: bool, result: str = "") -> Said:
    asked: Any = [*HELLO]
    if result:
        use = {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Oslo"}}
        asked += [
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": result}]},
        ]
    tools: Any = [{"name": "weather", "input_schema": SCHEMA}]
    body: Any = {"model": model, "max_tokens": 99, "messages": asked, "tools": tools}
    if streamed:
        async with claude(stack).messages.stream(**body) as events:
            message: Any = await events.get_final_message()
    else:
        message = await claude(stack).messages.create(**body)
    calls = [block for block in message.content if block.type == "tool_use"]
    assert (message.stop_reason == "tool_use") is bool(calls)
    text = "".join(block.text for block in message.content if block.type == "text")
    return text, "".join(f"{call.name}{orjson.dumps(call.input).decode()}" for call in calls)


Dialect = Callable[..., Awaitable[Said]]
DIALECTS: Mapping[str, Dialect] = MappingProxyType({"chat": chat, "responses": responses, "messages": messages})
each_dialect = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
each_way = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])


@each_dialect
@each_way
async def test_an_answer(stack: Stack, dialect: Dialect, streamed: bool) -> None:
    ant = await stack.provider("ant")
    assert await dialect(stack, ant.model, streamed=streamed) == ("Hello", "")
    [received] = ant.upstream.requests
    assert received.path == "/v1/chat/completions"
    assert received.body["model"] == f"{ant.name}-model"
    assert received.body["tools"][0]["function"] == {"name": "weather", "parameters": SCHEMA}
    assert await outcomes(stack, ant) == ["SUCCESS"]


@each_dialect
@each_way
async def test_a_tool_is_called_and_its_result_used(stack: Stack, dialect: Dialect, streamed: bool) -> None:
    ant = await stack.provider("ant", calls_then_tells)
    assert await dialect(stack, ant.model, streamed=streamed) == ("", 'weather{"city":"Oslo"}')
    assert await dialect(stack, ant.model, streamed=streamed, result="sunny") == ("It is sunny", "")
    assert await outcomes(stack, ant) == ["SUCCESS"]
    last = ant.upstream.requests[-1].body["messages"]
    assert [message["role"] for message in last] == ["user", "assistant", "tool"]
    assert last[1]["tool_calls"][0]["id"] == last[2]["tool_call_id"] == "call_1"


@each_dialect
@each_way
async def test_an_error_before_content_moves_on(stack: Stack, dialect: Dialect, streamed: bool) -> None:
    sick, well = await stack.provider("sick", answer(500, error_body())), await stack.provider("well")
    combo = await stack.combo(sick, well)
    assert await dialect(stack, combo, streamed=streamed) == ("Hello", "")
    assert await outcomes(stack, sick) == ["UPSTREAM_ERROR", "SUCCESS"]


@each_dialect
async def test_an_error_of_all_is_told_in_the_clients_words(stack: Stack, dialect: Dialect) -> None:
    sick = await stack.provider("sick", answer(503, error_body("a broken thing")))
    with pytest.raises((openai.InternalServerError, anthropic.InternalServerError)) as caught:
        await dialect(stack, sick.model, streamed=True)
    refused: Any = caught.value
    error = refused.body
    if dialect is messages:
        assert (error["type"], error["error"]["type"]) == ("error", "overloaded_error")
        error = error["error"]
    assert (error["code"], error["attempts"][0]["provider"]) == ("upstream_error", sick.name)
    assert refused.status_code == 503


@each_dialect
async def test_an_error_after_content_ends_the_stream_in_the_clients_words(stack: Stack, dialect: Dialect) -> None:
    sick = await stack.provider("sick", stream(ROLE, event(delta("Hel")), end="cut"))
    if dialect is responses:
        made = await stack.openai().responses.create(model=sick.model, input="hi", stream=True)
        last = [each async for each in made][-1]
        assert last.type == "response.failed"
        assert last.response.error is not None
    else:
        with pytest.raises((openai.APIError, anthropic.APIError)):
            await dialect(stack, sick.model, streamed=True)
    assert await outcomes(stack, sick) == ["INTERRUPTED"]


PATHS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": HELLO}),
    ("/v1/responses", {"input": "hi"}),
    ("/v1/messages", {"messages": HELLO, "max_tokens": 9}),
]


@pytest.mark.parametrize(("path", "body"), PATHS, ids=[path for path, _ in PATHS])
async def test_a_hang_up_reaches_the_provider(stack: Stack, path: str, body: dict[str, Any]) -> None:
    ant = await stack.provider("ant", stream(ROLE, event(delta("Hel")), end="hang"))
    data = orjson.dumps(body | {"model": ant.model, "stream": True})
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.edge_port)
    writer.write(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)
    async with asyncio.timeout(REQUEST_LIMIT_S):
        await reader.readuntil(b"Hel")
    writer.close()
    async with asyncio.timeout(HANG_UP_LIMIT_S):
        await ant.upstream.connections[-1].gone.wait()
    assert await outcomes(stack, ant) == ["CLIENT_CANCELLED"]


VECTORS: dict[str, Any] = {
    "object": "list",
    "model": "served",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -1.0]}],
    "usage": {"prompt_tokens": 1, "total_tokens": 1},
}


@pytest.mark.parametrize("encoding", ["float", "base64"])
async def test_embeddings(stack: Stack, encoding: Any) -> None:
    packed = {"data": [{"object": "embedding", "index": 0, "embedding": "AAAAPwAAgL8="}]}
    vectors = VECTORS if encoding == "float" else VECTORS | packed
    ant = await stack.provider("ant", answer(200, vectors), capabilities=["embeddings"])
    made = await stack.openai().embeddings.with_raw_response.create(
        model=ant.model, input=["one"], encoding_format=encoding, dimensions=2
    )
    assert orjson.loads(made.content)["data"] == vectors["data"]
    [received] = ant.upstream.requests
    assert received.path == "/v1/embeddings"
    assert received.body == {
        "model": f"{ant.name}-model",
        "input": ["one"],
        "encoding_format": encoding,
        "dimensions": 2,
    }
    assert await stack.settled(made.headers["x-omniroute-decision-id"]) == ["SUCCESS"]


async def test_embeddings_move_on_and_a_failure_is_told(stack: Stack) -> None:
    sick = await stack.provider("sick", answer(500, error_body()), capabilities=["embeddings"])
    well = await stack.provider("well", answer(200, VECTORS), capabilities=["embeddings"])
    combo = await stack.combo(sick, well)
    found = await stack.openai().embeddings.create(model=combo, input="one", encoding_format="float")
    assert found.data[0].embedding == [0.5, -1.0]
    with pytest.raises(openai.InternalServerError) as caught:
        await stack.openai().embeddings.create(model=sick.model, input="one")
    assert caught.value.code == "upstream_error"


MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "served",
    "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 10, "output_tokens": 5},
}
MESSAGE_EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": MESSAGE | {"content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
]


async def speaks_anthropic(received: Received, connection: Connection) -> None:
    lines = (f"event: {each['type']}\n".encode() + event(each) for each in MESSAGE_EVENTS)
    script = stream(*lines) if received.body.get("stream") else answer(200, MESSAGE)
    await script(received, connection)


async def anthropic_provider(stack: Stack) -> Provided:
    name = f"claude{next(stack.numbers)}"
    upstream = await Upstream(speaks_anthropic).start()
    stack.upstreams.append(upstream)
    provider = registry_pb2.Provider(id=name, provider_class="api_key", dialect="anthropic", base_url=upstream.url)
    await stack.client.catalog.CreateProvider(registry_pb2.CreateProviderRequest(provider=provider))
    await stack.client.add_model(name, f"{name}-model")
    await stack.client.add_connection(f"{name}-1", name, f"{name}-model", api_key="sk-of-the-operator")
    return Provided(name, upstream)


@each_way
async def test_messages_reach_their_own_kind_as_they_are(stack: Stack, streamed: bool) -> None:
    provided = await anthropic_provider(stack)
    system = [{"type": "text", "text": "Be terse.", "cache_control": {"type": "ephemeral"}}]
    body: Any = {"model": provided.model, "max_tokens": 99, "messages": HELLO, "system": system, "stream": streamed}
    sent = {"anthropic-beta": "some-beta", "anthropic-version": "2023-06-01", "x-api-key": "any"}
    made = await stack.http.post(f"{stack.url}/v1/messages", json=body, headers=sent)
    assert made.status_code == 200
    assert '"text":"Hello"' in made.text
    assert ("event: message_stop" in made.text) is streamed
    [received] = provided.upstream.requests
    assert received.path == "/v1/messages"
    assert received.body == body | {"model": f"{provided.name}-model"}
    assert received.headers["x-api-key"] == "sk-of-the-operator"
    assert (received.headers["anthropic-beta"], received.headers["anthropic-version"]) == ("some-beta", "2023-06-01")
    assert await outcomes(stack, provided) == ["SUCCESS"]


@each_dialect
@each_way
async def test_each_dialect_reaches_a_provider_of_another(stack: Stack, dialect: Dialect, streamed: bool) -> None:
    provided = await anthropic_provider(stack)
    assert await dialect(stack, provided.model, streamed=streamed) == ("Hello", "")
    assert await outcomes(stack, provided) == ["SUCCESS"]


async def outcomes(stack: Stack, first: Provided) -> list[str]:
    """Those of the newest decision whose plan begins with this provider."""
    records = (await stack.client.decisions.ListDecisions(decision_pb2.ListDecisionsRequest())).records
    ids = [r.decision.decision_id for r in records if r.decision.plan.targets[0].provider == first.name]
    return await stack.settled(ids[0])
