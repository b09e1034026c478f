"""What is asked for, in whichever dialect, as far as routing reads it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from edge_gateway.json_body import Json

MAX_UINT32 = 2**32 - 1
MAX_CACHE_KEY = 256


@dataclass(frozen=True, slots=True)
class Asked:
    """``messages`` are the conversation in the form of chat messages, system turns first.

    ``tokens_beside`` are those of what a model is shown beside the conversation, such as tool definitions.
    ``speaks`` asks for audio, ``json`` for structured output, ``reasoning`` says that the client set parameters of it.
    """

    messages: Sequence[Any]
    tokens_beside: int = 0
    tools: Sequence[Any] = ()
    forbids_tools: bool = False
    output_limit: int | None = None
    stream: bool = False
    speaks: bool = False
    json: bool = False
    reasoning: bool = False
    cache_key: str = ""


def limit(body: Json, *names: str) -> int | None:
    """The first of the fields that limits the output."""
    for name in names:
        given = body.get(name)
        if isinstance(given, int) and not isinstance(given, bool) and given > 0:
            return min(given, MAX_UINT32)
    return None


def cache_key(body: Json) -> str:
    """The client's own cache key; a long one is replaced by its hash."""
    key = body.get("prompt_cache_key")
    if not isinstance(key, str):
        return ""
    return key if len(key) <= MAX_CACHE_KEY else hashlib.sha256(key.encode()).hexdigest()


def an_object(value: Any) -> Json:
    """The value, or an empty object in place of anything else."""
    return value if isinstance(value, dict) else {}


def a_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def given(body: Json, names: Iterable[str]) -> bool:
    """Whether one of the fields holds something."""
    return any(body.get(name) is not None for name in names)
