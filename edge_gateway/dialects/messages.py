"""A body of the Messages API -> what is asked for. Pure, and total over any JSON object."""

from __future__ import annotations

from typing import Any

from edge_gateway import tokens
from edge_gateway.dialects import asked
from edge_gateway.dialects.asked import Asked
from edge_gateway.json_body import Json

MARK = "cache_control"


def read(body: Json) -> Asked:
    """Marks of caching move from turn to turn, and are no part of what stays the same in a conversation."""
    tools = [_unmarked(tool) for tool in asked.a_list(body.get("tools"))]
    output = asked.an_object(body.get("output_config"))
    wanted = asked.an_object(output.get("format"))
    return Asked(
        messages=_messages(body),
        tokens_beside=tokens.of_json(tools) + tokens.of_json(wanted.get("schema")),
        tools=tools,
        forbids_tools=asked.an_object(body.get("tool_choice")).get("type") == "none",
        output_limit=asked.limit(body, "max_tokens"),
        stream=body.get("stream") is True,
        json=wanted.get("type") == "json_schema",
        reasoning=asked.given(body, ("thinking",)) or asked.given(output, ("effort",)),
    )


def _messages(body: Json) -> list[Any]:
    system = body.get("system")
    leading = [{"role": "system", "content": _content(system)}] if system else []
    return [*leading, *(_message(message) for message in asked.a_list(body.get("messages")))]


def _message(message: Any) -> Any:
    return {**message, "content": _content(message.get("content"))} if isinstance(message, dict) else message


def _content(content: Any) -> Any:
    return [_unmarked(block) for block in content] if isinstance(content, list) else content


def _unmarked(block: Any) -> Any:
    if not isinstance(block, dict) or MARK not in block:
        return block
    return {name: value for name, value in block.items() if name != MARK}
