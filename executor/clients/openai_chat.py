"""Chat completions for the client: they are what the executor speaks inside, so that most bytes pass unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from executor.dialects import chat
from executor.dialects.frames import Answer, Frame
from executor.model import Call, Failure, Usage
from executor.problems import Problem, stream_problem
from executor.sse import Event

END = b"data: [DONE]\n\n"


class OpenAIChat:
    """See ``Client``."""

    headers: frozenset[str] = frozenset()

    def read(self, body: Mapping[str, Any]) -> None:
        return None

    def answer(self, call: Call, answer: Answer) -> bytes:
        return answer.body

    def problem(self, problem: Problem) -> bytes:
        return orjson.dumps({"error": problem.error})

    def writer(self, call: Call, *, as_it_is: bool) -> ChatWriter:
        return ChatWriter(call.wants_usage)


class ChatWriter:
    """See ``StreamWriter``."""

    passes_data = True

    def __init__(self, wants_usage: bool) -> None:
        self._wants_usage = wants_usage
        self._identity: dict[str, Any] = {"id": "chat", "object": chat.CHUNK, "created": 0, "model": ""}
        self._told: Mapping[str, Any] | None = None

    def event(self, event: Event, frame: Frame) -> bytes:
        self._told = frame.told or self._told
        chunk = frame.chunk
        if chunk is None:
            return b""
        if chunk.get("id") != self._identity["id"]:
            self._identity |= {key: chunk[key] for key in chat.IDENTITY_KEYS if key in chunk}
        return b"data: " + (frame.data or orjson.dumps(chunk)) + b"\n\n"

    def end(self, usage: Usage, cost_usd: float) -> bytes:
        return self._usage_event(usage, cost_usd) + END if self._wants_usage else END

    def error(self, failure: Failure) -> bytes:
        return b"data: " + orjson.dumps({"error": stream_problem(failure)}) + b"\n\n"

    def _usage_event(self, usage: Usage, cost_usd: float) -> bytes:
        """The upstream's own words for the usage, where it had some in this dialect."""
        told = chat.usage_told(usage) if usage.estimated or self._told is None else self._told
        extra: dict[str, Any] = {"cost_usd": cost_usd}
        if usage.estimated:
            extra["usage_estimated"] = True
        chunk = {**self._identity, "choices": [], "usage": told, "omniroute": extra}
        return b"data: " + orjson.dumps(chunk) + b"\n\n"
