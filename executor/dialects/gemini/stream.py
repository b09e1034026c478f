"""The stream of generateContent as chunks of a chat completion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from executor import sse
from executor.dialects import chat
from executor.dialects.frames import Frame
from executor.dialects.gemini.answer import WITHHELD, Said, identity, is_blocked, usage_of, wants_one_call
from executor.faults import fault_in
from executor.model import Call


class ResponseReader:
    """See ``FrameReader``. The stream has no end mark; a finish reason is its last word."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._said: dict[int, Said] = {}

    def read(self, event: sse.Event) -> Frame:
        data, payload = chat.loaded(event.data.strip())
        if data == chat.DONE:
            return Frame(done=True)
        fault = fault_in(payload)
        if fault is not None:
            return Frame(fault=fault)
        if not isinstance(payload, dict):
            return Frame(broken=data[:1] in (b"{", b"["))
        return self._frame(payload)

    def _frame(self, response: Mapping[str, Any]) -> Frame:
        told = identity(response, self._call, chat.CHUNK)
        choices = [self._choice(candidate, told["id"]) for candidate in chat.mappings(response.get("candidates"))]
        if not choices and is_blocked(response):
            choices = [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": WITHHELD}]
        deltas = [choice["delta"] for choice in choices]
        reasons = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
        return Frame(
            chunk={**told, "choices": choices} if choices else None,
            content=any(map(chat.has_content, deltas)),
            characters=sum(map(chat.output_characters, deltas)),
            usage=usage_of(response.get("usageMetadata")),
            finish_reason=reasons[-1] if reasons else "",
        )

    def _choice(self, candidate: Mapping[str, Any], stream_id: str) -> dict[str, Any]:
        index = candidate.get("index")
        place = index if isinstance(index, int) else 0
        opening = {} if place in self._said else {"role": "assistant"}
        said = self._said.setdefault(place, Said(stream_id, one_call=wants_one_call(self._call)))
        delta = {**opening, **said.delta(candidate)}
        return {"index": place, "delta": delta, "finish_reason": said.finish_reason(candidate) or None}
