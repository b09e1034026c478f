"""Chat completions as requests of the Messages API."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from anthropic.types import MessageCreateParams
from pydantic import TypeAdapter

from executor.clients import CLIENTS
from executor.dialects.anthropic import Anthropic
from executor.dialects.anthropic.traits import OTHER, Sampling, Thinking, traits_of
from executor.dialects.frames import Untranslatable
from executor.model import Call, ClientDialect, Target

OFFICIAL: TypeAdapter[Any] = TypeAdapter(MessageCreateParams)
HI = [{"role": "user", "content": "hi"}]
PNG = "iVBORw0KGgo="
FUNCTION = {
    "name": "f",
    "description": "does",
    "parameters": {"type": "object", "properties": {"x": {"type": "string"}}},
}
TOOL = {"type": "function", "function": FUNCTION}
OTHER_TOOL = {"type": "function", "function": {"name": "g"}}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
LOOP: list[dict[str, Any]] = [
    *HI,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "a", "content": "1"},
]


def target(model: str = "claude-sonnet-4-5", **fields: Any) -> Target:
    return Target("t", "anthropic", model, "c", "https://x/v1", dialect="anthropic", **fields)


def sent(body: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The body as it goes out; the vendor's own types have to know every field of it."""
    prepared = Anthropic().prepare(Call("d", {"messages": HI, **body}), target(**fields))
    loaded: dict[str, Any] = orjson.loads(prepared.body)
    assert prepared.path == "/messages"
    assert prepared.translated
    sampling = {"temperature", "top_p", "top_k"}  # left out of the newest types, still taken by older models
    OFFICIAL.validate_python({key: value for key, value in loaded.items() if key not in sampling}, strict=True)
    return loaded


def test_the_least_request() -> None:
    body = sent({})
    assert body == {
        "model": "claude-sonnet-4-5",
        "max_tokens": 64_000,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }


FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "stream": ({"stream": True}, {"stream": True}),
    "no stream": ({"stream": False}, {"stream": None}),
    "output limit": ({"max_tokens": 7}, {"max_tokens": 7}),
    "newer output limit": ({"max_completion_tokens": 8, "max_tokens": 7}, {"max_tokens": 8}),
    "temperature": ({"temperature": 0.5}, {"temperature": 0.5}),
    "temperature above theirs": ({"temperature": 1.7}, {"temperature": 1}),
    "top_p": ({"top_p": 0.9}, {"top_p": 0.9}),
    "one knob of two": ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": None}),
    "stop": ({"stop": "END"}, {"stop_sequences": ["END"]}),
    "stops, blank ones refused": ({"stop": ["A", "\n"]}, {"stop_sequences": ["A"]}),
    "user": ({"user": "u-1"}, {"metadata": {"user_id": "u-1"}}),
    "tools": (
        {"tools": [TOOL]},
        {"tools": [{"name": "f", "description": "does", "input_schema": FUNCTION["parameters"]}]},
    ),
    "a tool without parameters": (
        {"tools": [OTHER_TOOL]},
        {"tools": [{"name": "g", "input_schema": {"type": "object", "properties": {}}}], "tool_choice": None},
    ),
    "legacy functions": (
        {"functions": [{"name": "g"}], "function_call": {"name": "g"}},
        {"tool_choice": {"type": "tool", "name": "g"}},
    ),
    "choice auto": ({"tools": [TOOL], "tool_choice": "auto"}, {"tool_choice": None}),
    "choice none": ({"tools": [TOOL], "tool_choice": "none"}, {"tool_choice": {"type": "none"}}),
    "choice required": ({"tools": [TOOL], "tool_choice": "required"}, {"tool_choice": {"type": "any"}}),
    "choice of one": (
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"tool_choice": {"type": "tool", "name": "f"}},
    ),
    "one at a time": (
        {"tools": [TOOL], "parallel_tool_calls": False},
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    ),
    "harmless fields": ({"seed": 1, "presence_penalty": 1, "store": True, "n": 1, "verbosity": "low"}, {"seed": None}),
    "effort": ({"reasoning_effort": "low"}, {"thinking": {"type": "enabled", "budget_tokens": 2_048}}),
    "no effort": ({"reasoning_effort": "none"}, {"thinking": None}),
    "budget": (
        {"thinking": {"type": "enabled", "budget_tokens": 5_000}},
        {"thinking": {"type": "enabled", "budget_tokens": 5_000}},
    ),
    "OpenRouter's budget": (
        {"reasoning": {"max_tokens": 3_000}},
        {"thinking": {"type": "enabled", "budget_tokens": 3_000}},
    ),
    "thinking takes no temperature": ({"reasoning_effort": "low", "temperature": 0.3}, {"temperature": None}),
    "thinking leaves room to answer": (
        {"reasoning_effort": "high", "max_tokens": 5_000},
        {"thinking": {"type": "enabled", "budget_tokens": 2_500}},
    ),
    "no room to think": ({"reasoning_effort": "high", "max_tokens": 1_500}, {"thinking": None}),
    "a forced call is not thought over": (
        {"reasoning_effort": "high", "tools": [TOOL], "tool_choice": "required"},
        {"thinking": None},
    ),
    "an open loop without its thoughts": (
        {"messages": LOOP, "tools": [TOOL], "reasoning_effort": "high"},
        {"thinking": None},
    ),
    "cache marks": (
        {"tools": [{**TOOL, "cache_control": {"type": "ephemeral"}}]},
        {
            "tools": [
                {
                    "name": "f",
                    "description": "does",
                    "input_schema": FUNCTION["parameters"],
                    "cache_control": {"type": "ephemeral"},
                }
            ]
        },
    ),
    "schema": (
        {"response_format": JSON_SCHEMA},
        {
            "output_config": {
                "format": {
                    "type": "json_schema",
                    "schema": {
                        "type": "object",
                        "properties": {"n": {"type": "integer"}},
                        "required": ["n"],
                        "additionalProperties": False,
                    },
                }
            }
        },
    ),
}


@pytest.mark.parametrize("name", FIELDS)
def test_fields(name: str) -> None:
    asked, expected = FIELDS[name]
    body = sent(asked)
    assert {key: body.get(key) for key in expected} == expected


def test_allowed_tools_narrow_the_offer() -> None:
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": name}} for name in ("f", "h")]}
    tools = [TOOL, OTHER_TOOL, {"type": "function", "function": {"name": "h"}}]
    body = sent({"tools": tools, "tool_choice": {"type": "allowed_tools", "allowed_tools": allowed}})
    assert [tool["name"] for tool in body["tools"]] == ["f", "h"]
    assert body["tool_choice"] == {"type": "any"}


MODELS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "an old one cannot think": (
        "claude-3-5-sonnet-20241022",
        {"reasoning_effort": "high"},
        {"thinking": None, "max_tokens": 8_192},
    ),
    "an old one takes both knobs": (
        "claude-3-opus-20240229",
        {"temperature": 1, "top_p": 0.5},
        {"temperature": 1, "top_p": 0.5},
    ),
    "adaptive": (
        "claude-opus-4-6",
        {"reasoning_effort": "xhigh"},
        {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"}},
    ),
    "adaptive, more efforts": ("claude-opus-5", {"reasoning_effort": "xhigh"}, {"output_config": {"effort": "xhigh"}}),
    "adaptive, by budget": (
        "claude-opus-5",
        {"reasoning": {"max_tokens": 9_000}},
        {"output_config": {"effort": "high"}},
    ),
    "minimal reads low": ("claude-sonnet-4-6", {"reasoning_effort": "minimal"}, {"output_config": {"effort": "low"}}),
    "a new one takes no knob": ("claude-opus-4-7", {"temperature": 0.2}, {"temperature": None}),
    "effort and schema together": (
        "claude-opus-5",
        {
            "reasoning_effort": "low",
            "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "string"}}},
        },
        {"output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "string"}}}},
    ),
    "another vendor": ("MiniMax-M2", {"temperature": 1, "top_p": 0.5}, {"max_tokens": 16_384, "top_p": 0.5}),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    model, asked, expected = MODELS[name]
    body = sent(asked, model=model)
    assert {key: body.get(key) for key in expected} == expected


VERSIONS: dict[str, tuple[Thinking, Sampling]] = {
    "claude-3-haiku-20240307": (Thinking.NONE, Sampling.BOTH),
    "claude-3-7-sonnet-latest": (Thinking.BUDGET, Sampling.BOTH),
    "claude-4-opus-20250514": (Thinking.BUDGET, Sampling.BOTH),
    "claude-opus-4-20250514": (Thinking.BUDGET, Sampling.BOTH),
    "claude-opus-4-1@20250805": (Thinking.BUDGET, Sampling.ONE),
    "anthropic.claude-haiku-4-5-20251001-v1:0": (Thinking.BUDGET, Sampling.ONE),
    "claude-sonnet-4.6": (Thinking.ADAPTIVE, Sampling.ONE),
    "claude-fable-5-2": (Thinking.ADAPTIVE, Sampling.NEITHER),
    "claude-mythos-preview": (Thinking.ADAPTIVE, Sampling.NEITHER),
    "kimi-k2": (OTHER.thinking, OTHER.sampling),
}


@pytest.mark.parametrize("model", VERSIONS)
def test_versions(model: str) -> None:
    traits = traits_of(model)
    assert (traits.thinking, traits.sampling) == VERSIONS[model]


def test_the_default_output_limit_is_the_models_and_leaves_room_in_the_window() -> None:
    assert sent({}, max_output_tokens=1_000)["max_tokens"] == 1_000
    assert sent({"max_tokens": 5_000}, max_output_tokens=1_000)["max_tokens"] == 1_000
    assert sent({}, context_window=10_000)["max_tokens"] == 9_999
    assert (
        sent({"messages": [{"role": "user", "content": "x" * 30_000}]}, context_window=20_000)["max_tokens"] == 10_000
    )


def test_instructions_stand_before_the_conversation() -> None:
    messages = [
        {"role": "system", "content": "be brief"},
        *HI,
        {"role": "developer", "content": [{"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral"}}]},
    ]
    body = sent({"messages": messages}, prompt="be true")
    assert [block["text"] for block in body["system"]] == ["be true", "be brief", "be kind"]
    assert body["system"][2]["cache_control"] == {"type": "ephemeral"}
    assert len(body["messages"]) == 1


def test_content_of_every_kind() -> None:
    content = [
        {"type": "text", "text": "look"},
        {"type": "text", "text": ""},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "high"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PNG}"}},
    ]
    (message,) = sent({"messages": [{"role": "user", "content": content}]})["messages"]
    assert message["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/cat.png"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PNG},
            "title": "a.pdf",
        },
    ]


def test_a_tool_loop() -> None:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": "1"}'}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": ""}},
        {"id": "c", "type": "function", "function": {"name": "g", "arguments": "{broken"}},
    ]
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    messages = [
        *HI,
        {"role": "assistant", "content": "I'll see", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "two"}, image]},
        {"role": "tool", "tool_call_id": "c", "content": "three"},
        {"role": "user", "content": "go on"},
    ]
    _, assistant, user = sent({"messages": messages, "tools": [TOOL, OTHER_TOOL]})["messages"]
    assert assistant["content"] == [
        {"type": "text", "text": "I'll see"},
        {"type": "tool_use", "id": "a", "name": "f", "input": {"x": "1"}},
        {"type": "tool_use", "id": "b", "name": "g", "input": {}},
        {"type": "tool_use", "id": "c", "name": "g", "input": {"arguments": "{broken"}},
    ]
    kinds = [(block["type"], block.get("tool_use_id")) for block in user["content"]]
    assert kinds == [("tool_result", "a"), ("tool_result", "b"), ("tool_result", "c"), ("text", None)]
    assert [inner["type"] for inner in user["content"][1]["content"]] == ["text", "image"]


def test_ids_of_other_vendors_are_fit_for_this_one() -> None:
    call = {"id": "functions.f:0", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        *HI,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": ""},
    ]
    _, assistant, user = sent({"messages": messages, "tools": [TOOL]})["messages"]
    assert assistant["content"][0]["id"] == user["content"][0]["tool_use_id"] == "functions_f_0"


def test_blanks_that_are_refused_stay_behind() -> None:
    messages = [
        *HI,
        {"role": "assistant", "content": " "},
        {"role": "user", "content": "go on"},
        {"role": "assistant", "content": "So: "},
    ]
    told = sent({"messages": messages})["messages"]
    assert [(m["role"], m["content"][0]["text"]) for m in told] == [
        ("user", "hi"),
        ("user", "go on"),
        ("assistant", "So:"),
    ]


def test_instructions_alone_are_what_the_user_says() -> None:
    body = sent({"messages": [{"role": "system", "content": "a"}, {"role": "system", "content": "b"}]})
    assert [block["text"] for block in body["system"]] == ["a"]
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "b"}]}]


def test_a_conversation_that_used_tools_defines_them() -> None:
    body = sent({"messages": LOOP})
    assert [tool["name"] for tool in body["tools"]] == ["f"]
    assert body["tool_choice"] == {"type": "none"}


def test_signed_thoughts_go_back_where_they_came_from() -> None:
    details = [
        {"type": "reasoning.text", "format": "anthropic-claude-v1", "text": "hm", "signature": "sig", "index": 0},
        {"type": "reasoning.encrypted", "format": "anthropic-claude-v1", "data": "xyz", "index": 1},
        {"type": "reasoning.text", "format": "xai-responses-v1", "text": "foreign", "signature": "other"},
    ]
    assistant = {**LOOP[1], "reasoning_details": details, "reasoning_content": "hm"}
    body = sent({"messages": [LOOP[0], assistant, LOOP[2]], "tools": [TOOL], "reasoning_effort": "medium"})
    assert body["messages"][1]["content"][:2] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xyz"},
    ]
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 8_192}


def test_json_in_words_where_the_model_cannot_be_held_to_it() -> None:
    body = sent({"response_format": {"type": "json_object"}})
    assert "JSON object" in body["system"][0]["text"]
    body = sent({"response_format": JSON_SCHEMA}, model="claude-3-7-sonnet-latest")
    assert '"minimum":1' in body["system"][0]["text"]
    assert "output_config" not in body


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return {"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "choices": ({"n": 2}, "n "),
    "logprobs": ({"logprobs": True}, "logprobs"),
    "bias": ({"logit_bias": {"1": 2}}, "logit_bias"),
    "spoken answers": ({"modalities": ["text", "audio"]}, "modalities"),
    "web search": ({"web_search_options": {}}, "web_search_options"),
    "sound": (
        {
            "messages": [
                {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}}]}
            ]
        },
        "audio",
    ),
    "a file kept elsewhere": (
        {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f-1"}}]}]},
        "messages[0].content[0].file",
    ),
    "an odd image address": (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "ftp://x"}}]}]},
        "messages[0].content[0].image_url",
    ),
    "broken image data": (
        {
            "messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,&&"}}]}
            ]
        },
        "base64",
    ),
    "a part of an unknown kind": (
        {"messages": [{"role": "user", "content": [{"type": "video_url"}]}]},
        "messages[0].content[0]",
    ),
    "a bottomless schema": (nested(400), "response_format"),
    "an unknown role": ({"messages": [{"role": "critic", "content": "x"}]}, "messages[0]"),
    "a tool that is no function": ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_said_is_refused_by_name(name: str) -> None:
    asked, field = REFUSED[name]
    with pytest.raises(Untranslatable) as refused:
        sent(asked)
    assert field in str(refused.value)


OWN: dict[str, Any] = {
    "model": "auto/smart",
    "max_tokens": 100,
    "system": "be brief",
    "messages": [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "another vendor's", "signature": ""},
                {"type": "thinking", "thinking": "own", "signature": "sig"},
                {"type": "text", "text": "yes", "citations": []},
            ],
        },
    ],
    "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 2}],
    "context_management": {"edits": []},
    "some_new_field": {"x": 1},
}


def own_call() -> Call:
    spoken = CLIENTS[ClientDialect.ANTHROPIC_MESSAGES].read(OWN)
    assert spoken is not None
    return Call("d", spoken.chat, client=ClientDialect.ANTHROPIC_MESSAGES, spoken=spoken)


def test_the_body_of_a_client_that_speaks_the_dialect_passes_untouched() -> None:
    prepared = Anthropic().prepare(own_call(), target())
    body = orjson.loads(prepared.body)
    assert not prepared.translated
    changed = {key for key in OWN if body[key] != OWN[key]}
    assert changed == {"model", "messages"}
    assert body["messages"][1]["content"] == OWN["messages"][1]["content"][1:]


def test_a_prompt_goes_before_the_clients_own_instructions() -> None:
    body = orjson.loads(Anthropic().prepare(own_call(), target(prompt="be true")).body)
    assert [block["text"] for block in body["system"]] == ["be true", "be brief"]


def test_a_body_that_a_plan_has_changed_is_translated() -> None:
    call = own_call()
    changed = Call("d", {**call.body}, client=call.client, spoken=call.spoken)
    assert call.own_body("anthropic") is OWN
    assert changed.own_body("anthropic") is None
    assert call.own_body("gemini") is None
