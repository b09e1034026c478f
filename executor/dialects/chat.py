"""Chat completions, the form that requests, answers and streams have inside the executor; and embeddings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from executor.dialects.frames import Answer, NoAnswer
from executor.dialects.tool_deltas import ToolDeltas
from executor.faults import fault_in
from executor.model import Call, OutcomeClass, Usage

DONE = b"[DONE]"
CONTENT_KEYS = (
    "content refusal reasoning reasoning_content reasoning_details thinking tool_calls function_call audio images"
).split()
IDENTITY_KEYS = ("id", "object", "created", "model", "system_fingerprint", "service_tier")
CHUNK = "chat.completion.chunk"
COMPLETION = "chat.completion"
MAX_TOKENS = 2**32 - 1


def completion(body: bytes, payload: Mapping[str, Any], usage: Usage | None, own: bytes = b"") -> Answer | NoAnswer:
    """``payload`` and its JSON ``body``, checked: an answer has choices, and one of them says something."""
    choices = payload.get("choices")
    if not isinstance(choices, list):
        return NoAnswer(OutcomeClass.MALFORMED, "the upstream's answer has no choices")
    messages = [choice["message"] for choice in mappings(choices) if isinstance(choice.get("message"), dict)]
    finish_reason = next((word(choice.get("finish_reason")) for choice in mappings(choices)), "")
    refused = finish_reason == "content_filter" and not any(map(has_content, messages))
    hidden_reasoning = usage is not None and usage.reasoning > 0
    if not (refused or hidden_reasoning or any(map(has_content, messages))):
        return NoAnswer(OutcomeClass.EMPTY, "the upstream's answer has no content")
    return Answer(body, usage, finish_reason, sum(map(output_characters, messages)), refused, own)


def unusable(body: bytes, payload: Any) -> NoAnswer | None:
    """What is wrong with a whole answer, before any dialect looks into it; None when it is an object without error."""
    if not body:
        return NoAnswer(OutcomeClass.EMPTY, "the upstream sent an empty body")
    fault = fault_in(payload)
    if fault is not None:
        return NoAnswer(OutcomeClass.UPSTREAM_ERROR, "", fault)
    if not isinstance(payload, dict):
        kind = "a web page" if body[:1] == b"<" else "no whole JSON object"
        return NoAnswer(OutcomeClass.MALFORMED, f"the upstream sent {kind}")
    return None


def embeddings(payload: Mapping[str, Any], body: bytes = b"") -> Answer | NoAnswer:
    """A list of embeddings, checked; ``body`` is its JSON where it came so."""
    data = payload.get("data")
    if not isinstance(data, list):
        return NoAnswer(OutcomeClass.MALFORMED, "the upstream's answer has no data")
    if not data:
        return NoAnswer(OutcomeClass.EMPTY, "the upstream's answer has no embeddings")
    return Answer(body or orjson.dumps(payload), usage_of(payload.get("usage")))


def as_events(body: bytes) -> bytes:
    """The checked completion ``body`` as the event stream of an openai upstream.

    For each choice a chunk with everything it says, then one with its finish reason; usage last.
    """
    payload = orjson.loads(body)
    identity = {key: payload[key] for key in IDENTITY_KEYS if key in payload}
    identity["object"] = CHUNK
    chunks = []
    for place, choice in enumerate(mappings(payload.get("choices"))):
        index = choice.get("index", place)
        said = _as_delta(choice, str(payload.get("id") or "chat"))
        end = {"index": index, "delta": {}, "finish_reason": choice.get("finish_reason") or "stop"}
        chunks.append({**identity, "choices": [{"index": index, "delta": said, "finish_reason": None}]})
        chunks.append({**identity, "choices": [end]})
    if payload.get("usage"):
        chunks.append({**identity, "choices": [], "usage": payload["usage"]})
    return b"".join(b"data: " + data + b"\n\n" for data in [*map(orjson.dumps, chunks), DONE])


def stream_id(call: Call) -> str:
    """For an answer that gives itself no id: ids of tool calls are made of it, and must differ from turn to turn."""
    return f"chatcmpl-{call.decision_id}"


def said(delta: Mapping[str, Any]) -> tuple[bool, int]:
    """Whether a delta says something, and its characters; nearly every delta is one piece of text and nothing else."""
    text = delta.get("content")
    if len(delta) == 1 and isinstance(text, str):
        return bool(text), len(text)
    return has_content(delta), output_characters(delta)


def has_content(part: Mapping[str, Any]) -> bool:
    """A message or delta that says something: text, a refusal, reasoning, a tool call, audio or an image."""
    return any(part.get(key) for key in CONTENT_KEYS)


def output_characters(part: Mapping[str, Any]) -> int:
    """Characters of text, reasoning and tool arguments in a message or delta."""
    texts = [part.get(key) for key in ("content", "refusal", "reasoning", "reasoning_content")]
    for tool_call in mappings(part.get("tool_calls")):
        function = tool_call.get("function")
        if isinstance(function, dict):
            texts += [function.get("name"), function.get("arguments")]
    return sum(len(text) for text in texts if isinstance(text, str))


def usage_of(raw: Any) -> Usage | None:
    """Tokens as upstreams of this dialect tell them, in their several spellings; None when they tell none."""
    if not isinstance(raw, dict):
        return None
    details, output_details = raw.get("prompt_tokens_details"), raw.get("completion_tokens_details")
    cached = [raw.get("prompt_cache_hit_tokens"), raw.get("cached_tokens")]
    if isinstance(details, dict):
        cached.insert(0, details.get("cached_tokens"))
    reasoning = output_details.get("reasoning_tokens") if isinstance(output_details, dict) else None
    usage = Usage(
        input=tokens(raw.get("prompt_tokens"), raw.get("input_tokens")),
        output=tokens(raw.get("completion_tokens"), raw.get("output_tokens")),
        cached=tokens(*cached),
        reasoning=tokens(reasoning),
    )
    return usage if usage.input or usage.output else None


def usage_told(usage: Usage) -> dict[str, Any]:
    """``usage`` in this dialect's words."""
    told: dict[str, Any] = {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
    }
    if usage.cached:
        told["prompt_tokens_details"] = {"cached_tokens": usage.cached}
    if usage.reasoning:
        told["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return told


def loaded(data: bytes) -> tuple[bytes, Any]:
    """The bytes and what they say; bytes that are not UTF-8 are repaired first. None when they are no JSON."""
    try:
        return data, orjson.loads(data)
    except orjson.JSONDecodeError:
        repaired = data.decode("utf-8", "replace").encode()
        if repaired == data:
            return data, None
    try:
        return repaired, orjson.loads(repaired)
    except orjson.JSONDecodeError:
        return data, None


def mappings(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; what is no list has none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def word(value: Any) -> str:
    """A text, or nothing."""
    return value if isinstance(value, str) else ""


def tokens(*values: Any) -> int:
    """The first of ``values`` that can be a count of tokens, else 0."""
    for value in values:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS:
            return int(value)
    return 0


def texts(parts: Iterable[Any]) -> list[str]:
    """Those of ``parts`` that are texts with something in them."""
    return [part for part in parts if isinstance(part, str) and part]


def _as_delta(choice: Mapping[str, Any], stream_id: str) -> dict[str, Any]:
    message = choice.get("message")
    delta: dict[str, Any] = dict(message) if isinstance(message, dict) else {"content": ""}
    delta.setdefault("role", "assistant")
    if isinstance(delta.get("tool_calls"), list):
        delta["tool_calls"] = ToolDeltas().normalised(delta["tool_calls"], stream_id)
    return delta
