"""The checked fields of a request of the Responses API."""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field

from edge_gateway.dialects import fields
from edge_gateway.dialects.fields import Allowed, Fields, Limit, ModelName, Objects
from edge_gateway.json_body import Json

NOTHING_KEPT = "null: nothing is kept between requests, so send the whole input"

ALLOWED: Allowed = MappingProxyType(
    {
        ("model",): fields.MODEL,
        ("input",): "a non-empty string or a non-empty array of item objects",
        ("instructions",): fields.TEXT,
        ("stream",): fields.FLAG,
        ("max_output_tokens",): fields.LIMIT,
        ("tools",): fields.OBJECTS,
        ("tool_choice",): "a string, an object or null",
        ("text",): fields.OBJECT,
        ("reasoning",): fields.OBJECT,
        ("prompt_cache_key",): fields.TEXT,
        ("previous_response_id",): NOTHING_KEPT,
        ("conversation",): NOTHING_KEPT,
        ("prompt",): NOTHING_KEPT,
        ("background",): "false or null: answers are not kept",
    }
)


class ResponsesFields(Fields):
    model: ModelName
    input: Annotated[str, Field(min_length=1)] | Annotated[Objects, Field(min_length=1)]
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: Limit | None = None
    tools: Objects | None = None
    tool_choice: str | dict[str, Any] | None = None
    text: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None
    prompt_cache_key: str | None = None
    previous_response_id: None = None
    conversation: None = None
    prompt: None = None
    background: Literal[False] | None = None


def check(body: Json) -> None:
    """Raise the INVALID_FIELD of the first field that is wrong."""
    fields.check(body, ResponsesFields, ALLOWED)
