"""A body of the Responses API -> what is asked for. Pure, and total over any JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edge_gateway import tokens
from edge_gateway.dialects import asked
from edge_gateway.dialects.asked import Asked
from edge_gateway.json_body import Json

STRUCTURED = ("json_schema", "json_object")
CALLS = ("function_call", "custom_tool_call")
OUTPUTS = ("function_call_output", "custom_tool_call_output")


def read(body: Json) -> Asked:
    """Other kinds of items than messages, calls and their outputs say nothing to other vendors' models."""
    tools = list(_flat(body.get("tools")))
    wanted = asked.an_object(asked.an_object(body.get("text")).get("format"))
    return Asked(
        messages=_messages(body),
        tokens_beside=tokens.of_json(tools) + tokens.of_json(wanted.get("schema")),
        tools=tools,
        forbids_tools=body.get("tool_choice") == "none",
        output_limit=asked.limit(body, "max_output_tokens"),
        stream=body.get("stream") is True,
        json=wanted.get("type") in STRUCTURED,
        reasoning=asked.given(body, ("reasoning",)),
        cache_key=asked.cache_key(body),
    )


def _messages(body: Json) -> list[Json]:
    messages: list[Json] = []
    if isinstance(body.get("instructions"), str) and body["instructions"]:
        messages.append({"role": "system", "content": body["instructions"]})
    if isinstance(body.get("input"), str):
        messages.append({"role": "user", "content": body["input"]})
    for item in asked.a_list(body.get("input")):
        if isinstance(item, dict):
            _add(messages, item)
    return messages


def _add(messages: list[Json], item: Json) -> None:
    """What the assistant says and calls in one go is one message."""
    kind = item.get("type", "message")
    if kind in CALLS:
        _own_turn(messages).setdefault("tool_calls", []).append(_call(item))
    elif kind in OUTPUTS:
        messages.append({"role": "tool", "content": item.get("output")})
    elif kind == "message" and item.get("role") == "assistant":
        turn = _own_turn(messages)
        turn["content"] = [*turn["content"], *_parts(item.get("content"))]
    elif kind == "message":
        messages.append({"role": item.get("role"), "content": item.get("content")})


def _own_turn(messages: list[Json]) -> Json:
    """The assistant's turn at the end, begun when there is none."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": []})
    return messages[-1]


def _parts(content: Any) -> list[Any]:
    return [{"type": "output_text", "text": content}] if isinstance(content, str) else asked.a_list(content)


def _call(item: Json) -> Json:
    return {name: item[name] for name in ("name", "arguments", "input") if name in item}


def _flat(tools: Any) -> Iterator[Any]:
    """Tools, and those inside of namespaces."""
    for tool in asked.a_list(tools):
        if isinstance(tool, dict) and tool.get("type") == "namespace":
            yield from asked.a_list(tool.get("tools"))
        else:
            yield tool
