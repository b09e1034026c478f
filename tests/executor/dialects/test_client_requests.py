"""Requests of the Messages and the Responses API in chat form."""

from __future__ import annotations

from typing import Any

import pytest

from executor.clients import CLIENTS
from executor.clients.responses_tools import custom_input
from executor.model import ClientDialect, Spoken
from service_kit.errors import Reason, ServiceError

PNG = "iVBORw0KGgo="
DATA_URL = f"data:image/png;base64,{PNG}"
IMAGE = {"type": "image_url", "image_url": {"url": DATA_URL}}
OWN_IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
HI: dict[str, Any] = {"role": "user", "content": "hi"}
FUNCTION = {"type": "function", "name": "f", "description": "does", "parameters": {"type": "object"}, "strict": True}
PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "edits",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"},
}


def messages(**body: Any) -> Spoken:
    return spoken(ClientDialect.ANTHROPIC_MESSAGES, {"model": "m", "max_tokens": 9, "messages": [HI], **body})


def responses(**body: Any) -> Spoken:
    return spoken(ClientDialect.OPENAI_RESPONSES, {"model": "m", "input": "hi", **body})


def spoken(client: ClientDialect, body: dict[str, Any]) -> Spoken:
    read = CLIENTS[client].read(body)
    assert read is not None
    return read


def test_the_least_requests() -> None:
    assert messages().chat == {"model": "m", "messages": [HI], "max_tokens": 9}
    assert responses().chat == {"model": "m", "messages": [HI]}
    assert (messages().dialect, responses().dialect) == ("anthropic", "")
    assert CLIENTS[ClientDialect.OPENAI_CHAT].read({"messages": 1}) is None


MESSAGES_FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "numbers": (
        {"temperature": 0.5, "top_p": 0.9, "top_k": 5, "stream": True},
        {"temperature": 0.5, "top_p": 0.9, "top_k": 5, "stream": True},
    ),
    "stop": ({"stop_sequences": ["A"]}, {"stop": ["A"]}),
    "system": ({"system": "be brief"}, {"messages": [{"role": "system", "content": "be brief"}, HI]}),
    "system in blocks": (
        {
            "system": [
                {"type": "text", "text": "a"},
                {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}},
            ]
        },
        {"messages": [{"role": "system", "content": "a\n\nb"}, HI]},
    ),
    "tools": (
        {"tools": [{"name": "f", "description": "does", "input_schema": {"type": "object"}}]},
        {
            "tools": [
                {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "description": "does"}}
            ]
        },
    ),
    "any tool": ({"tools": [{"name": "f"}], "tool_choice": {"type": "any"}}, {"tool_choice": "required"}),
    "no tool": ({"tools": [{"name": "f"}], "tool_choice": {"type": "none"}}, {"tool_choice": "none"}),
    "one tool, one at a time": (
        {"tools": [{"name": "f"}], "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True}},
        {"tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": False},
    ),
    "a small budget": ({"thinking": {"type": "enabled", "budget_tokens": 1_024}}, {"reasoning_effort": "low"}),
    "a large budget": ({"thinking": {"type": "enabled", "budget_tokens": 31_999}}, {"reasoning_effort": "high"}),
    "an effort": ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, {"reasoning_effort": "high"}),
    "no thinking": ({"thinking": {"type": "disabled"}, "output_config": {"effort": "low"}}, {"reasoning_effort": None}),
    "schema": (
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
            }
        },
    ),
    "content blocks": (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "a"},
                        OWN_IMAGE,
                        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "b"}},
                    ],
                }
            ]
        },
        {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "a"}, IMAGE, {"type": "text", "text": "b"}]}
            ]
        },
    ),
    "texts alone": (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]},
        {"messages": [{"role": "user", "content": "a\nb"}]},
    ),
    "a tool loop": (
        {
            "messages": [
                HI,
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "s"},
                        {"type": "text", "text": "I'll see"},
                        {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
                        {"type": "tool_use", "id": "b", "name": "f", "input": {}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "a",
                            "content": [{"type": "text", "text": "1"}, OWN_IMAGE],
                        },
                        {"type": "tool_result", "tool_use_id": "b", "is_error": True},
                        {"type": "text", "text": "go on"},
                    ],
                },
            ]
        },
        {
            "messages": [
                HI,
                {
                    "role": "assistant",
                    "content": "I'll see",
                    "tool_calls": [
                        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
                        {"id": "b", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                    ],
                },
                {"role": "tool", "tool_call_id": "a", "content": "1"},
                {"role": "tool", "tool_call_id": "b", "content": ""},
                {"role": "user", "content": [IMAGE, {"type": "text", "text": "go on"}]},
            ]
        },
    ),
}


@pytest.mark.parametrize("name", MESSAGES_FIELDS)
def test_fields_of_messages(name: str) -> None:
    asked, expected = MESSAGES_FIELDS[name]
    read = messages(**asked)
    assert {key: read.chat.get(key) for key in expected} == expected
    assert read.lost == ()


RESPONSES_FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "numbers": (
        {"temperature": 0.5, "top_p": 0.9, "max_output_tokens": 7, "stream": True, "prompt_cache_key": "k"},
        {"temperature": 0.5, "top_p": 0.9, "max_tokens": 7, "stream": True, "prompt_cache_key": "k"},
    ),
    "what needs no translation": (
        {"store": True, "include": ["x"], "truncation": "auto", "metadata": {}},
        {"store": None},
    ),
    "instructions": ({"instructions": "be brief"}, {"messages": [{"role": "system", "content": "be brief"}, HI]}),
    "effort": ({"reasoning": {"effort": "medium", "summary": "auto"}}, {"reasoning_effort": "medium"}),
    "schema": (
        {"text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}}},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
            }
        },
    ),
    "json": (
        {"text": {"format": {"type": "json_object"}, "verbosity": "low"}},
        {"response_format": {"type": "json_object"}},
    ),
    "tools": (
        {"tools": [FUNCTION, {"type": "web_search"}], "parallel_tool_calls": False, "tool_choice": "auto"},
        {
            "tools": [
                {
                    "type": "function",
                    "function": {"name": "f", "description": "does", "parameters": {"type": "object"}, "strict": True},
                }
            ],
            "parallel_tool_calls": False,
            "tool_choice": "auto",
        },
    ),
    "one tool": (
        {"tools": [FUNCTION, PATCH], "tool_choice": {"type": "custom", "name": "apply_patch"}},
        {"tool_choice": {"type": "function", "function": {"name": "apply_patch"}}},
    ),
    "allowed tools": (
        {
            "tools": [FUNCTION, PATCH],
            "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
        },
        {
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]},
            }
        },
    ),
    "messages of all roles": (
        {
            "input": [
                {"role": "developer", "content": "be kind"},
                {
                    "type": "message",
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "a"},
                        {"type": "input_image", "image_url": DATA_URL, "detail": "auto"},
                    ],
                },
                {
                    "type": "message",
                    "role": "assistant",
                    "id": "m1",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "b", "annotations": []}],
                },
                {"role": "user", "content": "c"},
            ]
        },
        {
            "messages": [
                {"role": "system", "content": "be kind"},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "a"},
                        {"type": "image_url", "image_url": {"url": DATA_URL, "detail": "auto"}},
                    ],
                },
                {"role": "assistant", "content": "b"},
                {"role": "user", "content": "c"},
            ]
        },
    ),
    "a tool loop": (
        {
            "tools": [PATCH, FUNCTION],
            "input": [
                HI,
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I'll see"}]},
                {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": "{}"},
                {"type": "custom_tool_call", "call_id": "b", "name": "apply_patch", "input": "*** Begin"},
                {
                    "type": "function_call_output",
                    "call_id": "a",
                    "output": [{"type": "input_text", "text": "1"}, {"type": "input_image", "image_url": DATA_URL}],
                },
                {"type": "custom_tool_call_output", "call_id": "b", "output": "done"},
                {"role": "user", "content": "go on"},
            ],
        },
        {
            "messages": [
                HI,
                {
                    "role": "assistant",
                    "content": "I'll see",
                    "tool_calls": [
                        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                        {
                            "id": "b",
                            "type": "function",
                            "function": {"name": "apply_patch", "arguments": '{"input":"*** Begin"}'},
                        },
                    ],
                },
                {"role": "tool", "tool_call_id": "a", "content": "1"},
                {"role": "tool", "tool_call_id": "b", "content": "done"},
                {"role": "user", "content": [IMAGE]},
                {"role": "user", "content": "go on"},
            ]
        },
    ),
}


@pytest.mark.parametrize("name", RESPONSES_FIELDS)
def test_fields_of_responses(name: str) -> None:
    asked, expected = RESPONSES_FIELDS[name]
    read = responses(**asked)
    assert {key: read.chat.get(key) for key in expected} == expected
    assert read.lost == ()


def test_a_custom_tool_is_a_function_of_one_text() -> None:
    (tool,) = responses(tools=[PATCH]).chat["tools"]
    assert tool["function"]["name"] == "apply_patch"
    assert tool["function"]["parameters"]["required"] == ["input"]
    assert "lark" in tool["function"]["description"]
    assert "start: x" in tool["function"]["description"]
    assert [custom_input(text) for text in ('{"input":"a"}', "a", '{"other":1}')] == ["a", "a", '{"other":1}']


def test_a_namespace_goes_into_the_names_of_its_functions() -> None:
    namespace = {
        "type": "namespace",
        "name": "crm",
        "description": "d",
        "tools": [{"type": "function", "name": "find"}],
    }
    call = {"type": "function_call", "call_id": "a", "name": "find", "namespace": "crm", "arguments": "{}"}
    chat = responses(tools=[namespace], input=[HI, call]).chat
    assert chat["tools"][0]["function"]["name"] == "crm__find"
    assert chat["messages"][1]["tool_calls"][0]["function"]["name"] == "crm__find"


LOST: dict[str, tuple[Spoken, str]] = {
    "a tool with the vendor's own schema": (
        messages(tools=[{"type": "bash_20250124", "name": "bash"}, {"name": "f"}]),
        "tools[0]",
    ),
    "nothing but a vendor's tool": (messages(tools=[{"type": "web_search_20250305", "name": "web_search"}]), "tools"),
    "a document that lies elsewhere": (
        messages(
            messages=[
                {"role": "user", "content": [{"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}}]}
            ]
        ),
        "messages[0].content[0]",
    ),
    "a file that the vendor keeps": (
        messages(
            messages=[{"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]}]
        ),
        "messages[0].content[0]",
    ),
    "what the vendor's tool found": (
        messages(
            messages=[
                HI,
                {
                    "role": "assistant",
                    "content": [{"type": "web_search_tool_result", "tool_use_id": "s", "content": []}],
                },
            ]
        ),
        "messages[1].content[0]",
    ),
    "servers that the vendor calls": (messages(mcp_servers=[{"type": "url", "url": "https://x"}]), "mcp_servers"),
    "a shell of OpenAI's": (responses(tools=[{"type": "local_shell"}, FUNCTION]), "tools[0]"),
    "nothing but hosted tools": (responses(tools=[{"type": "web_search"}]), "tools"),
    "a hosted tool that is asked for": (
        responses(tools=[FUNCTION], tool_choice={"type": "file_search"}),
        "tool_choice",
    ),
    "a compacted past": (responses(input=[HI, {"type": "compaction", "encrypted_content": "x"}]), "input[1]"),
    "an image that OpenAI keeps": (
        responses(input=[{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]),
        "input[0].content[0]",
    ),
    "log probabilities": (responses(top_logprobs=3), "top_logprobs"),
}


@pytest.mark.parametrize("name", LOST)
def test_what_chat_completions_cannot_carry_is_told(name: str) -> None:
    read, field = LOST[name]
    assert len(read.lost) == 1
    assert field in read.lost[0]


MESSAGES_BAD: dict[str, tuple[dict[str, Any], str]] = {
    "messages of another kind": ({"messages": "hi"}, "messages"),
    "a message of another kind": ({"messages": [HI, 1]}, "messages[1]"),
    "no role": ({"messages": [{"content": "x"}]}, "messages[0].role"),
    "an odd role": ({"messages": [{"role": "critic", "content": "x"}]}, "messages[0].role"),
    "content of another kind": ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
    "no content": ({"messages": [{"role": "user"}]}, "messages[0].content"),
    "a block of another kind": ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]"),
    "text of another kind": (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]},
        "messages[0].content[0].text",
    ),
    "a result for nothing": (
        {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]},
        "messages[0].content[0].tool_use_id",
    ),
    "a call without a name": (
        {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}]},
        "messages[0].content[0].name",
    ),
    "an image without data": (
        {
            "messages": [
                {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "x"}}]}
            ]
        },
        "messages[0].content[0].source.data",
    ),
    "tools of another kind": ({"tools": {}}, "tools"),
    "stops of another kind": ({"stop_sequences": "A"}, "stop_sequences"),
    "a limit of another kind": ({"max_tokens": "9"}, "max_tokens"),
    "a stream of another kind": ({"stream": 1}, "stream"),
    "a tool without a name": ({"tools": [{}]}, "tools[0].name"),
    "an odd choice": ({"tools": [{"name": "f"}], "tool_choice": {"type": "maybe"}}, "tool_choice.type"),
    "a system of another kind": ({"system": 3}, "system"),
    "thinking of another kind": ({"thinking": True}, "thinking"),
}
RESPONSES_BAD: dict[str, tuple[dict[str, Any], str]] = {
    "input of another kind": ({"input": 3}, "input"),
    "a limit of another kind": ({"max_output_tokens": True}, "max_output_tokens"),
    "a stream of another kind": ({"stream": "yes"}, "stream"),
    "an item of another kind": ({"input": ["x"]}, "input[0]"),
    "no role": ({"input": [{"content": "x"}]}, "input[0].role"),
    "an odd role": ({"input": [{"role": "critic", "content": "x"}]}, "input[0].role"),
    "no content": ({"input": [{"role": "user"}]}, "input[0].content"),
    "a part of another kind": ({"input": [{"role": "user", "content": [1]}]}, "input[0].content[0]"),
    "a call without an id": ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].call_id"),
    "an output without a value": ({"input": [{"type": "function_call_output", "call_id": "a"}]}, "input[0].output"),
    "a reference": ({"input": [{"type": "item_reference", "id": "m1"}]}, "input[0].type"),
    "what a server would keep": ({"previous_response_id": "resp_1"}, "previous_response_id"),
    "a conversation that a server would keep": ({"conversation": "c"}, "conversation"),
    "work in the background": ({"background": True}, "background"),
    "a prompt that a server would keep": ({"prompt": {"id": "p"}}, "prompt"),
    "a tool without a name": ({"tools": [{"type": "function"}]}, "tools[0].name"),
    "a choice that is not offered": (
        {"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "g"}},
        "tool_choice.name",
    ),
    "reasoning of another kind": ({"reasoning": "high"}, "reasoning"),
}
BAD = [
    *((ClientDialect.ANTHROPIC_MESSAGES, name) for name in MESSAGES_BAD),
    *((ClientDialect.OPENAI_RESPONSES, name) for name in RESPONSES_BAD),
]


@pytest.mark.parametrize(("client", "name"), BAD)
def test_a_field_of_the_wrong_kind_is_named(client: ClientDialect, name: str) -> None:
    is_messages = client is ClientDialect.ANTHROPIC_MESSAGES
    asked, field = (MESSAGES_BAD if is_messages else RESPONSES_BAD)[name]
    with pytest.raises(ServiceError) as refused:
        messages(**asked) if is_messages else responses(**asked)
    assert (refused.value.reason, refused.value.field) == (Reason.INVALID_FIELD, field)
    assert "allowed" in refused.value.message
