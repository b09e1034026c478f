"""Each surface as its dialect's own client sees it, with played services behind the edge."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import httpx
import openai
import orjson
import pytest

from omniroute.decision.v1 import decision_pb2
from omniroute.executor.v1 import executor_pb2
from omniroute.registry.v1.registry_pb2 import AdvertisedModel, ApiKey
from service_kit.errors import Reason, ServiceError, invalid
from tests.edge_gateway import fakes
from tests.edge_gateway.conftest import House, Open
from tests.edge_gateway.fakes import Event, FakeDecision, chunk, done, head, outcome, playing, stream_head

HELLO: Any = [{"role": "user", "content": "Say hello"}]


def events(*payloads: dict[str, Any]) -> list[Event]:
    """One chunk for each event of a stream whose events have names."""
    lines = ((each["type"].encode(), orjson.dumps(each)) for each in payloads)
    return [chunk(b"event: " + name + b"\ndata: " + data + b"\n\n") for name, data in lines]


MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m1",
    "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 1},
}
MESSAGE_BEGINS = events(
    {"type": "message_start", "message": MESSAGE | {"content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
)
MESSAGE_ENDS = events(
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
)
PART = {"type": "output_text", "text": "Hello", "annotations": []}
RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "m1",
    "status": "completed",
    "output": [{"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": [PART]}],
    "usage": {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4},
}
RESPONSE_BEGINS = events(
    {"type": "response.created", "sequence_number": 0, "response": RESPONSE | {"status": "in_progress", "output": []}},
    {
        "type": "response.output_text.delta",
        "sequence_number": 1,
        "item_id": "i",
        "output_index": 0,
        "content_index": 0,
        "delta": "Hello",
    },
)


def response_ends(status: str = "completed") -> list[Event]:
    return events({"type": f"response.{status}", "sequence_number": 2, "response": RESPONSE | {"status": status}})


def plain(answer: dict[str, Any]) -> fakes.Script:
    return playing(head(), chunk(orjson.dumps(answer)), outcome(), done())


def claude(house: House, **given: Any) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=house.url, max_retries=0, timeout=10, **({"api_key": "any"} | given))


async def post(house: House, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=10) as client:
        return await client.post(house.url + path, json=body, headers=headers)


# Messages


async def test_a_message(open_house: Open) -> None:
    house = await open_house(plain(MESSAGE))
    async with claude(house) as client:
        raw = await client.messages.with_raw_response.create(
            model="auto/coding", max_tokens=9, messages=HELLO, extra_headers={"anthropic-beta": "some-beta"}
        )
    assert (await raw.parse()).content[0].model_dump()["text"] == "Hello"
    assert raw.headers["x-omniroute-decision-id"] == "d-1"
    assert raw.headers["x-omniroute-cost-usd"] == "0.0005"
    [asked], [executed] = house.decision.asked, house.executor.asked
    assert (asked.model, asked.features.max_output_tokens) == ("auto/coding", 9)
    assert executed.client_dialect == executor_pb2.CLIENT_DIALECT_ANTHROPIC_MESSAGES
    given = {header.name: header.value for header in executed.client_headers}
    assert given.keys() == {"anthropic-beta", "anthropic-version"}
    assert given["anthropic-beta"] == "some-beta"


async def test_a_message_stream(open_house: Open) -> None:
    house = await open_house(playing(stream_head(), *MESSAGE_BEGINS, *MESSAGE_ENDS, outcome(), done()))
    async with claude(house) as client, client.messages.stream(model="auto", max_tokens=9, messages=HELLO) as stream:
        words = [word async for word in stream.text_stream]
        final = await stream.get_final_message()
    assert (words, final.stop_reason) == (["Hello"], "end_turn")
    assert house.decision.asked[0].features.stream
    [reported] = await house.decision.wait_for_outcomes(1)
    assert reported.outcome_class == decision_pb2.OUTCOME_CLASS_SUCCESS


async def test_a_message_body_travels_unchanged(open_house: Open) -> None:
    house = await open_house(plain(MESSAGE))
    body = b'{"model":"auto", "max_tokens":9, "messages":[{"role":"user","content":"h\\u00e9"}], "x_new":[1.50]}'
    async with httpx.AsyncClient() as client:
        answer = await client.post(f"{house.url}/v1/messages?beta=true", content=body)
    assert answer.status_code == 200
    assert house.executor.asked[0].body == body


MESSAGE_REFUSALS = [
    (ServiceError(Reason.MODEL_NOT_FOUND, "no such model"), 404, "not_found_error", "model_not_found"),
    (ServiceError(Reason.CAPABILITY_MISMATCH, "no vision"), 400, "invalid_request_error", "capability_mismatch"),
    (ServiceError(Reason.KEY_BUDGET_EXCEEDED, "spent"), 402, "billing_error", "insufficient_quota"),
    (ServiceError(Reason.POLICY_EXCLUDES_ALL, "hidden"), 403, "permission_error", "policy_excludes_all"),
    (ServiceError(Reason.RATE_LIMIT_EXCEEDED, "slow down"), 429, "rate_limit_error", "rate_limit_exceeded"),
    (ServiceError(Reason.NO_AVAILABLE_TARGET, "all rest"), 503, "overloaded_error", "no_available_target"),
    (ServiceError(Reason.INTERNAL, "a secret"), 500, "api_error", "internal_error"),
    (invalid("features.input_tokens", "-1", ">= 0"), 400, "invalid_request_error", "invalid_value"),
]


@pytest.mark.parametrize(("refusal", "status", "kind", "code"), MESSAGE_REFUSALS, ids=lambda value: str(value)[:30])
async def test_a_message_refused(house: House, refusal: ServiceError, status: int, kind: str, code: str) -> None:
    house.decision.refusal = refusal
    async with claude(house) as client:
        with pytest.raises(anthropic.APIStatusError) as caught:
            await client.messages.create(model="auto", max_tokens=9, messages=HELLO)
    assert caught.value.status_code == status
    told: Any = caught.value.body
    assert (told["type"], told["error"]["type"], told["error"]["code"]) == ("error", kind, code)
    assert "secret" not in told["error"]["message"]


async def test_a_malformed_message_is_refused_by_name(house: House) -> None:
    answer = await post(house, "/v1/messages", {"model": "auto", "messages": HELLO})
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (400, "invalid_request_error", "max_tokens")
    assert not house.decision.asked


@pytest.mark.parametrize("place", ["api_key", "auth_token"])
async def test_keys_in_either_place(open_house: Open, place: str) -> None:
    key = ApiKey(id="key-7", scopes=["inference"])
    house = await open_house(plain(MESSAGE), decision=FakeDecision(keys={"right": key}))
    async with claude(house, **{"api_key": None, place: "right"}) as client:
        await client.messages.create(model="auto", max_tokens=9, messages=HELLO)
    assert house.decision.asked[0].api_key_id == "key-7"
    async with claude(house, **{"api_key": None, place: "wrong"}) as client:
        with pytest.raises(anthropic.AuthenticationError) as caught:
            await client.messages.create(model="auto", max_tokens=9, messages=HELLO)
    body: Any = caught.value.body
    assert body["error"]["type"] == "authentication_error"


async def test_a_broken_message_stream_ends_with_an_error_event(open_house: Open) -> None:
    house = await open_house(playing(stream_head(), *MESSAGE_BEGINS))
    async with claude(house) as client:
        stream = await client.messages.create(model="auto", max_tokens=9, messages=HELLO, stream=True)
        kinds = [(await anext(stream)).type for _ in MESSAGE_BEGINS]
        with pytest.raises(anthropic.APIStatusError) as caught:
            await anext(stream)
    assert kinds[-1] == "content_block_delta"
    body: Any = caught.value.body
    assert (body["type"], body["error"]["type"], body["error"]["code"]) == ("error", "api_error", "answer_interrupted")


async def test_problems_before_the_endpoint_speak_the_dialect_too(open_house: Open) -> None:
    house = await open_house(edge_max_body_bytes=100)
    async with httpx.AsyncClient() as client:
        wrong_method = await client.get(f"{house.url}/v1/messages")
    too_large = await post(house, "/v1/messages", {"model": "m" * 200})
    nowhere = await post(house, "/v1/messages/batches", {})
    assert [answer.status_code for answer in (wrong_method, too_large, nowhere)] == [405, 413, 404]
    kinds = [answer.json()["error"]["type"] for answer in (wrong_method, too_large, nowhere)]
    assert kinds == ["invalid_request_error", "request_too_large", "not_found_error"]
    assert "type" not in (await post(house, "/v1/responses", {"model": "m" * 200})).json()


async def test_tokens_are_counted_without_a_decision(house: House) -> None:
    async with claude(house) as client:
        short = await client.messages.count_tokens(model="auto", messages=HELLO)
        tool: Any = {"name": "look", "input_schema": {"type": "object"}}
        long = await client.messages.count_tokens(model="auto", system="Be terse.", messages=HELLO, tools=[tool])
        with pytest.raises(anthropic.BadRequestError, match="messages"):
            await client.messages.count_tokens(model="auto", messages=[])
    assert 3 <= short.input_tokens < 10 < long.input_tokens
    assert not house.decision.asked
    assert not house.executor.asked


async def test_counting_needs_a_key_where_keys_exist(open_house: Open) -> None:
    house = await open_house(decision=FakeDecision(keys={"right": ApiKey(id="key-7", scopes=["inference"])}))
    async with claude(house, api_key="wrong") as client:
        with pytest.raises(anthropic.AuthenticationError):
            await client.messages.count_tokens(model="auto", messages=HELLO)


async def test_models_as_anthropic_lists_them(house: House) -> None:
    house.decision.models = [
        AdvertisedModel(id="auto", owned_by="omniroute"),
        AdvertisedModel(id="p/m", owned_by="p", context_length=1000),
    ]
    async with claude(house) as client:
        listed = [model async for model in client.models.list()]
        one = await client.models.retrieve("p/m")
        with pytest.raises(anthropic.NotFoundError) as caught:
            await client.models.retrieve("nothing")
    assert [(model.id, model.type, model.display_name) for model in listed] == [
        ("auto", "model", "auto"),
        ("p/m", "model", "p/m"),
    ]
    assert (one.max_input_tokens, one.max_tokens, one.created_at.year) == (1000, None, 1970)
    body: Any = caught.value.body
    assert body["error"]["type"] == "not_found_error"


# Responses


async def test_a_response(open_house: Open) -> None:
    house = await open_house(plain(RESPONSE))
    async with house.openai() as client:
        raw = await client.responses.with_raw_response.create(model="auto/coding", input="Say hello", store=False)
    assert raw.parse().output_text == "Hello"
    assert raw.headers["x-omniroute-decision-id"] == "d-1"
    [asked], [executed] = house.decision.asked, house.executor.asked
    assert (asked.model, asked.features.last_user_text) == ("auto/coding", "Say hello")
    assert executed.client_dialect == executor_pb2.CLIENT_DIALECT_OPENAI_RESPONSES
    assert not executed.client_headers


@pytest.mark.parametrize("status", ["completed", "incomplete"])
async def test_a_response_stream(open_house: Open, status: str) -> None:
    script = fakes.then_hang(stream_head(), *RESPONSE_BEGINS, *response_ends(status))
    house = await open_house(script)
    async with house.openai() as client, asyncio.timeout(5):
        stream = await client.responses.create(model="auto", input="Say hello", stream=True)
        kinds = [event.type async for event in stream]
    assert kinds == ["response.created", "response.output_text.delta", f"response.{status}"]
    [closing] = await house.decision.wait_for_outcomes(1)
    assert closing.outcome_class == decision_pb2.OUTCOME_CLASS_SUCCESS, "the end went out, whatever comes of the rest"


async def test_a_failed_response_is_no_success(open_house: Open) -> None:
    house = await open_house(playing(stream_head(), *RESPONSE_BEGINS, *response_ends("failed"), done()))
    async with house.openai() as client:
        stream = await client.responses.create(model="auto", input="Say hello", stream=True)
        kinds = [event.type async for event in stream]
    assert kinds[-1] == "response.failed"
    [closing] = await house.decision.wait_for_outcomes(1)
    assert closing.outcome_class != decision_pb2.OUTCOME_CLASS_SUCCESS


async def test_a_broken_response_stream_ends_with_a_numbered_error_event(open_house: Open) -> None:
    house = await open_house(playing(stream_head(), *RESPONSE_BEGINS))
    async with house.openai() as client:
        stream = await client.responses.create(model="auto", input="Say hello", stream=True)
        kinds = [(await anext(stream)).type for _ in RESPONSE_BEGINS]
        with pytest.raises(openai.APIError, match="broke off"):
            await anext(stream)
    assert kinds[-1] == "response.output_text.delta"
    answer = await post(house, "/v1/responses", {"model": "auto", "input": "hi", "stream": True})
    name, data = answer.text.strip().split("\n\n")[-1].split("\n")
    told = orjson.loads(data.removeprefix("data: "))
    assert (name, told["type"], told["code"], told["param"]) == ("event: error", "error", "answer_interrupted", None)
    assert told["sequence_number"] == len(RESPONSE_BEGINS)


async def test_what_would_need_a_memory_is_refused(house: House) -> None:
    async with house.openai() as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(model="auto", input="hi", previous_response_id="resp_1")
    assert (caught.value.param, caught.value.code) == ("previous_response_id", "invalid_value")
    assert not house.decision.asked


async def test_a_refusal_by_the_executor_names_the_field(open_house: Open) -> None:
    async def refusing(request: executor_pb2.ExecuteRequest) -> Any:
        if request.body:
            raise invalid("input[0].type", "item_reference", "an item itself")
        yield done()

    house = await open_house(refusing)
    async with house.openai() as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(model="auto", input="hi")
    assert caught.value.param == "input[0].type"
    [closing] = await house.decision.wait_for_outcomes(1)
    assert (closing.outcome_class, closing.final) == (decision_pb2.OUTCOME_CLASS_LOCAL_CANCELLED, True)


@pytest.mark.parametrize(
    ("path", "field"),
    [("/v1/chat/completions", "messages"), ("/v1/responses", "input"), ("/v1/messages", "messages")],
)
async def test_a_conversation_too_long_is_named_by_its_field(house: House, path: str, field: str) -> None:
    house.decision.refusal = ServiceError(Reason.CONTEXT_LENGTH_EXCEEDED, "too long")
    body = {"model": "auto", "max_tokens": 9, "messages": HELLO, "input": "hi"}
    answer = await post(house, path, body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)


# Embeddings


VECTORS: dict[str, Any] = {
    "object": "list",
    "model": "m1",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -1.0]}],
    "usage": {"prompt_tokens": 1, "total_tokens": 1},
}


async def test_embeddings(open_house: Open) -> None:
    house = await open_house(plain(VECTORS))
    async with house.openai() as client:
        found = await client.embeddings.create(model="p/embed", input=["one", "two"], encoding_format="float")
    assert found.data[0].embedding == [0.5, -1.0]
    [asked], [executed] = house.decision.asked, house.executor.asked
    assert asked.features.operation == executed.operation == decision_pb2.OPERATION_EMBEDDINGS
    assert (asked.features.input_tokens, asked.session_id, asked.features.last_user_text) == (2, "", "")
    assert orjson.loads(executed.body)["encoding_format"] == "float"


async def test_embeddings_in_base64(open_house: Open) -> None:
    packed = VECTORS | {"data": [{"object": "embedding", "index": 0, "embedding": "AAAAPwAAgL8="}]}
    house = await open_house(plain(packed))
    async with house.openai() as client:
        found = await client.embeddings.create(model="p/embed", input="one")
    assert found.data[0].embedding == [0.5, -1.0], "what this client asks for by itself, and unpacks"
    assert orjson.loads(house.executor.asked[0].body)["encoding_format"] == "base64"


async def test_wrong_input_of_embeddings(house: House) -> None:
    async with house.openai() as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.embeddings.create(model="p/embed", input=[])
    assert (caught.value.param, caught.value.code) == ("input", "invalid_value")
    assert not house.decision.asked


# Hang-ups


@pytest.mark.parametrize(
    ("path", "body", "script"),
    [
        ("/v1/messages", {"model": "auto", "max_tokens": 9, "messages": HELLO}, MESSAGE_BEGINS),
        ("/v1/responses", {"model": "auto", "input": "hi"}, RESPONSE_BEGINS),
    ],
    ids=["messages", "responses"],
)
async def test_hang_up_in_a_stream(open_house: Open, path: str, body: dict[str, Any], script: list[Event]) -> None:
    house = await open_house(fakes.then_hang(stream_head(), *script))
    data = orjson.dumps(body | {"stream": True})
    reader, writer = await house.connect()
    writer.write(b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (path.encode(), len(data)) + data)
    async with asyncio.timeout(5):
        await reader.readuntil(b"Hello")
    writer.close()
    await house.executor.wait_for_cancel()
    [closing] = await house.decision.wait_for_outcomes(1)
    assert closing.outcome_class == decision_pb2.OUTCOME_CLASS_CLIENT_CANCELLED
