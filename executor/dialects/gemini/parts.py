"""Turns of a conversation as contents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import orjson

from executor.dialects.conversation import Conversation, Media, Part, Text, Thought, ToolCall, ToolResult, Turn
from executor.dialects.frames import Untranslatable

ROLES: Mapping[str, str] = {"user": "user", "assistant": "model"}
# What Google's API takes in place of a signature, for calls that another model made.
UNSIGNED = "skip_thought_signature_validator"
IMAGE_TYPES: Mapping[str, str] = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "heic": "image/heic",
}


def contents(spoken: Conversation, *, signs_calls: bool) -> list[dict[str, Any]]:
    """``signs_calls``: the model refuses calls in its history without a signature. Raises Untranslatable."""
    return [_content(turn, signs_calls) for turn in spoken.turns]


def _content(turn: Turn, signs_calls: bool) -> dict[str, Any]:
    told = [part for given in turn.parts if (part := PARTS[type(given)](given)) is not None]
    if signs_calls:
        _sign_first_call(told)
    return {"role": ROLES[turn.role], "parts": told}


def _sign_first_call(parts: Sequence[dict[str, Any]]) -> None:
    """Of parallel calls only the first carries the signature."""
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None:
        first.setdefault("thoughtSignature", UNSIGNED)


def _text(part: Text) -> dict[str, Any]:
    return {"text": part.text}


def _media(part: Media) -> dict[str, Any]:
    if part.data:
        return {"inlineData": {"mimeType": part.mime, "data": part.data}}
    ending = urlsplit(part.url).path.rpartition(".")[2].lower()
    return {"fileData": {"mimeType": IMAGE_TYPES.get(ending, "image/jpeg"), "fileUri": part.url}}


def _call(part: ToolCall) -> dict[str, Any]:
    told: dict[str, Any] = {"functionCall": {"name": part.name, "args": part.arguments}}
    if part.signature:
        told["thoughtSignature"] = part.signature
    return told


def _result(part: ToolResult) -> dict[str, Any]:
    if not part.name:
        raise Untranslatable("a tool result belongs to no call, and the target's dialect names results by their call")
    response: dict[str, Any] = {"name": part.name, "response": _response(part.text)}
    media = [_media(inner) for inner in part.parts if isinstance(inner, Media)]
    if any("fileData" in inner for inner in media):
        raise Untranslatable(
            "a tool result holds an image by its address, and the target's dialect takes its data only"
        )
    if media:
        response["parts"] = media
    return {"functionResponse": response}


def _response(text: str) -> dict[str, Any]:
    """An object as it is, anything else as the output that it is."""
    try:
        loaded = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {"output": text}
    return loaded if isinstance(loaded, dict) else {"output": loaded}


def _thought(_part: Thought) -> None:
    """Another vendor's signed reasoning says nothing here."""
    return


PARTS: Mapping[type[Part], Callable[[Any], dict[str, Any] | None]] = {
    Text: _text,
    Media: _media,
    ToolCall: _call,
    ToolResult: _result,
    Thought: _thought,
}
