"""Parts of a conversation as content blocks."""

from __future__ import annotations

import re
from typing import Any

from executor.dialects.conversation import Media, Part, Text, Thought, ToolCall, ToolResult
from executor.dialects.frames import Untranslatable

_ODD = re.compile(r"[^A-Za-z0-9_-]")


def block(part: Part) -> dict[str, Any]:
    """Raises Untranslatable."""
    match part:
        case Text():
            return text_block(part)
        case Media():
            return _media(part)
        case ToolCall():
            return {"type": "tool_use", "id": _id(part.id), "name": part.name, "input": part.arguments}
        case ToolResult():
            return {
                "type": "tool_result",
                "tool_use_id": _id(part.id),
                "content": [block(inner) for inner in part.parts],
            }
        case Thought(hidden=""):
            return {"type": "thinking", "thinking": part.text, "signature": part.signature}
        case Thought():
            return {"type": "redacted_thinking", "data": part.hidden}


def text_block(text: Text) -> dict[str, Any]:
    told: dict[str, Any] = {"type": "text", "text": text.text}
    if text.cache:
        told["cache_control"] = text.cache
    return told


def own_block(item: Any) -> bool:
    """A block of a client's own body that is fit to be sent on: all but thinking that nobody signed."""
    return not (isinstance(item, dict) and item.get("type") == "thinking" and not item.get("signature"))


def _id(given: str) -> str:
    """Ids of other vendors' calls may hold characters that are refused here."""
    return _ODD.sub("_", given)


def _media(media: Media) -> dict[str, Any]:
    if media.kind == "audio":
        raise Untranslatable("the target's dialect has no audio")
    source: dict[str, Any] = {"type": "url", "url": media.url}
    if media.data:
        source = {"type": "base64", "media_type": media.mime, "data": media.data}
    told: dict[str, Any] = {"type": media.kind, "source": source}
    if media.name:
        told["title"] = media.name
    if media.cache:
        told["cache_control"] = media.cache
    return told
