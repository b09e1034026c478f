"""Token counts for answers whose upstream told none: four characters a token, text only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from executor.model import Usage

CHARACTERS_PER_TOKEN = 4
TEXT_KEYS = (
    "messages",
    "tools",
    "input",
    "content",
    "text",
    "function",
    "name",
    "description",
    "parameters",
    "arguments",
)


def usage(body: Mapping[str, Any], output_characters: int) -> Usage:
    """The estimate for a request's body and the characters of its answer."""
    return Usage(_tokens(_characters(body)), _tokens(output_characters), estimated=True)


def _characters(value: Any) -> int:
    """Characters of text in a body; images and audio are not text."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(map(_characters, value))
    if isinstance(value, dict):
        return sum(_characters(value[key]) for key in TEXT_KEYS if key in value)
    return 0


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)
