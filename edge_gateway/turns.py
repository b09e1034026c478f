"""A chat conversation -> what routing needs to know of each message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from edge_gateway import tokens

IMAGE_PARTS = frozenset({"image_url", "input_image", "image"})
AUDIO_PARTS = frozenset({"input_audio", "audio"})
TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
TOOL_ROLES = frozenset({"tool", "function"})
SYSTEM_ROLES = frozenset({"system", "developer"})


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. ``results`` counts the tool results that it is or holds; ``text`` is that of a user turn.

    ``is_result``: it is a tool result; a user message that holds only tool results is one. An image inside a tool
    result is the turn's image too.
    """

    role: str
    tokens: int
    text: str = ""
    results: int = 0
    calls_tools: bool = False
    image: bool = False
    audio: bool = False
    is_result: bool = False

    @property
    def is_user(self) -> bool:
        """A user speaks."""
        return self.role == "user" and not self.is_result


def read(messages: Iterable[Any]) -> list[Turn]:
    """One Turn for each message; what is not a message counts as an empty one."""
    return [_turn(message) for message in messages]


def last_user(turns: Sequence[Turn]) -> int:
    """Index of the last turn in which a user speaks, -1 when there is none."""
    return next((index for index in range(len(turns) - 1, -1, -1) if turns[index].is_user), -1)


def text_of(content: Any) -> str:
    """The text of a message's content, its parts joined by line ends."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in parts(content) if isinstance(part.get("text"), str))


def parts(content: Any) -> list[dict[str, Any]]:
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _turn(message: Any) -> Turn:
    if not isinstance(message, dict):
        return Turn("", tokens.PER_MESSAGE)
    content = message.get("content")
    role = message["role"] if isinstance(message.get("role"), str) else ""
    own = [kind for part in parts(content) if (kind := _kind(part))]
    kinds = [*own, *_inner_kinds(content)]
    calls = message.get("tool_calls") or message.get("function_call")
    text = text_of(content) if role == "user" else ""
    results = 1 if role in TOOL_ROLES else own.count("tool_result")
    speaks = bool(text) or not (IMAGE_PARTS | AUDIO_PARTS).isdisjoint(own)
    return Turn(
        role=role,
        tokens=tokens.PER_MESSAGE + _tokens(content) + tokens.of_json(calls),
        text=text,
        results=results,
        calls_tools=bool(calls) or "tool_use" in own,
        image=not IMAGE_PARTS.isdisjoint(kinds),
        audio=not AUDIO_PARTS.isdisjoint(kinds),
        is_result=role in TOOL_ROLES or (results > 0 and not speaks),
    )


def _kind(part: dict[str, Any]) -> str:
    kind = part.get("type")
    return kind if isinstance(kind, str) else ""


def _inner_kinds(content: Any) -> Iterator[str]:
    """Kinds of the parts that tool results hold."""
    for part in parts(content):
        if _kind(part) == "tool_result":
            yield from (_kind(inner) for inner in parts(part.get("content")))


def _tokens(content: Any) -> int:
    return tokens.of_text(text_of(content)) + sum(map(_tokens_beside_text, parts(content)))


def _tokens_beside_text(part: dict[str, Any]) -> int:
    """Tokens of what a part says by other means than its text; data of media counts flat, whatever its size."""
    kind = _kind(part)
    match kind:
        case "tool_result":
            return _tokens(part.get("content"))
        case "tool_use" | "server_tool_use" | "search_result":
            return tokens.of_json(part)
        case "thinking" | "refusal":
            said = part.get(kind)
            return tokens.of_text(said) if isinstance(said, str) else 0
        case "document":
            return _tokens_of_document(part.get("source"))
        case _:
            return tokens.PER_MEDIA_PART if kind and kind not in TEXT_PARTS else 0


def _tokens_of_document(source: Any) -> int:
    if isinstance(source, dict) and source.get("type") == "text" and isinstance(source.get("data"), str):
        return tokens.of_text(source["data"])
    if isinstance(source, dict) and source.get("type") == "content":
        return _tokens(source.get("content"))
    return tokens.PER_MEDIA_PART
