"""A message of the Messages API as a chat completion."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import orjson

from executor.dialects import chat
from executor.dialects.conversation import ANTHROPIC_REASONING
from executor.model import Call, Usage

FINISH_REASONS: Mapping[str, str] = MappingProxyType(
    {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "pause_turn": "stop",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
        "tool_use": "tool_calls",
        "refusal": "content_filter",
    }
)

COMMON_BLOCKS = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})


def completion_of(message: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """Blocks of kinds that chat completions do not know are left out."""
    blocks = chat.mappings(message.get("content"))
    usage = usage_of(message.get("usage"))
    completion: dict[str, Any] = {
        "id": chat.word(message.get("id")) or chat.stream_id(call),
        "object": chat.COMPLETION,
        "created": call.created,
        "model": chat.word(message.get("model")),
        "choices": [
            {
                "index": 0,
                "message": _message(blocks),
                "finish_reason": FINISH_REASONS.get(chat.word(message.get("stop_reason")), "stop"),
            }
        ],
    }
    if usage is not None:
        completion["usage"] = chat.usage_told(usage)
    return completion


def usage_of(raw: Any) -> Usage | None:
    """Input tokens are told in three parts, of which the cached ones are not in the first."""
    if not isinstance(raw, dict):
        return None
    cached = chat.tokens(raw.get("cache_read_input_tokens"))
    written = chat.tokens(raw.get("cache_creation_input_tokens"))
    details = raw.get("output_tokens_details")
    usage = Usage(
        input=chat.tokens(raw.get("input_tokens")) + cached + written,
        output=chat.tokens(raw.get("output_tokens")),
        cached=cached,
        reasoning=chat.tokens(details.get("thinking_tokens")) if isinstance(details, dict) else 0,
    )
    return usage if usage.input or usage.output else None


def has_other_blocks(content: Any) -> bool:
    """Whether the vendor's own tools left something, which a client that asked for them can read."""
    return any(chat.word(block.get("type")) not in COMMON_BLOCKS for block in chat.mappings(content))


def reasoning_detail(index: int, **fields: str) -> dict[str, Any]:
    """Signed reasoning, as chat clients carry it on to their next request."""
    kind = "reasoning.encrypted" if "data" in fields else "reasoning.text"
    return {"type": kind, "format": ANTHROPIC_REASONING, "index": index, **fields}


def _message(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    text = "".join(chat.word(block.get("text")) for block in blocks if block.get("type") == "text")
    thoughts = [block for block in blocks if block.get("type") in ("thinking", "redacted_thinking")]
    reasoning = "".join(chat.word(block.get("thinking")) for block in thoughts)
    calls = [_tool_call(block) for block in blocks if block.get("type") == "tool_use"]
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if reasoning:
        message["reasoning_content"] = reasoning
    if thoughts:
        message["reasoning_details"] = [_thought(index, block) for index, block in enumerate(thoughts)]
    if calls:
        message["tool_calls"] = calls
    return message


def _thought(index: int, block: Mapping[str, Any]) -> dict[str, Any]:
    if block.get("type") == "redacted_thinking":
        return reasoning_detail(index, data=chat.word(block.get("data")))
    text, signature = chat.word(block.get("thinking")), chat.word(block.get("signature"))
    return reasoning_detail(index, text=text, signature=signature)


def _tool_call(block: Mapping[str, Any]) -> dict[str, Any]:
    arguments = orjson.dumps(block.get("input") or {}).decode()
    function = {"name": chat.word(block.get("name")), "arguments": arguments}
    return {"id": chat.word(block.get("id")), "type": "function", "function": function}
