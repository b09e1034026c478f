"""Streams and answers as the three vendors send them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson


def named(*payloads: Mapping[str, Any]) -> bytes:
    """Events of Anthropic's: each has a name, which is its payload's type."""
    return b"".join(b"event: %s\ndata: %s\n\n" % (p["type"].encode(), orjson.dumps(p)) for p in payloads)


def unnamed(*payloads: Mapping[str, Any], end: bytes = b"") -> bytes:
    """Events of OpenAI's and Google's."""
    return b"".join(b"data: %s\n\n" % orjson.dumps(payload) for payload in payloads) + end


# Anthropic


def message_start(**usage: int) -> dict[str, Any]:
    message: dict[str, Any] = {
        "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5-20250929",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 25,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 1,
            **usage,
        },
    }
    return {"type": "message_start", "message": message}


def block_start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def block_delta(index: int, kind: str, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **delta}}


def block_stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def message_delta(stop_reason: str, output_tokens: int) -> dict[str, Any]:
    return {
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason, "stop_sequence": None},
        "usage": {"output_tokens": output_tokens},
    }


def said(index: int, *pieces: str) -> list[dict[str, Any]]:
    return [
        block_start(index, type="text", text=""),
        *(block_delta(index, "text_delta", text=piece) for piece in pieces),
        block_stop(index),
    ]


def called(index: int, call_id: str, name: str, *pieces: str) -> list[dict[str, Any]]:
    return [
        block_start(index, type="tool_use", id=call_id, name=name, input={}),
        *(block_delta(index, "input_json_delta", partial_json=piece) for piece in pieces),
        block_stop(index),
    ]


def thought(index: int, *pieces: str) -> list[dict[str, Any]]:
    return [
        block_start(index, type="thinking", thinking="", signature=""),
        *(block_delta(index, "thinking_delta", thinking=piece) for piece in pieces),
        block_delta(index, "signature_delta", signature="EqQBCgIYAhIM1gbcDa9GJwZA"),
        block_stop(index),
    ]


PING = {"type": "ping"}
STOP = {"type": "message_stop"}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}

ANTHROPIC: Mapping[str, bytes] = {
    "text": named(
        message_start(cache_read_input_tokens=40),
        PING,
        *said(0, "Hel", "lo, wörld 😀"),
        message_delta("end_turn", 15),
        STOP,
    ),
    "thinking": named(
        message_start(), *thought(0, "Let me", " see."), *said(1, "Hello"), message_delta("end_turn", 30), STOP
    ),
    "hidden thinking": named(
        message_start(),
        block_start(0, type="redacted_thinking", data="EmwKAhgBEgy3va3pzix"),
        block_stop(0),
        *said(1, "Hello"),
        message_delta("end_turn", 30),
        STOP,
    ),
    "tools": named(
        message_start(),
        PING,
        *said(0, "I'll check."),
        *called(1, "toolu_01A", "get_weather", "", '{"loc', 'ation": "San Fra', 'ncisco, CA"}'),
        *called(2, "toolu_01B", "get_time", ""),
        message_delta("tool_use", 89),
        STOP,
    ),
    "whole input at once": named(
        message_start(),
        block_start(0, type="tool_use", id="toolu_01C", name="get_weather", input={"location": "Paris"}),
        block_stop(0),
        message_delta("tool_use", 20),
        STOP,
    ),
    "length": named(message_start(), *said(0, "Hel"), message_delta("max_tokens", 1), STOP),
    "refusal": named(message_start(), message_delta("refusal", 3), STOP),
    "nothing": named(message_start(), message_delta("end_turn", 2), STOP),
    "breaks": named(message_start(), *said(0, "Hel"), OVERLOADED),
    "breaks before content": named(message_start(), PING, OVERLOADED),
    "cut": named(message_start(), *said(0, "Hel")),
    "unknown events": named(
        message_start(), {"type": "some_new_event", "x": 1}, *said(0, "Hello"), message_delta("end_turn", 2), STOP
    ),
}

# Google


def response(*parts: Mapping[str, Any], finish: str = "", **fields: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": [*parts], "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {**fields, "candidates": [candidate], "modelVersion": "gemini-2.5-flash", "responseId": "jQ3EaPfYGpu"}


def counted(prompt: int, candidates: int = 0, thoughts: int = 0, cached: int = 0) -> dict[str, Any]:
    told = {"promptTokenCount": prompt, "totalTokenCount": prompt + candidates + thoughts}
    more = {"candidatesTokenCount": candidates, "thoughtsTokenCount": thoughts, "cachedContentTokenCount": cached}
    return {"usageMetadata": {**told, **{key: value for key, value in more.items() if value}}}


def function(name: str, signature: str = "", **args: Any) -> dict[str, Any]:
    told: dict[str, Any] = {"functionCall": {"name": name, "args": args}}
    return {**told, "thoughtSignature": signature} if signature else told


UNAVAILABLE = {
    "error": {"code": 503, "message": "The model is overloaded. Please try again later.", "status": "UNAVAILABLE"}
}
WEATHER = function("get_weather", "CiQBjz1rX7HQ", location="San Francisco, CA")

GEMINI: Mapping[str, bytes] = {
    "text": unnamed(
        response({"text": "Hel"}, **counted(25, 3, cached=10)),
        response({"text": "lo, wörld 😀"}, finish="STOP", **counted(25, 15, cached=10)),
    ),
    "thinking": unnamed(
        response({"text": "**Seeing**\n\nLet me see.", "thought": True}, **counted(8, thoughts=60)),
        response({"text": "Hello"}, **counted(8, 2, 60)),
        response({"text": ""}, finish="STOP", **counted(8, 2, 60)),
    ),
    "tools": unnamed(
        response(WEATHER, **counted(80, 20, 50)),
        response(function("get_time"), finish="STOP", **counted(80, 30, 50)),
    ),
    "length": unnamed(response({"text": "Hel"}, finish="MAX_TOKENS", **counted(8, 1))),
    "withheld": unnamed(response(finish="SAFETY", **counted(8))),
    "blocked": unnamed({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, **counted(8)}),
    "nothing": unnamed(response(finish="STOP", **counted(8))),
    "breaks": unnamed(response({"text": "Hel"}, **counted(8, 1)), UNAVAILABLE),
    "breaks before content": unnamed(UNAVAILABLE),
    "cut": unnamed(response({"text": "Hel"}, **counted(8, 1))),
}

# OpenAI


def chunk(delta: Mapping[str, Any], finish: str | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {
        "id": "chatcmpl-9lMgfRSWPHcw51s6wxKT1YEO2CKpd",
        "object": "chat.completion.chunk",
        "created": 1_721_076_000,
        "model": "gpt-4o-2024-08-06",
        "service_tier": "default",
        "system_fingerprint": "fp_a2ff031fb5",
        "choices": [choice],
        **fields,
    }


def tool_delta(index: int, arguments: str, **opening: Any) -> dict[str, Any]:
    name = {"name": opening.pop("name")} if "name" in opening else {}
    told = {"type": "function"} if opening else {}
    return {"tool_calls": [{"index": index, **opening, **told, "function": {**name, "arguments": arguments}}]}


def used(prompt: int, completion: int, cached: int = 0, reasoning: int = 0) -> dict[str, Any]:
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reasoning, "audio_tokens": 0},
    }
    return {**chunk({}), "choices": [], "usage": usage}


DONE = b"data: [DONE]\n\n"
BEGIN = chunk({"role": "assistant", "content": "", "refusal": None})
FAILED = {"error": {"message": "The server had an error", "type": "server_error", "param": None, "code": None}}

OPENAI: Mapping[str, bytes] = {
    "text": unnamed(
        BEGIN,
        chunk({"content": "Hel"}),
        chunk({"content": "lo, wörld 😀"}),
        chunk({}, "stop"),
        used(65, 15, 40),
        end=DONE,
    ),
    "thinking": unnamed(
        BEGIN,
        chunk({"reasoning_content": "Let me"}),
        chunk({"reasoning_content": " see."}),
        chunk({"content": "Hello"}),
        chunk({}, "stop"),
        used(8, 30, reasoning=20),
        end=DONE,
    ),
    "tools": unnamed(
        BEGIN,
        chunk({"content": "I'll check."}),
        chunk(tool_delta(0, "", id="call_A", name="get_weather")),
        chunk(tool_delta(0, '{"loc')),
        chunk(tool_delta(0, 'ation": "San Francisco, CA"}')),
        chunk(tool_delta(1, "", id="call_B", name="get_time")),
        chunk(tool_delta(1, "{}")),
        chunk({}, "tool_calls"),
        used(80, 89),
        end=DONE,
    ),
    "tools beside each other": unnamed(
        BEGIN,
        chunk(tool_delta(0, "", id="call_A", name="get_weather")),
        chunk(tool_delta(1, "", id="call_B", name="get_time")),
        chunk(tool_delta(0, '{"location": ')),
        chunk(tool_delta(1, '{"zone": ')),
        chunk(tool_delta(0, '"San Francisco, CA"}')),
        chunk(tool_delta(1, '"PST"}')),
        chunk({}, "tool_calls"),
        end=DONE,
    ),
    "length": unnamed(BEGIN, chunk({"content": "Hel"}), chunk({}, "length"), used(8, 1), end=DONE),
    "refusal": unnamed(
        BEGIN, chunk({"refusal": "I can't"}), chunk({"refusal": " do that."}), chunk({}, "stop"), end=DONE
    ),
    "withheld": unnamed(BEGIN, chunk({}, "content_filter"), used(8, 0), end=DONE),
    "breaks": unnamed(BEGIN, chunk({"content": "Hel"}), FAILED),
    "cut": unnamed(BEGIN, chunk({"content": "Hel"})),
}

RECORDED: Mapping[str, Mapping[str, bytes]] = {"openai": OPENAI, "anthropic": ANTHROPIC, "gemini": GEMINI}


def cases(*dialects: str) -> Iterable[tuple[str, str]]:
    """Dialect and name of each stream."""
    return [(dialect, name) for dialect in dialects or RECORDED for name in RECORDED[dialect]]


# Whole answers

ANTHROPIC_WHOLE: dict[str, Any] = {
    "id": "msg_013Zva2CMHLNnjNjJJKqJ2EF",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5-20250929",
    "content": [
        {"type": "thinking", "thinking": "Let me see.", "signature": "EqQBCgIYAhIM1gbcDa9GJwZA"},
        {"type": "text", "text": "I'll check."},
        {"type": "tool_use", "id": "toolu_01A", "name": "get_weather", "input": {"location": "Paris"}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 10,
        "cache_creation_input_tokens": 5,
        "cache_read_input_tokens": 40,
        "output_tokens": 89,
    },
}
GEMINI_WHOLE: dict[str, Any] = response(
    {"text": "Let me see.", "thought": True},
    {"text": "I'll check."},
    function("get_weather", "CiQBjz1rX7HQ", location="Paris"),
    finish="STOP",
    **counted(55, 29, 60, 40),
)
OPENAI_WHOLE: dict[str, Any] = {
    "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
    "object": "chat.completion",
    "created": 1_741_569_952,
    "model": "gpt-4.1-2025-04-14",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "I'll check.",
                "reasoning_content": "Let me see.",
                "refusal": None,
                "annotations": [],
                "tool_calls": [
                    {
                        "id": "call_A",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"location":"Paris"}'},
                    }
                ],
            },
            "logprobs": None,
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {
        "prompt_tokens": 55,
        "completion_tokens": 89,
        "total_tokens": 144,
        "prompt_tokens_details": {"cached_tokens": 40, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    },
    "service_tier": "default",
}
WHOLE: Mapping[str, dict[str, Any]] = {
    "openai": OPENAI_WHOLE,
    "anthropic": ANTHROPIC_WHOLE,
    "gemini": GEMINI_WHOLE,
}
