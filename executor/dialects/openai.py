"""The openai dialect: chat completions and embeddings. Nearly everything passes through as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from executor import sse
from executor.dialects.frames import Answer, Frame, NoAnswer, Prepared
from executor.dialects.tool_deltas import ToolDeltas
from executor.faults import fault_in
from executor.model import Call, Operation, OutcomeClass, Target, Usage

DONE = b"[DONE]"
PATHS: Mapping[Operation, str] = {Operation.CHAT: "/chat/completions", Operation.EMBEDDINGS: "/embeddings"}
CONTENT_KEYS = (
    "content refusal reasoning reasoning_content reasoning_details thinking tool_calls function_call audio images"
).split()
EFFORT_KEYS = ("reasoning_effort", "reasoning", "thinking")
IDENTITY_KEYS = ("id", "object", "created", "model", "system_fingerprint", "service_tier")
MAX_TOKENS = 2**32 - 1


class OpenAI:
    """See ``Dialect``."""

    def prepare(self, call: Call, target: Target) -> Prepared:
        body = {**call.body, "model": target.model}
        added: set[str] = set()
        if target.prompt and isinstance(body.get("messages"), list):
            body["messages"] = [{"role": "system", "content": target.prompt}, *body["messages"]]
        if call.effort and call.operation is Operation.CHAT and not any(key in body for key in EFFORT_KEYS):
            body["reasoning_effort"] = call.effort
            added.add("reasoning_effort")
        if call.stream:
            options = body.get("stream_options")
            body["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
            if not options:
                added.add("stream_options")
        return Prepared(PATHS[call.operation], orjson.dumps(body), frozenset(added))

    def read_answer(self, call: Call, body: bytes) -> Answer | NoAnswer:
        body = body.strip()
        if not body:
            return NoAnswer(OutcomeClass.EMPTY, "the upstream sent an empty body")
        body, payload = _loaded(body)
        fault = fault_in(payload)
        if fault is not None:
            return NoAnswer(OutcomeClass.UPSTREAM_ERROR, "", fault)
        if not isinstance(payload, dict):
            kind = "a web page" if body[:1] == b"<" else "no whole JSON object"
            return NoAnswer(OutcomeClass.MALFORMED, f"the upstream sent {kind}")
        usage = usage_of(payload.get("usage"))
        if call.operation is Operation.EMBEDDINGS:
            return _embeddings(body, payload, usage)
        return _completion(body, payload, usage)

    def reader(self) -> ChunkReader:
        return ChunkReader()

    def as_stream(self, body: bytes) -> list[bytes]:
        """For each choice a chunk with everything it says, then one with its finish reason; usage last."""
        payload = orjson.loads(body)
        identity = {key: payload[key] for key in IDENTITY_KEYS if key in payload}
        identity["object"] = "chat.completion.chunk"
        chunks = []
        for place, choice in enumerate(_mappings(payload.get("choices"))):
            index = choice.get("index", place)
            said = _as_delta(choice, str(payload.get("id") or "chat"))
            end = {"index": index, "delta": {}, "finish_reason": choice.get("finish_reason") or "stop"}
            chunks.append({**identity, "choices": [{"index": index, "delta": said, "finish_reason": None}]})
            chunks.append({**identity, "choices": [end]})
        if payload.get("usage"):
            chunks.append({**identity, "choices": [], "usage": payload["usage"]})
        return [orjson.dumps(chunk) for chunk in chunks]


class ChunkReader:
    """See ``FrameReader``."""

    def __init__(self) -> None:
        self._identity: dict[str, Any] = {"id": "chat", "object": "chat.completion.chunk", "created": 0, "model": ""}
        self._tools: dict[Any, ToolDeltas] = {}

    def read(self, event: sse.Event) -> Frame:
        data = event.data.strip()
        if data == DONE:
            return Frame(done=True)
        data, chunk = _loaded(data)
        if not isinstance(chunk, dict):
            # What does not even begin like a chunk is taken for a sign of life of the upstream.
            return Frame(broken=data[:1] == b"{")
        choices = chunk.get("choices")
        if not choices or "error" in chunk or event.name == b"error":
            fault = fault_in({"error": chunk} if event.name == b"error" and "error" not in chunk else chunk)
            if fault is not None:
                return Frame(fault=fault)
        return self._frame(data, chunk, choices)

    def usage_chunk(self, usage: Usage, cost_usd: float) -> bytes:
        told: dict[str, Any] = {
            "prompt_tokens": usage.input,
            "completion_tokens": usage.output,
            "total_tokens": usage.input + usage.output,
        }
        chunk = {**self._identity, "choices": [], "usage": told if usage.estimated else self._identity["usage"]}
        extra: dict[str, Any] = {"cost_usd": cost_usd}
        if usage.estimated:
            extra["usage_estimated"] = True
        return orjson.dumps({**chunk, "omniroute": extra})

    def _frame(self, data: bytes, chunk: dict[str, Any], choices: Any) -> Frame:
        raw_usage = chunk.get("usage")
        changed = b"\n" in data
        if raw_usage:
            # Usage may come on any chunk; the client gets it once, at the end, and only if it asked.
            del chunk["usage"]
            self._identity["usage"] = raw_usage
            changed = True
        if chunk.get("id") != self._identity["id"]:
            self._identity |= {key: chunk[key] for key in IDENTITY_KEYS if key in chunk}
        content, characters, finish_reason = False, 0, ""
        for choice in _mappings(choices):
            delta = choice.get("delta")
            if isinstance(delta, dict):
                says, length = _said(delta)
                content, characters = content or says, characters + length
                changed = ("tool_calls" in delta and self._ordered_tools(choice.get("index"), delta)) or changed
            finish_reason = _word(choice.get("finish_reason")) or finish_reason
        if raw_usage and not choices:
            data = b""
        elif changed:
            data = orjson.dumps(chunk)
        return Frame(data, content, characters, usage_of(raw_usage), finish_reason)

    def _ordered_tools(self, choice_index: Any, delta: dict[str, Any]) -> bool:
        """Puts the delta's tool calls in order; False when they were."""
        deltas = delta.get("tool_calls")
        if not isinstance(deltas, list) or not deltas:
            return False
        tools = self._tools.setdefault(choice_index, ToolDeltas())
        ordered = tools.normalised(deltas, str(self._identity["id"]))
        if ordered == deltas:
            return False
        delta["tool_calls"] = ordered
        return True


def _said(delta: Mapping[str, Any]) -> tuple[bool, int]:
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
    for tool_call in _mappings(part.get("tool_calls")):
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
        input=_tokens(raw.get("prompt_tokens"), raw.get("input_tokens")),
        output=_tokens(raw.get("completion_tokens"), raw.get("output_tokens")),
        cached=_tokens(*cached),
        reasoning=_tokens(reasoning),
    )
    return usage if usage.input or usage.output else None


def _completion(body: bytes, payload: Mapping[str, Any], usage: Usage | None) -> Answer | NoAnswer:
    choices = payload.get("choices")
    if not isinstance(choices, list):
        return NoAnswer(OutcomeClass.MALFORMED, "the upstream's answer has no choices")
    messages = [choice["message"] for choice in _mappings(choices) if isinstance(choice.get("message"), dict)]
    finish_reason = next((_word(choice.get("finish_reason")) for choice in _mappings(choices)), "")
    refused = finish_reason == "content_filter" and not any(map(has_content, messages))
    hidden_reasoning = usage is not None and usage.reasoning > 0
    if not (refused or hidden_reasoning or any(map(has_content, messages))):
        return NoAnswer(OutcomeClass.EMPTY, "the upstream's answer has no content")
    return Answer(body, usage, finish_reason, sum(map(output_characters, messages)), refused)


def _embeddings(body: bytes, payload: Mapping[str, Any], usage: Usage | None) -> Answer | NoAnswer:
    data = payload.get("data")
    if not isinstance(data, list):
        return NoAnswer(OutcomeClass.MALFORMED, "the upstream's answer has no data")
    if not data:
        return NoAnswer(OutcomeClass.EMPTY, "the upstream's answer has no embeddings")
    return Answer(body, usage)


def _as_delta(choice: Mapping[str, Any], stream_id: str) -> dict[str, Any]:
    message = choice.get("message")
    delta: dict[str, Any] = dict(message) if isinstance(message, dict) else {"content": ""}
    delta.setdefault("role", "assistant")
    if isinstance(delta.get("tool_calls"), list):
        delta["tool_calls"] = ToolDeltas().normalised(delta["tool_calls"], stream_id)
    return delta


def _loaded(data: bytes) -> tuple[bytes, Any]:
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


def _mappings(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _tokens(*values: Any) -> int:
    for value in values:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS:
            return int(value)
    return 0
