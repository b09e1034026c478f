"""A chat completion's body -> what is asked for. Pure, and total over any JSON object."""

from __future__ import annotations

from edge_gateway import tokens
from edge_gateway.dialects import asked
from edge_gateway.dialects.asked import Asked
from edge_gateway.json_body import Json

STRUCTURED = ("json_schema", "json_object")
REASONING_FIELDS = ("reasoning_effort", "reasoning", "thinking")
TOOL_FIELDS = ("tools", "functions")


def read(body: Json) -> Asked:
    """Today's fields and the legacy ones."""
    tools = [tool for field in TOOL_FIELDS for tool in asked.a_list(body.get(field))]
    wanted = asked.an_object(body.get("response_format"))
    return Asked(
        messages=asked.a_list(body.get("messages")),
        tokens_beside=tokens.of_json(tools) + tokens.of_json(wanted.get("json_schema")),
        tools=tools,
        forbids_tools=body.get("tool_choice", body.get("function_call")) == "none",
        output_limit=asked.limit(body, "max_completion_tokens", "max_tokens"),
        stream=body.get("stream") is True,
        speaks=isinstance(body.get("audio"), dict) or "audio" in asked.a_list(body.get("modalities")),
        json=wanted.get("type") in STRUCTURED,
        reasoning=any(field in body for field in REASONING_FIELDS),
        cache_key=asked.cache_key(body),
    )
