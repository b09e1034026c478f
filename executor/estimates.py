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
    count, left = 0, [value]
    while left:
        part = left.pop()
        if isinstance(part, str):
            count += len(part)
        elif isinstance(part, list):
            left += part
        elif isinstance(part, dict):
            left += [part[key] for key in TEXT_KEYS if key in part]
    return count


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)
