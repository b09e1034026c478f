"""The checked fields of a chat completion."""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated, Any

from pydantic import Field

from edge_gateway.dialects import fields
from edge_gateway.dialects.fields import Allowed, Fields, Limit, ModelName, Objects
from edge_gateway.json_body import Json

ALLOWED: Allowed = MappingProxyType(
    {
        ("model",): fields.MODEL,
        ("messages",): "a non-empty array of objects",
        ("messages", "role"): "a non-empty string such as system, user, assistant or tool",
        ("messages", "content"): "a string, an array of part objects, or null",
        ("messages", "tool_calls"): fields.OBJECTS,
        ("stream",): fields.FLAG,
        ("max_tokens",): fields.LIMIT,
        ("max_completion_tokens",): fields.LIMIT,
        ("tools",): fields.OBJECTS,
        ("functions",): fields.OBJECTS,
        ("tool_choice",): "a string, an object or null",
        ("response_format",): fields.OBJECT,
        ("modalities",): "an array of strings, or null",
        ("prompt_cache_key",): fields.TEXT,
    }
)


class Message(Fields):
    role: Annotated[str, Field(min_length=1)]
    content: str | Objects | None = None
    tool_calls: Objects | None = None


class ChatFields(Fields):
    model: ModelName
    messages: Annotated[list[Message], Field(min_length=1, fail_fast=True)]
    stream: bool | None = None
    max_tokens: Limit | None = None
    max_completion_tokens: Limit | None = None
    tools: Objects | None = None
    functions: Objects | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    modalities: Annotated[list[str], Field(fail_fast=True)] | None = None
    prompt_cache_key: str | None = None


def check(body: Json) -> None:
    """Raise the INVALID_FIELD of the first field that is wrong."""
    fields.check(body, ChatFields, ALLOWED)
