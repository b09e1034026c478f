"""An answer of generateContent as a chat completion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import orjson

from executor.dialects import chat
from executor.dialects.tool_deltas import made_id
from executor.model import Call, Usage

WITHHELD = "content_filter"
# Every other reason is a stop, of the model's own accord or by a fault of its own.
FINISH_REASONS: Mapping[str, str] = MappingProxyType(
    {
        "MAX_TOKENS": "length",
        "SAFETY": WITHHELD,
        "RECITATION": WITHHELD,
        "LANGUAGE": WITHHELD,
        "BLOCKLIST": WITHHELD,
        "PROHIBITED_CONTENT": WITHHELD,
        "SPII": WITHHELD,
        "IMAGE_SAFETY": WITHHELD,
        "IMAGE_PROHIBITED_CONTENT": WITHHELD,
        "IMAGE_RECITATION": WITHHELD,
        "ESCALATION": WITHHELD,
    }
)


def completion_of(response: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """A prompt that was blocked has one choice, which says so."""
    stream_id = chat.word(response.get("responseId")) or chat.stream_id(call)
    choices = []
    for place, candidate in enumerate(chat.mappings(response.get("candidates"))):
        said = Said(stream_id, one_call=wants_one_call(call))
        message = {"role": "assistant", "content": None, **said.delta(candidate)}
        for tool_call in message.get("tool_calls", ()):
            del tool_call["index"]
        choices.append({"index": place, "message": message, "finish_reason": said.finish_reason(candidate) or "stop"})
    if not choices and is_blocked(response):
        choices = [{"index": 0, "message": {"role": "assistant", "content": None}, "finish_reason": WITHHELD}]
    usage = usage_of(response.get("usageMetadata"))
    told = {} if usage is None else {"usage": chat.usage_told(usage)}
    return {**identity(response, call, chat.COMPLETION), "choices": choices, **told}


def identity(response: Mapping[str, Any], call: Call, kind: str) -> dict[str, Any]:
    """What every chunk says of itself."""
    return {
        "id": chat.word(response.get("responseId")) or chat.stream_id(call),
        "object": kind,
        "created": call.created,
        "model": chat.word(response.get("modelVersion")),
    }


def is_blocked(response: Mapping[str, Any]) -> bool:
    feedback = response.get("promptFeedback")
    return isinstance(feedback, dict) and bool(feedback.get("blockReason"))


def wants_one_call(call: Call) -> bool:
    """This dialect cannot be asked for one call at a time, so that calls after the first are left out."""
    return call.body.get("parallel_tool_calls") is False


def usage_of(raw: Any) -> Usage | None:
    """Thoughts are told beside the output, here they are part of it."""
    if not isinstance(raw, dict):
        return None
    thoughts = chat.tokens(raw.get("thoughtsTokenCount"))
    usage = Usage(
        input=chat.tokens(raw.get("promptTokenCount")) + chat.tokens(raw.get("toolUsePromptTokenCount")),
        output=chat.tokens(raw.get("candidatesTokenCount")) + thoughts,
        cached=chat.tokens(raw.get("cachedContentTokenCount")),
        reasoning=thoughts,
    )
    return usage if usage.input or usage.output else None


class Said:
    """One candidate: what its parts say, over as many pieces as they come in."""

    def __init__(self, stream_id: str, *, one_call: bool) -> None:
        self._stream_id = stream_id
        self._one_call = one_call
        self._calls = 0

    def delta(self, candidate: Mapping[str, Any]) -> dict[str, Any]:
        """The candidate's parts in the fields of a chat message; tool calls have their index."""
        content = candidate.get("content")
        parts = chat.mappings(content.get("parts")) if isinstance(content, dict) else []
        told: dict[str, Any] = {}
        for field, thought in (("reasoning_content", True), ("content", False)):
            text = _text(part for part in parts if bool(part.get("thought")) is thought)
            if text:
                told[field] = text
        images = [image for part in parts if (image := _image(part.get("inlineData"))) is not None]
        if images:
            told["images"] = images
        calls = [call for part in parts if (call := self._call(part)) is not None]
        if calls:
            told["tool_calls"] = calls
        return told

    def finish_reason(self, candidate: Mapping[str, Any]) -> str:
        """Empty while the candidate goes on."""
        reason = chat.word(candidate.get("finishReason"))
        if not reason:
            return ""
        finish_reason = FINISH_REASONS.get(reason, "stop")
        return "tool_calls" if finish_reason == "stop" and self._calls else finish_reason

    def _call(self, part: Mapping[str, Any]) -> dict[str, Any] | None:
        given = part.get("functionCall")
        if not isinstance(given, dict) or (self._one_call and self._calls):
            return None
        index = self._calls
        self._calls += 1
        arguments = orjson.dumps(given.get("args") or {}).decode()
        call: dict[str, Any] = {
            "index": index,
            "id": chat.word(given.get("id")) or made_id(self._stream_id, index),
            "type": "function",
            "function": {"name": chat.word(given.get("name")), "arguments": arguments},
        }
        signature = chat.word(part.get("thoughtSignature"))
        if signature:
            call["extra_content"] = {"google": {"thought_signature": signature}}
        return call


def _text(parts: Iterable[Mapping[str, Any]]) -> str:
    return "".join(chat.word(part.get("text")) for part in parts)


def _image(blob: Any) -> dict[str, Any] | None:
    if not isinstance(blob, dict) or not chat.word(blob.get("data")):
        return None
    url = f"data:{chat.word(blob.get('mimeType')) or 'image/png'};base64,{blob['data']}"
    return {"type": "image_url", "image_url": {"url": url}}
