"""The Messages API's stream as chunks of a chat completion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import orjson

from executor import sse
from executor.dialects import chat
from executor.dialects.anthropic.answer import FINISH_REASONS, reasoning_detail, usage_of
from executor.dialects.frames import Frame
from executor.faults import Fault, fault_in
from executor.model import Call

SILENT = Frame()


@dataclass(slots=True)
class _Block:
    """A content block that has begun. ``place`` counts the tool calls, or the thoughts, before it."""

    type: str
    place: int
    input: Any = None
    has_json: bool = False
    thought: str = ""
    signature: str = ""


class EventReader:
    """See ``FrameReader``."""

    def __init__(self, call: Call) -> None:
        self._identity: dict[str, Any] = {
            "id": chat.stream_id(call),
            "object": chat.CHUNK,
            "created": call.created,
            "model": "",
        }
        self._blocks: dict[int, _Block] = {}
        self._places: dict[str, int] = {}
        self._usage: dict[str, Any] = {}

    def read(self, event: sse.Event) -> Frame:
        data, payload = chat.loaded(event.data.strip())
        if not isinstance(payload, dict):
            return Frame(broken=data[:1] == b"{")
        kind = chat.word(payload.get("type")) or event.name.decode("utf-8", "replace")
        if kind == "error" or payload.get("error"):
            return Frame(fault=fault_in(payload) or Fault("the upstream's stream told of an error without a text"))
        handle = HANDLERS.get(kind)
        return handle(self, payload) if handle is not None else SILENT

    def message_start(self, payload: Mapping[str, Any]) -> Frame:
        message = payload.get("message")
        if isinstance(message, dict):
            self._identity["id"] = chat.word(message.get("id")) or self._identity["id"]
            self._identity["model"] = chat.word(message.get("model"))
            self._learn_usage(message.get("usage"))
        return Frame(self._chunk({"role": "assistant", "content": ""}))

    def block_start(self, payload: Mapping[str, Any]) -> Frame:
        given = payload.get("content_block")
        content = given if isinstance(given, dict) else {}
        kind = chat.word(content.get("type"))
        family = "thinking" if kind == "redacted_thinking" else kind
        place = self._places.get(family, 0)
        self._places[family] = place + 1
        block = _Block(kind, place, content.get("input"))
        self._blocks[_index(payload)] = block
        if kind == "tool_use":
            function = {"name": chat.word(content.get("name")), "arguments": ""}
            call = {"index": place, "id": chat.word(content.get("id")), "type": "function", "function": function}
            return self._said({"tool_calls": [call]}, len(function["name"]))
        if kind == "redacted_thinking":
            return self._said({"reasoning_details": [reasoning_detail(place, data=chat.word(content.get("data")))]}, 0)
        text, thought = chat.word(content.get("text")), chat.word(content.get("thinking"))
        if kind == "text":
            return self._said({"content": text}, len(text)) if text else SILENT
        if kind == "thinking":
            return self._thought(block, thought) if thought else SILENT
        # What the vendor's own tools do is content too, for a client that asked for them in the vendor's dialect.
        return Frame(content=True)

    def block_delta(self, payload: Mapping[str, Any]) -> Frame:
        given, block = payload.get("delta"), self._blocks.get(_index(payload))
        delta = given if isinstance(given, dict) else {}
        text, thought, partial = (chat.word(delta.get(key)) for key in ("text", "thinking", "partial_json"))
        if text:
            return self._said({"content": text}, len(text))
        if block is None:
            return SILENT
        if thought:
            return self._thought(block, thought)
        if partial and block.type == "tool_use":
            block.has_json = True
            return self._arguments(block, partial)
        block.signature += chat.word(delta.get("signature"))
        return SILENT

    def block_stop(self, payload: Mapping[str, Any]) -> Frame:
        """Arguments that never came in pieces stood in the block's beginning; a signature is whole only now."""
        block = self._blocks.pop(_index(payload), None)
        if block is None:
            return SILENT
        if block.type == "tool_use" and not block.has_json:
            return self._arguments(block, orjson.dumps(block.input or {}).decode())
        if block.signature:
            detail = reasoning_detail(block.place, text=block.thought, signature=block.signature)
            return Frame(self._chunk({"reasoning_details": [detail]}), content=True)
        return SILENT

    def message_delta(self, payload: Mapping[str, Any]) -> Frame:
        delta = payload.get("delta")
        self._learn_usage(payload.get("usage"))
        reason = chat.word(delta.get("stop_reason")) if isinstance(delta, dict) else ""
        usage = usage_of(self._usage)
        if not reason:
            return Frame(usage=usage)
        finish_reason = FINISH_REASONS.get(reason, "stop")
        return Frame(self._chunk({}, finish_reason), usage=usage, finish_reason=finish_reason)

    def message_stop(self, _payload: Mapping[str, Any]) -> Frame:
        return Frame(done=True)

    def _thought(self, block: _Block, text: str) -> Frame:
        block.thought += text
        return self._said({"reasoning_content": text}, len(text))

    def _arguments(self, block: _Block, partial: str) -> Frame:
        call = {"index": block.place, "function": {"arguments": partial}}
        return self._said({"tool_calls": [call]}, len(partial))

    def _said(self, delta: dict[str, Any], characters: int) -> Frame:
        return Frame(self._chunk(delta), content=True, characters=characters)

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        return {**self._identity, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}

    def _learn_usage(self, told: Any) -> None:
        """Later counts are totals, and leave out what has not changed."""
        if isinstance(told, dict):
            self._usage |= {key: value for key, value in told.items() if value is not None}


def _index(payload: Mapping[str, Any]) -> int:
    index = payload.get("index")
    return index if isinstance(index, int) else -1


HANDLERS: Mapping[str, Callable[[EventReader, Mapping[str, Any]], Frame]] = MappingProxyType(
    {
        "message_start": EventReader.message_start,
        "content_block_start": EventReader.block_start,
        "content_block_delta": EventReader.block_delta,
        "content_block_stop": EventReader.block_stop,
        "message_delta": EventReader.message_delta,
        "message_stop": EventReader.message_stop,
    }
)
