"""Whatever JSON a client sends, it is translated or refused by name; nothing falls over."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executor.clients import CLIENTS
from executor.dialects import DIALECTS
from executor.dialects.frames import Untranslatable
from executor.model import Call, ClientDialect, Target
from service_kit.errors import Reason, ServiceError

DATA = "data:image/png;base64,iVBORw0KGgo="
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
SCHEMA = {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "integer", "minimum": 1}}}}
RICH: dict[ClientDialect, dict[str, Any]] = {
    ClientDialect.OPENAI_CHAT: {
        "model": "m",
        "messages": [
            {"role": "system", "content": "s"},
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": DATA}}],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [CALL],
                "reasoning_details": [{"format": "anthropic-claude-v1", "text": "t", "signature": "s"}],
            },
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "aa", "format": "wav"}}]},
            {"role": "user", "content": [{"type": "file", "file": {"filename": "f", "file_data": DATA}}]},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
        "reasoning": {"max_tokens": 2_000},
        "stop": ["x"],
        "max_tokens": 100,
        "seed": 1,
        "n": 1,
        "top_k": 3,
        "temperature": 1,
    },
    ClientDialect.OPENAI_RESPONSES: {
        "model": "m",
        "instructions": "i",
        "input": [
            {
                "role": "user",
                "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": DATA}],
            },
            {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
            {"type": "custom_tool_call", "call_id": "b", "name": "g", "input": "x"},
            {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "1"}]},
            {"type": "custom_tool_call_output", "call_id": "b", "output": "2"},
        ],
        "tools": [
            {"type": "function", "name": "f", "parameters": SCHEMA},
            {"type": "custom", "name": "g", "format": {"type": "grammar", "syntax": "lark", "definition": "d"}},
            {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "h"}]},
        ],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}},
        "reasoning": {"effort": "low"},
        "max_output_tokens": 9,
    },
    ClientDialect.ANTHROPIC_MESSAGES: {
        "model": "m",
        "max_tokens": 9,
        "system": [{"type": "text", "text": "s"}],
        "messages": [
            {
                "role": "user",
                "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa"}}],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "t", "signature": ""},
                    {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "1"}]}],
            },
            {
                "role": "user",
                "content": [
                    {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "d"}]}}
                ],
            },
        ],
        "tools": [{"name": "f", "input_schema": SCHEMA}],
        "tool_choice": {"type": "tool", "name": "f"},
        "thinking": {"type": "enabled", "budget_tokens": 2_000},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
        "stop_sequences": ["x"],
    },
}
MODELS = {"openai": "gpt-5", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-3-pro"}
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([1e29, -1e29, 2**64 - 1, 0.5])
    | st.text(max_size=3)
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["type", "text", "content", "url"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def check(client: ClientDialect, body: dict[str, Any]) -> None:
    try:
        spoken = CLIENTS[client].read(body)
    except ServiceError as error:
        refused = error
        assert refused.reason is Reason.INVALID_FIELD
        assert refused.field
        return
    call = Call("d", body if spoken is None else spoken.chat, client=client, spoken=spoken)
    for dialect in DIALECTS:
        assert sent(call, dialect)
    CLIENTS[client].writer(call, as_it_is=False)


def sent(call: Call, dialect: str) -> Any:
    """The body, or why there is none."""
    target = Target("t", "p", MODELS[dialect], "c", "https://x/v1", dialect=dialect, prompt="p", context_window=9_000)
    try:
        prepared = DIALECTS[dialect].prepare(call, target)
    except Untranslatable as refused:
        return str(refused)
    return orjson.loads(prepared.body)


@pytest.mark.parametrize("client", RICH)
def test_the_whole_request_is_read(client: ClientDialect) -> None:
    check(client, RICH[client])


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(RICH)), st.data())
def test_a_field_of_any_kind(client: ClientDialect, data: st.DataObject) -> None:
    body = orjson.loads(orjson.dumps(RICH[client]))
    node: Any = body
    while True:
        key = data.draw(st.sampled_from(list(range(len(node))) if isinstance(node, list) else sorted(node)))
        if not (isinstance(node[key], dict | list) and node[key] and data.draw(st.booleans())):
            break
        node = node[key]
    if isinstance(node, dict) and data.draw(st.booleans()):
        del node[key]
    else:
        node[key] = data.draw(JSON)
    check(client, orjson.loads(orjson.dumps(body)))
