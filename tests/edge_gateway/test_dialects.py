"""Bodies of each dialect: what routing reads in them, and which of their fields are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge_gateway import features, tokens
from edge_gateway.dialects import chat, embeddings, messages, messages_fields, responses, responses_fields
from edge_gateway.dialects.fields import Fields
from edge_gateway.json_body import Json
from edge_gateway.surface import CHAT, EMBEDDINGS, MESSAGES, RESPONSES, Surface
from omniroute.decision.v1 import decision_pb2
from service_kit.errors import ServiceError

PICTURE = "A" * 90_000
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def of_chat(**body: Any) -> decision_pb2.RequestFeatures:
    return features.of(chat.read(body))


def of_responses(**body: Any) -> decision_pb2.RequestFeatures:
    return features.of(responses.read(body))


def of_messages(**body: Any) -> decision_pb2.RequestFeatures:
    return features.of(messages.read(body))


def of_tool_loop() -> dict[str, decision_pb2.RequestFeatures]:
    """One conversation, told in each dialect: a question, two calls in one go, their results, one more call."""
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    as_chat = of_chat(
        messages=[
            {"role": "system", "content": "Be terse."},
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": None, "tool_calls": [call, call]},
            {"role": "tool", "tool_call_id": "1", "content": "rain"},
            {"role": "tool", "tool_call_id": "2", "content": "wind"},
            {"role": "assistant", "content": "Hm.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "sun"},
        ],
        tools=[{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}],
        max_tokens=50,
        stream=True,
    )
    item = {"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "1"}
    as_responses = of_responses(
        instructions="Be terse.",
        input=[
            {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
            {"type": "reasoning", "summary": [], "encrypted_content": PICTURE},
            item,
            item,
            output | {"output": "rain"},
            output | {"output": "wind"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hm."}]},
            item,
            output | {"output": [{"type": "input_text", "text": "sun"}]},
        ],
        tools=[{"type": "function", "name": "look", "parameters": SCHEMA}],
        max_output_tokens=50,
        stream=True,
    )
    use = {"type": "tool_use", "id": "1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "1"}
    as_messages = of_messages(
        system="Be terse.",
        messages=[
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": [use, use]},
            {"role": "user", "content": [result | {"content": "rain"}, result | {"content": "wind"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Hm."}, use]},
            {"role": "user", "content": [result | {"content": [{"type": "text", "text": "sun"}]}]},
        ],
        tools=[{"name": "look", "input_schema": SCHEMA}],
        max_tokens=50,
        stream=True,
    )
    return {"chat": as_chat, "responses": as_responses, "messages": as_messages}


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
def test_a_tool_loop_is_read_alike_in_each_dialect(dialect: str) -> None:
    found = of_tool_loop()[dialect]
    assert (found.is_tool_continuation, found.tool_rounds, found.tool_results_before_last_user) == (True, 2, 0)
    assert (found.last_user_text, found.last_user_chars) == ("Weather?", 8)
    assert (found.has_tools, found.tool_count, found.tool_choice_none) == (True, 1, False)
    assert (found.stream, found.max_output_tokens) == (True, 50)
    assert found.context_tokens_to_last_user == 2 * tokens.PER_MESSAGE + 3 + 2
    assert found.prompt_prefix_hash
    assert 60 < found.input_tokens < 200


def test_results_before_the_last_question_are_counted() -> None:
    output = {"type": "function_call_output", "call_id": "1", "output": "rain"}
    asked = {"role": "user", "content": "And now?"}
    assert of_responses(input=[output, output, asked]).tool_results_before_last_user == 2
    results = {"role": "user", "content": [{"type": "tool_result", "content": "rain"}] * 2}
    assert of_messages(messages=[results, asked]).tool_results_before_last_user == 2


def test_a_plain_string_is_a_question() -> None:
    found = of_responses(input="Weather?")
    assert (found.last_user_text, found.input_tokens) == ("Weather?", tokens.PER_MESSAGE + 2)


@pytest.mark.parametrize(
    "found",
    [
        of_responses(input=[{"role": "user", "content": [{"type": "input_image", "image_url": PICTURE}]}]),
        of_responses(
            input=[{"type": "function_call_output", "output": [{"type": "input_image", "image_url": PICTURE}]}]
        ),
        of_messages(messages=[{"role": "user", "content": [{"type": "image", "source": {"data": PICTURE}}]}]),
        of_messages(
            messages=[
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "content": [{"type": "image", "source": {"data": PICTURE}}]},
                    ],
                }
            ]
        ),
    ],
    ids=["responses", "responses result", "messages", "messages result"],
)
def test_images_need_vision_and_count_flat(found: decision_pb2.RequestFeatures) -> None:
    assert found.needs_vision
    assert tokens.PER_MEDIA_PART <= found.input_tokens < tokens.PER_MEDIA_PART + 20


def test_an_image_in_a_tool_result_is_no_question() -> None:
    image = {"type": "image", "source": {"type": "base64", "data": PICTURE}}
    conversation = [
        {"role": "user", "content": "Look"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "shot", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [image]}]},
    ]
    found = of_messages(messages=conversation)
    assert (found.is_tool_continuation, found.last_user_text, found.needs_vision) == (True, "Look", True)


def test_documents_of_text_count_by_their_text() -> None:
    document = {"type": "document", "source": {"type": "text", "data": "word " * 4000}}
    assert of_messages(messages=[{"role": "user", "content": [document]}]).input_tokens > 4000


def test_structured_output() -> None:
    wanted = {"type": "json_schema", "name": "x", "schema": SCHEMA}
    assert of_responses(input="x", text={"format": wanted}).needs_structured_output
    assert of_responses(input="x", text={"format": {"type": "json_object"}}).needs_structured_output
    assert not of_responses(input="x", text={"format": {"type": "text"}}).needs_structured_output
    question: Any = [{"role": "user", "content": "x"}]
    assert of_messages(messages=question, output_config={"format": wanted}).needs_structured_output
    assert not of_messages(messages=question, output_config={"effort": "low"}).needs_structured_output


def test_parameters_of_reasoning() -> None:
    assert of_responses(input="x", reasoning={"effort": "low"}).has_reasoning_params
    assert not of_responses(input="x", reasoning=None).has_reasoning_params
    assert of_messages(messages=[], thinking={"type": "enabled", "budget_tokens": 1024}).has_reasoning_params
    assert of_messages(messages=[], thinking={"type": "disabled"}).has_reasoning_params, "in any form"
    assert of_messages(messages=[], output_config={"effort": "low"}).has_reasoning_params
    assert not of_messages(messages=[], output_config={"format": None}).has_reasoning_params


def test_forbidden_tools() -> None:
    assert of_responses(input="x", tool_choice="none").tool_choice_none
    assert of_messages(messages=[], tool_choice={"type": "none"}).tool_choice_none
    assert not of_messages(messages=[], tool_choice={"type": "auto"}).tool_choice_none


def test_tools_of_a_namespace_count_by_themselves() -> None:
    tool = {"type": "function", "name": "look"}
    assert of_responses(input="x", tools=[tool, {"type": "namespace", "tools": [tool, tool]}]).tool_count == 3


def test_marks_of_caching_change_neither_session_nor_prefix() -> None:
    def told(*, marked: bool) -> Json:
        mark = {"cache_control": {"type": "ephemeral"}} if marked else {}
        first = {"role": "user", "content": [{"type": "text", "text": "Hello", **mark}]}
        rest = [{"role": "assistant", "content": "Hi"}, {"role": "user", "content": "Go on"}]
        system = [{"type": "text", "text": "Be terse.", **mark}]
        return {"system": system, "messages": [first, *rest], "tools": [{"name": "look", **mark}]}

    marked, plain = messages.read(told(marked=True)), messages.read(told(marked=False))
    assert features.session_id("key", marked) == features.session_id("key", plain) != ""
    assert features.of(marked) == features.of(plain)
    assert features.of(plain).prompt_prefix_hash


def test_a_conversation_keeps_its_session_in_every_dialect() -> None:
    sessions = {
        features.session_id("key", chat.read({"messages": [{"role": "user", "content": "Hello"}]})),
        features.session_id("key", responses.read({"input": "Hello", "instructions": "Be terse."})),
        features.session_id("key", responses.read({"input": [{"role": "user", "content": "Hello"}, {"type": "x"}]})),
        features.session_id("key", messages.read({"messages": [{"role": "user", "content": "Hello"}], "system": "x"})),
    }
    assert len(sessions) == 1
    assert features.session_id("key", embeddings.read({"input": "Hello"})) == ""


@pytest.mark.parametrize(
    ("given_input", "counted"),
    [("a word or two", 4), (["a word or two"] * 3, 12), ([1, 2, 3], 3), ([[1, 2], [3]], 3)],
    ids=["text", "texts", "token ids", "lists of token ids"],
)
def test_tokens_of_embeddings(given_input: Any, counted: int) -> None:
    body = {"model": "m", "input": given_input}
    embeddings.check(body)
    found = features.of(embeddings.read(body), decision_pb2.OPERATION_EMBEDDINGS)
    assert (found.operation, found.input_tokens) == (decision_pb2.OPERATION_EMBEDDINGS, counted)


GOOD: dict[str, tuple[Surface, Json]] = {
    "chat": (CHAT, {"model": "m", "messages": [{"role": "user", "content": "hi"}]}),
    "responses": (RESPONSES, {"model": "m", "input": "hi", "store": True, "metadata": {}, "background": False}),
    "messages": (MESSAGES, {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}),
    "embeddings": (EMBEDDINGS, {"model": "m", "input": "hi", "encoding_format": "base64", "dimensions": 8}),
}
WRONG: list[tuple[str, Json, str]] = [
    ("responses", {"model": 5}, "model"),
    ("responses", {"input": []}, "input"),
    ("responses", {"input": ""}, "input"),
    ("responses", {"input": ["x"]}, "input"),
    ("responses", {"previous_response_id": "resp_1"}, "previous_response_id"),
    ("responses", {"conversation": {"id": "c"}}, "conversation"),
    ("responses", {"prompt": {"id": "p"}}, "prompt"),
    ("responses", {"background": True}, "background"),
    ("responses", {"max_output_tokens": 0}, "max_output_tokens"),
    ("responses", {"text": "json"}, "text"),
    ("responses", {"reasoning": "high"}, "reasoning"),
    ("messages", {"max_tokens": None}, "max_tokens"),
    ("messages", {"messages": []}, "messages"),
    ("messages", {"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
    ("messages", {"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    ("messages", {"system": 5}, "system"),
    ("messages", {"tool_choice": "auto"}, "tool_choice"),
    ("messages", {"stream": "yes"}, "stream"),
    ("embeddings", {"input": []}, "input"),
    ("embeddings", {"input": [""]}, "input"),
    ("embeddings", {"input": ["x", 5]}, "input"),
    ("embeddings", {"input": {"text": "x"}}, "input"),
    ("embeddings", {"encoding_format": "hex"}, "encoding_format"),
    ("embeddings", {"stream": True}, "stream"),
]


@pytest.mark.parametrize("dialect", GOOD)
def test_good_bodies_pass(dialect: str) -> None:
    surface, body = GOOD[dialect]
    surface.check(body)


@pytest.mark.parametrize(("dialect", "changes", "field"), WRONG, ids=lambda value: str(value)[:40])
def test_wrong_fields_are_named(dialect: str, changes: Json, field: str) -> None:
    surface, body = GOOD[dialect]
    with pytest.raises(ServiceError, match="allowed: ") as caught:
        surface.check(body | changes)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("dialect", "missing"),
    [("responses", "input"), ("messages", "max_tokens"), ("messages", "messages"), ("embeddings", "input")],
)
def test_missing_fields_are_named(dialect: str, missing: str) -> None:
    surface, body = GOOD[dialect]
    with pytest.raises(ServiceError, match=f"{missing}: got nothing"):
        surface.check({name: value for name, value in body.items() if name != missing})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
WORDS = st.sampled_from(
    (
        "user assistant tool_result tool_use text document thinking function_call function_call_output message "
        "namespace"
    ).split()
)
INNER = st.sampled_from("role content type text thinking source data tools output name arguments cache_control".split())
ITEMS = st.dictionaries(INNER, JSON | WORDS | st.lists(st.dictionaries(INNER, JSON | WORDS), max_size=4))
generous = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def bodies(fields: type[Fields]) -> st.SearchStrategy[Json]:
    names = st.sampled_from(sorted(fields.model_fields))
    return st.dictionaries(names, JSON | WORDS | ITEMS | st.lists(ITEMS | JSON, max_size=5))


def read_as(surface: Surface, body: Json) -> None:
    body = orjson.loads(orjson.dumps(body))
    asked = surface.read(body)
    found = features.of(asked, surface.operation)
    assert found.context_tokens_to_last_user <= found.input_tokens
    features.session_id("key", asked)
    refusals = []
    try:
        surface.check(body)
    except ServiceError as refused:
        refusals.append(refused)
    assert all(refused.field for refused in refusals)


@generous
@given(bodies(responses_fields.ResponsesFields))
def test_any_json_is_read_as_a_response_request(body: Json) -> None:
    read_as(RESPONSES, body)


@generous
@given(bodies(messages_fields.MessagesFields))
def test_any_json_is_read_as_a_message_request(body: Json) -> None:
    read_as(MESSAGES, body)


@generous
@given(bodies(embeddings.EmbeddingsFields))
def test_any_json_is_read_as_an_embedding_request(body: Json) -> None:
    read_as(EMBEDDINGS, body)


READERS: dict[str, Callable[[Json], Any]] = {"responses": responses.read, "messages": messages.read, "chat": chat.read}


@pytest.mark.parametrize("dialect", READERS)
def test_reading_changes_nothing_in_the_body(dialect: str) -> None:
    part = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    call = {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}
    item = {"role": "assistant", "content": [part]}
    body: Json = {"input": [item, call, item], "messages": [item, item], "system": [part], "tools": [part]}
    before = orjson.dumps(body)
    READERS[dialect](body)
    assert orjson.dumps(body) == before
