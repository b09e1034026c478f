"""What a chat message or one delta of it says, piece by piece, for clients that are told it in other words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from executor.dialects.chat import mappings, word


class Text(NamedTuple):
    """Text of the answer."""

    text: str


class Thought(NamedTuple):
    """Text of the reasoning."""

    text: str


class Refusal(NamedTuple):
    """Text in which the model declines."""

    text: str


class ToolPiece(NamedTuple):
    """A part of the call at ``place``; id and name stand in its first piece."""

    place: int
    id: str
    name: str
    arguments: str


Piece = Text | Thought | Refusal | ToolPiece


def of_chunk(chunk: Mapping[str, Any]) -> Iterator[Piece]:
    """What the first choice says; clients that read other dialects know one answer only."""
    for choice in mappings(chunk.get("choices")):
        delta = choice.get("delta")
        if choice.get("index", 0) == 0 and isinstance(delta, dict):
            yield from of_part(delta)


def of_part(part: Mapping[str, Any]) -> Iterator[Piece]:
    """``part`` is a message or a delta."""
    thought = word(part.get("reasoning_content")) or word(part.get("reasoning"))
    if thought:
        yield Thought(thought)
    if word(part.get("content")):
        yield Text(part["content"])
    if word(part.get("refusal")):
        yield Refusal(part["refusal"])
    for place, call in enumerate(mappings(part.get("tool_calls"))):
        given = call.get("function")
        function = given if isinstance(given, dict) else {}
        index = call.get("index", place)
        yield ToolPiece(
            index if isinstance(index, int) else place,
            word(call.get("id")),
            word(function.get("name")),
            word(function.get("arguments")),
        )


def finish_reason(chunk: Mapping[str, Any]) -> str:
    """The first choice's, empty while it goes on."""
    choices = mappings(chunk.get("choices"))
    return next((word(choice.get("finish_reason")) for choice in choices if choice.get("index", 0) == 0), "")


def exhaust(events: Iterable[object]) -> None:
    """Of a whole answer nobody wants the events, only what they lead to."""
    for _ in events:
        pass
