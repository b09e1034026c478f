"""The Responses API for the client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import orjson

from executor import estimates
from executor.clients import pieces, responses_request, responses_tools
from executor.clients.responses_items import Items
from executor.dialects.frames import Answer, Frame
from executor.model import Call, Failure, Spoken, Usage
from executor.problems import Problem
from executor.sse import Event

TOO_MANY = 429
# Why an answer is incomplete, by its finish reason.
INCOMPLETE: Mapping[str, str] = MappingProxyType({"length": "max_output_tokens", "content_filter": "content_filter"})
# Fields that a response repeats from its request, and what stands there when the request left them out.
REPEATED: Mapping[str, Any] = MappingProxyType(
    {
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "reasoning": {"effort": None, "summary": None},
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
    }
)


class OpenAIResponses:
    """See ``Client``."""

    headers: frozenset[str] = frozenset()

    def read(self, body: Mapping[str, Any]) -> Spoken:
        return responses_request.read(body)

    def answer(self, call: Call, answer: Answer) -> bytes:
        completion = orjson.loads(answer.body)
        told = _Response(call, completion)
        for piece in pieces.of_part(completion["choices"][0].get("message") or {}):
            pieces.exhaust(told.items.add(piece))
        pieces.exhaust(told.items.close(told.item_status(answer.finish_reason)))
        usage = answer.usage or estimates.usage(call.body, answer.characters)
        return orjson.dumps(told.ended(answer.finish_reason, usage))

    def problem(self, problem: Problem) -> bytes:
        return orjson.dumps({"error": problem.error})

    def writer(self, call: Call, *, as_it_is: bool) -> ResponseWriter:
        return ResponseWriter(call)


class ResponseWriter:
    """See ``StreamWriter``. Events are numbered from 0."""

    passes_data = False

    def __init__(self, call: Call) -> None:
        self._call = call
        self._told: _Response | None = None
        self._finish_reason = ""
        self._number = 0

    def event(self, event: Event, frame: Frame) -> bytes:
        chunk = frame.chunk
        if chunk is None:
            return b""
        opening = self._opening(chunk)
        self._finish_reason = pieces.finish_reason(chunk) or self._finish_reason
        told = self._begun(chunk)
        return opening + self._events(event for piece in pieces.of_chunk(chunk) for event in told.items.add(piece))

    def end(self, usage: Usage, cost_usd: float) -> bytes:
        opening = self._opening({})
        told = self._begun({})
        items = self._events(told.items.close(told.item_status(self._finish_reason)))
        response = told.ended(self._finish_reason, usage)
        beside = {"cost_usd": cost_usd, **({"usage_estimated": True} if usage.estimated else {})}
        closing = {"type": f"response.{response['status']}", "response": response, "omniroute": beside}
        return opening + items + self._events([closing])

    def error(self, failure: Failure) -> bytes:
        """In this dialect a broken response has an end too."""
        code = "rate_limit_exceeded" if failure.client_status == TOO_MANY else "server_error"
        error = {"code": code, "message": failure.message}
        response = {**self._begun({}).base("failed"), "error": error}
        return self._events([{"type": "response.failed", "response": response}])

    def _begun(self, chunk: Mapping[str, Any]) -> _Response:
        if self._told is None:
            self._told = _Response(self._call, chunk)
        return self._told

    def _opening(self, chunk: Mapping[str, Any]) -> bytes:
        if self._told is not None:
            return b""
        response = self._begun(chunk).base("in_progress")
        kinds = ("response.created", "response.in_progress")
        return self._events({"type": kind, "response": response} for kind in kinds)

    def _events(self, events: Iterable[dict[str, Any]]) -> bytes:
        out = []
        for event in events:
            told = {**event, "sequence_number": self._number}
            self._number += 1
            out.append(b"event: " + event["type"].encode() + b"\ndata: " + orjson.dumps(told) + b"\n\n")
        return b"".join(out)


class _Response:
    """The response object as it grows; ``source`` is the completion, or the first chunk of one."""

    def __init__(self, call: Call, source: Mapping[str, Any]) -> None:
        body = call.spoken.body if call.spoken is not None else call.body
        identity = str(source.get("id") or "chat")
        self._fields: dict[str, Any] = {
            "id": f"resp_{identity}",
            "object": "response",
            "created_at": call.created,
            "model": source.get("model") or body.get("model") or "",
            "error": None,
            "incomplete_details": None,
            "previous_response_id": None,
            "store": False,
            "usage": None,
        }
        self._fields |= {name: default if body.get(name) is None else body[name] for name, default in REPEATED.items()}
        self.items = Items(identity, responses_tools.by_function_name(body))

    def base(self, status: str) -> dict[str, Any]:
        return {**self._fields, "status": status, "output": [*self.items.output]}

    def ended(self, finish_reason: str, usage: Usage) -> dict[str, Any]:
        reason = INCOMPLETE.get(finish_reason)
        details = {"reason": reason} if reason else None
        status = "incomplete" if reason else "completed"
        return {**self.base(status), "incomplete_details": details, "usage": usage_told(usage)}

    def item_status(self, finish_reason: str) -> str:
        return "incomplete" if finish_reason in INCOMPLETE else "completed"


def usage_told(usage: Usage) -> dict[str, Any]:
    """``usage`` in this dialect's words."""
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }
