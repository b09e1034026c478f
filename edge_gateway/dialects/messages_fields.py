"""The checked fields of a request of the Messages API."""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field

from edge_gateway.dialects import fields
from edge_gateway.dialects.fields import Allowed, Fields, Limit, ModelName, Objects
from edge_gateway.json_body import Json

ALLOWED: Allowed = MappingProxyType(
    {
        ("model",): fields.MODEL,
        ("max_tokens",): "a whole number from 1 to 4294967295",
        ("messages",): "a non-empty array of objects",
        ("messages", "role"): "user, assistant or system",
        ("messages", "content"): "a string or an array of content blocks",
        ("system",): "a string, an array of text blocks, or null",
        ("stream",): fields.FLAG,
        ("tools",): fields.OBJECTS,
        ("tool_choice",): fields.OBJECT,
        ("thinking",): fields.OBJECT,
        ("output_config",): fields.OBJECT,
    }
)


class Message(Fields):
    role: Literal["user", "assistant", "system"]
    content: str | Objects


class CountFields(Fields):
    model: ModelName
    messages: Annotated[list[Message], Field(min_length=1, fail_fast=True)]
    system: str | Objects | None = None
    tools: Objects | None = None
    tool_choice: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None


class MessagesFields(CountFields):
    max_tokens: Limit
    stream: bool | None = None


def check(body: Json) -> None:
    """Raise the INVALID_FIELD of the first field that is wrong."""
    fields.check(body, MessagesFields, ALLOWED)


def check_count(body: Json) -> None:
    """The same for a request whose tokens are to be counted, which needs no limit of output."""
    fields.check(body, CountFields, ALLOWED)
