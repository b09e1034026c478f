"""Fields that routing reads, checked; everything else in a body passes through unread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from edge_gateway.json_body import Json, shape
from service_kit.errors import ServiceError, invalid

MAX_MODEL = 512
MODEL = f"a string of 1 to {MAX_MODEL} characters, none of them a control character"
LIMIT = "a whole number from 1 to 4294967295, or null"
OBJECTS = "an array of objects, or null"
OBJECT = "an object or null"
TEXT = "a string or null"
FLAG = "true, false or null"

# What each field allows, by its path; array indexes are left out.
Allowed = Mapping[tuple[str, ...], str]


def _printable(model: str) -> str:
    if not model.strip() or any(character < " " or "\x7f" <= character <= "\x9f" for character in model):
        raise ValueError
    return model


ModelName = Annotated[str, Field(max_length=MAX_MODEL), AfterValidator(_printable)]
Limit = Annotated[int, Field(ge=1, le=2**32 - 1)]
# Without fail_fast a body of a million wrong items would make a million errors.
Objects = Annotated[list[dict[str, Any]], Field(fail_fast=True)]


class Fields(BaseModel):
    """The checked fields of an object."""

    model_config = ConfigDict(strict=True)


def check(body: Json, fields: type[Fields], allowed: Allowed) -> None:
    """Raise the INVALID_FIELD of the first field that is wrong."""
    try:
        fields.model_validate(body)
    except ValidationError as error:
        raise _refusal(body, error.errors(include_url=False, include_context=False)[0]["loc"], allowed) from None


def _refusal(body: Json, place: Sequence[int | str], allowed: Allowed) -> ServiceError:
    """``place`` may end in names of union branches, which are no part of the body."""
    path: tuple[str, ...] = ()
    shown, given = "", True
    value: Any = body
    for step in place:
        if isinstance(step, str):
            if (*path, step) not in allowed:
                break
            path = (*path, step)
            given = isinstance(value, dict) and step in value
            value = value[step] if given else None
            shown = f"{shown}.{step}" if shown else step
        elif isinstance(value, list):
            value = value[step]
            shown = f"{shown}[{step}]"
    return invalid(shown, shape(value) if given else "nothing", allowed[path])
