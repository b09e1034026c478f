"""The fields of a chat completion that routing reads, checked; everything else passes through unread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from edge_gateway.json_body import Json, shape
from service_kit.errors import ServiceError, invalid

MAX_MODEL = 512
LIMIT = "a whole number from 1 to 4294967295, or null"
OBJECTS = "an array of objects, or null"

# What each field allows, by its path; array indexes are left out.
ALLOWED: Mapping[tuple[str, ...], str] = MappingProxyType(
    {
        ("model",): f"a string of 1 to {MAX_MODEL} characters, none of them a control character",
        ("messages",): "a non-empty array of objects",
        ("messages", "role"): "a non-empty string such as system, user, assistant or tool",
        ("messages", "content"): "a string, an array of part objects, or null",
        ("messages", "tool_calls"): OBJECTS,
        ("stream",): "true, false or null",
        ("max_tokens",): LIMIT,
        ("max_completion_tokens",): LIMIT,
        ("tools",): OBJECTS,
        ("functions",): OBJECTS,
        ("tool_choice",): "a string, an object or null",
        ("response_format",): "an object or null",
        ("modalities",): "an array of strings, or null",
        ("prompt_cache_key",): "a string or null",
    }
)


def _printable(model: str) -> str:
    if not model.strip() or any(character < " " or "\x7f" <= character <= "\x9f" for character in model):
        raise ValueError
    return model


Limit = Annotated[int, Field(ge=1, le=2**32 - 1)]
# Without fail_fast a body of a million wrong items would make a million errors.
Objects = Annotated[list[dict[str, Any]], Field(fail_fast=True)]


class Message(BaseModel):
    model_config = ConfigDict(strict=True)

    role: Annotated[str, Field(min_length=1)]
    content: str | Objects | None = None
    tool_calls: Objects | None = None


class ChatFields(BaseModel):
    model_config = ConfigDict(strict=True)

    model: Annotated[str, Field(max_length=MAX_MODEL), AfterValidator(_printable)]
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
    try:
        ChatFields.model_validate(body)
    except ValidationError as error:
        raise _refusal(body, error.errors(include_url=False, include_context=False)[0]["loc"]) from None


def _refusal(body: Json, place: Sequence[int | str]) -> ServiceError:
    """``place`` may end in names of union branches, which are no part of the body."""
    path: tuple[str, ...] = ()
    shown, given = "", True
    value: Any = body
    for step in place:
        if isinstance(step, str):
            if (*path, step) not in ALLOWED:
                break
            path = (*path, step)
            given = isinstance(value, dict) and step in value
            value = value[step] if given else None
            shown = f"{shown}.{step}" if shown else step
        elif isinstance(value, list):
            value = value[step]
            shown = f"{shown}[{step}]"
    return invalid(shown, shape(value) if given else "nothing", ALLOWED[path])
