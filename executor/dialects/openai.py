"""The openai dialect: chat completions and embeddings. Nearly everything passes through as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from executor import sse
from executor.dialects import chat
from executor.dialects.frames import Answer, Frame, NoAnswer, Prepared
from executor.dialects.tool_deltas import ToolDeltas
from executor.faults import fault_in
from executor.model import Call, Operation, Target

PATHS: Mapping[Operation, str] = {Operation.CHAT: "/chat/completions", Operation.EMBEDDINGS: "/embeddings"}
# OpenAI's models that reason refuse the older name of the output limit; other vendors know no newer one. A client that
# asks `auto` cannot know which of them will answer.
COMPLETION_LIMIT = re.compile(r"(?:^|/)(?:o[1-9]|gpt-[5-9])")
EFFORT_KEYS = ("reasoning_effort", "reasoning", "thinking")


class OpenAI:
    """See ``Dialect``."""

    def prepare(self, call: Call, target: Target) -> Prepared:
        body = {**call.body, "model": target.model}
        if call.spoken is not None:
            body = _fitted(body, target)
        if "max_tokens" in body and COMPLETION_LIMIT.search(target.model):
            body.setdefault("max_completion_tokens", body.pop("max_tokens"))
        added: set[str] = set()
        if target.prompt and isinstance(body.get("messages"), list):
            body["messages"] = [{"role": "system", "content": target.prompt}, *body["messages"]]
        if _takes_effort(call, target, body):
            body["reasoning_effort"] = call.effort
            added.add("reasoning_effort")
        if call.stream:
            options = body.get("stream_options")
            body["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
            if not options:
                added.add("stream_options")
        return Prepared(PATHS[call.operation], orjson.dumps(body), frozenset(added), translated=call.spoken is not None)

    def read_answer(self, call: Call, body: bytes) -> Answer | NoAnswer:
        body, payload = chat.loaded(body.strip())
        no_answer = chat.unusable(body, payload)
        if no_answer is not None:
            return no_answer
        if call.operation is Operation.EMBEDDINGS:
            return chat.embeddings(payload, body)
        return chat.completion(body, payload, chat.usage_of(payload.get("usage")))

    def reader(self, call: Call) -> ChunkReader:
        return ChunkReader(chat.stream_id(call))


class ChunkReader:
    """See ``FrameReader``. ``stream_id`` is for a stream that gives itself none."""

    def __init__(self, stream_id: str = "chat") -> None:
        self._id = stream_id
        self._tools: dict[int, ToolDeltas] = {}

    def read(self, event: sse.Event) -> Frame:
        data = event.data.strip()
        if data == chat.DONE:
            return Frame(done=True)
        data, chunk = chat.loaded(data)
        if not isinstance(chunk, dict):
            # What does not even begin like a chunk is taken for a sign of life of the upstream.
            return Frame(broken=data[:1] == b"{")
        choices = chunk.get("choices")
        if not choices or "error" in chunk or event.name == b"error":
            fault = fault_in({"error": chunk} if event.name == b"error" and "error" not in chunk else chunk)
            if fault is not None:
                return Frame(fault=fault)
        return self._frame(data, chunk, choices)

    def _frame(self, data: bytes, chunk: dict[str, Any], choices: Any) -> Frame:
        self._id = chat.word(chunk.get("id")) or self._id
        # Usage may come on any chunk; the client gets it once, at the end, and only if it asked.
        told = chunk.pop("usage") if chunk.get("usage") else None
        changed = told is not None or b"\n" in data
        content, characters, finish_reason = False, 0, ""
        for choice in chat.mappings(choices):
            delta = choice.get("delta")
            if isinstance(delta, dict):
                says, length = chat.said(delta)
                content, characters = content or says, characters + length
                changed = ("tool_calls" in delta and self._ordered_tools(choice.get("index"), delta)) or changed
            finish_reason = chat.word(choice.get("finish_reason")) or finish_reason
        usage = None if told is None else chat.usage_of(told)
        shown = chunk if choices or told is None else None
        told = None if usage is None else told
        # By position: keywords cost as much as everything else here.
        return Frame(shown, b"" if changed else data, content, characters, usage, told, finish_reason)

    def _ordered_tools(self, choice_index: Any, delta: dict[str, Any]) -> bool:
        """Puts the delta's tool calls in order; False when they were."""
        deltas = delta.get("tool_calls")
        if not isinstance(deltas, list) or not deltas:
            return False
        place = choice_index if isinstance(choice_index, int) else 0
        tools = self._tools.setdefault(place, ToolDeltas())
        ordered = tools.normalised(deltas, self._id)
        if ordered == deltas:
            return False
        delta["tool_calls"] = ordered
        return True


def _takes_effort(call: Call, target: Target, body: Mapping[str, Any]) -> bool:
    """The decision's effort goes where the model may know it, and the client said nothing of its own."""
    is_asked = bool(call.effort) and call.operation is Operation.CHAT
    return is_asked and target.reasons is not False and not any(key in body for key in EFFORT_KEYS)


def _fitted(body: dict[str, Any], target: Target) -> dict[str, Any]:
    """A body that came in another dialect, with what this target's model knows of it."""
    fitted = {key: value for key, value in body.items() if key != "top_k"}
    if target.reasons is False:
        fitted.pop("reasoning_effort", None)
    return fitted
