"""A chat conversation -> what routing needs to know of each message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edge_gateway import tokens

IMAGE_PARTS = frozenset({"image_url", "input_image", "image"})
AUDIO_PARTS = frozenset({"input_audio", "audio"})
TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
TOOL_PARTS = frozenset({"tool_result", "tool_use"})
TOOL_ROLES = frozenset({"tool", "function"})
SYSTEM_ROLES = frozenset({"system", "developer"})


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. ``results`` counts the tool results that it is or holds; ``text`` is that of a user turn."""

    role: str
    tokens: int
    text: str = ""
    results: int = 0
    calls_tools: bool = False
    image: bool = False
    audio: bool = False

    @property
    def is_user(self) -> bool:
        """A user speaks; a user message that holds only tool results is a tool result."""
        return self.role == "user" and not self.is_result

    @property
    def is_result(self) -> bool:
        return self.role in TOOL_ROLES or (self.results > 0 and not self.text and not self.image and not self.audio)


def read(messages: Any) -> list[Turn]:
    """One Turn for each message; what is not a message counts as an empty one."""
    return [_turn(message) for message in messages] if isinstance(messages, list) else []


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
    kinds = [kind for part in parts(content) if isinstance(kind := part.get("type"), str)]
    calls = message.get("tool_calls") or message.get("function_call")
    text = text_of(content)
    return Turn(
        role=role,
        tokens=tokens.PER_MESSAGE + tokens.of_text(text) + _unspoken(content, kinds) + tokens.of_json(calls),
        text=text if role == "user" else "",
        results=1 if role in TOOL_ROLES else kinds.count("tool_result"),
        calls_tools=bool(calls) or "tool_use" in kinds,
        image=not IMAGE_PARTS.isdisjoint(kinds),
        audio=not AUDIO_PARTS.isdisjoint(kinds),
    )


def _unspoken(content: Any, kinds: Sequence[str]) -> int:
    """Tokens of the parts that hold no text of their own."""
    media = sum(kind not in TEXT_PARTS and kind not in TOOL_PARTS for kind in kinds)
    nested = [part for part in parts(content) if part.get("type") in ("tool_result", "tool_use")]
    return media * tokens.PER_MEDIA_PART + tokens.of_json(nested)
