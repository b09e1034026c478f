"""A demo answer in the shapes of the OpenAI chat API: one object, or the chunks of a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from omnictl.demo.answers import Answer

DONE = b"data: [DONE]\n\n"

Json = Mapping[str, Any]


def completion(identity: Json, answer: Answer) -> Json:
    """``identity`` is the id, created and model of the answer."""
    message = {"role": "assistant", "content": answer.text or None, **_tool_calls(answer)}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish_reason}
    return {**identity, "object": "chat.completion", "choices": [choice], "usage": usage(answer)}


def chunks(identity: Json, answer: Answer) -> Iterator[bytes]:
    """The role, the content piece by piece, the finish; usage and the end mark are the caller's."""
    yield _chunk(identity, {"role": "assistant", "content": ""})
    if answer.tool:
        yield _chunk(identity, {"tool_calls": [{"index": 0, **call} for call in _tool_calls(answer)["tool_calls"]]})
    for piece in answer.pieces:
        yield _chunk(identity, {"content": piece})
    yield _chunk(identity, {}, answer.finish_reason)


def usage_chunk(identity: Json, answer: Answer) -> bytes:
    return event({**identity, "object": "chat.completion.chunk", "choices": [], "usage": usage(answer)})


def usage(answer: Answer) -> Json:
    total = answer.input_tokens + answer.output_tokens
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": total,
    }


def problem(message: str, kind: str, code: str | None = None) -> Json:
    return {"error": {"message": f"[simulated] {message}", "type": kind, "param": None, "code": code}}


def event(value: Json) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _chunk(identity: Json, delta: Json, finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return event({**identity, "object": "chat.completion.chunk", "choices": [choice]})


def _tool_calls(answer: Answer) -> dict[str, list[Json]]:
    if not answer.tool:
        return {}
    function = {"name": answer.tool, "arguments": answer.arguments}
    return {"tool_calls": [{"id": "call_simulated", "type": "function", "function": function}]}
