"""The Messages API for the client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import orjson

from executor import estimates
from executor.clients import anthropic_request, pieces
from executor.clients.anthropic_blocks import Blocks
from executor.dialects import chat
from executor.dialects.frames import Answer, Frame
from executor.model import Call, Failure, Spoken, Usage
from executor.problems import Problem, stream_problem
from executor.sse import Event

STOP_REASONS: Mapping[str, str] = MappingProxyType(
    {
        "stop": "end_turn",
        "length": "max_tokens",
        "tool_calls": "tool_use",
        "function_call": "tool_use",
        "content_filter": "refusal",
    }
)
ERROR_TYPES: Mapping[int, str] = MappingProxyType(
    {
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        503: "overloaded_error",
        504: "timeout_error",
        529: "overloaded_error",
    }
)
END = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


class AnthropicMessages:
    """See ``Client``."""

    headers = frozenset({"anthropic-beta", "anthropic-version"})

    def read(self, body: Mapping[str, Any]) -> Spoken:
        return anthropic_request.read(body)

    def answer(self, call: Call, answer: Answer) -> bytes:
        return answer.own or orjson.dumps(_message_of(call, answer))

    def problem(self, problem: Problem) -> bytes:
        error = {key: value for key, value in problem.error.items() if value is not None}
        return orjson.dumps({"type": "error", "error": {**error, "type": error_type(problem.status)}})

    def writer(self, call: Call, *, as_it_is: bool) -> MessageWriter | OwnWriter:
        return OwnWriter() if as_it_is else MessageWriter(call)


class OwnWriter:
    """See ``StreamWriter``. The upstream's events pass as they are; what is no event of this dialect does not."""

    passes_data = False

    def event(self, event: Event, frame: Frame) -> bytes:
        name = event.name or _type_of(event.data)
        if not name or not event.data.lstrip().startswith(b"{"):
            return b""
        return b"event: " + name + b"\ndata: " + event.data.replace(b"\n", b"\ndata: ") + b"\n\n"

    def end(self, usage: Usage, cost_usd: float) -> bytes:
        return END

    def error(self, failure: Failure) -> bytes:
        return _error_event(failure)


class MessageWriter:
    """See ``StreamWriter``."""

    passes_data = False

    def __init__(self, call: Call) -> None:
        self._call = call
        self._blocks = Blocks(shows_thinking=_shows_thinking(call))
        self._has_begun = False
        self._finish_reason = ""

    def event(self, event: Event, frame: Frame) -> bytes:
        chunk = frame.chunk
        if chunk is None:
            return b""
        opening = b"" if self._has_begun else self._opening(chunk)
        self._finish_reason = pieces.finish_reason(chunk) or self._finish_reason
        events = (event for piece in pieces.of_chunk(chunk) for event in self._blocks.add(piece))
        return opening + _events(events)

    def end(self, usage: Usage, cost_usd: float) -> bytes:
        # Calls may have waited for their turn, so that the blocks are closed before their stop reason is asked for.
        opening = b"" if self._has_begun else self._opening({})
        rest = _events(self._blocks.close())
        stop_reason = stop_reason_of(self._finish_reason, self._blocks.content)
        closing = {
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason, "stop_sequence": None},
            "usage": usage_told(usage),
            "omniroute": _told_beside(usage, cost_usd),
        }
        return opening + rest + _events([closing]) + END

    def error(self, failure: Failure) -> bytes:
        return _error_event(failure)

    def _opening(self, chunk: Mapping[str, Any]) -> bytes:
        """The input is estimated here; the end of the stream tells it exactly."""
        self._has_begun = True
        usage = usage_told(Usage(estimates.usage(self._call.body, 0).input))
        message = _message(chunk, [], None, usage)
        return _events([{"type": "message_start", "message": message}])


def _type_of(data: bytes) -> bytes:
    """Clients of this dialect read no event without a name, and some upstreams give none."""
    _, payload = chat.loaded(data)
    return chat.word(payload.get("type")).encode() if isinstance(payload, dict) else b""


def error_type(status: int) -> str:
    """The dialect's word for an error that goes out with ``status``."""
    return ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")


def usage_told(usage: Usage) -> dict[str, Any]:
    """Input from a cache is told apart from the rest."""
    cached = min(usage.cached, usage.input)
    return {
        "input_tokens": usage.input - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": usage.output,
    }


def stop_reason_of(finish_reason: str, content: Iterable[Mapping[str, Any]]) -> str:
    """Some upstreams say `stop` after a tool call; a client of this dialect would not make the call then."""
    reason = STOP_REASONS.get(finish_reason, "end_turn")
    calls = any(block["type"] == "tool_use" for block in content)
    return "tool_use" if calls and reason == "end_turn" else reason


def _message_of(call: Call, answer: Answer) -> dict[str, Any]:
    completion = orjson.loads(answer.body)
    choice = completion["choices"][0]
    blocks = Blocks(shows_thinking=_shows_thinking(call))
    for piece in pieces.of_part(choice.get("message") or {}):
        pieces.exhaust(blocks.add(piece))
    pieces.exhaust(blocks.close())
    usage = answer.usage or estimates.usage(call.body, answer.characters)
    stop_reason = stop_reason_of(answer.finish_reason, blocks.content)
    return _message(completion, blocks.content, stop_reason, usage_told(usage))


def _message(
    source: Mapping[str, Any], content: list[dict[str, Any]], stop_reason: str | None, usage: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "id": f"msg_{source.get('id') or 'chat'}",
        "type": "message",
        "role": "assistant",
        "model": source.get("model") or "",
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }


def _told_beside(usage: Usage, cost_usd: float) -> dict[str, Any]:
    return {"cost_usd": cost_usd, **({"usage_estimated": True} if usage.estimated else {})}


def _shows_thinking(call: Call) -> bool:
    thinking = call.spoken.body.get("thinking") if call.spoken is not None else None
    return isinstance(thinking, dict) and thinking.get("type") in ("enabled", "adaptive")


def _error_event(failure: Failure) -> bytes:
    error = {**stream_problem(failure), "type": error_type(failure.client_status)}
    del error["param"]
    return _events([{"type": "error", "error": error}])


def _events(events: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(
        b"event: " + str(event["type"]).encode() + b"\ndata: " + orjson.dumps(event) + b"\n\n" for event in events
    )
