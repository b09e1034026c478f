"""Embeddings: what is checked and read of their bodies."""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field

from edge_gateway import tokens
from edge_gateway.dialects import fields
from edge_gateway.dialects.asked import Asked
from edge_gateway.dialects.fields import Allowed, Fields, Limit, ModelName
from edge_gateway.json_body import Json

ALLOWED: Allowed = MappingProxyType(
    {
        ("model",): fields.MODEL,
        ("input",): "a non-empty string, or a non-empty array of strings, of token ids, or of arrays of token ids",
        ("dimensions",): fields.LIMIT,
        ("encoding_format",): "float, base64 or null",
        ("stream",): "false or null",
    }
)

Text = Annotated[str, Field(min_length=1)]
TokenId = Annotated[int, Field(ge=0)]
Texts = Annotated[list[Text], Field(min_length=1, fail_fast=True)]
TokenIds = Annotated[list[TokenId], Field(min_length=1, fail_fast=True)]
TokenLists = Annotated[list[TokenIds], Field(min_length=1, fail_fast=True)]


class EmbeddingsFields(Fields):
    model: ModelName
    input: Text | Texts | TokenIds | TokenLists
    dimensions: Limit | None = None
    encoding_format: Literal["float", "base64"] | None = None
    stream: Literal[False] | None = None


def check(body: Json) -> None:
    """Raise the INVALID_FIELD of the first field that is wrong."""
    fields.check(body, EmbeddingsFields, ALLOWED)


def read(body: Json) -> Asked:
    """Embeddings have no conversation: their input stands beside it."""
    return Asked(messages=(), tokens_beside=_tokens(body.get("input")))


def _tokens(given: Any) -> int:
    """A list of numbers is as many tokens."""
    match given:
        case str():
            return tokens.of_text(given)
        case list():
            return sum(1 if isinstance(each, int) else _tokens(each) for each in given)
        case _:
            return 0
