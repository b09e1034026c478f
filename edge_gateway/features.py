"""A chat body -> what Decide needs to know of it. Pure, and total over any JSON object."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import orjson

from edge_gateway import tokens, turns
from edge_gateway.json_body import Json
from edge_gateway.turns import Turn
from omniroute.decision.v1 import decision_pb2

MAX_UINT32 = 2**32 - 1
MAX_USER_TEXT = 16_000
MAX_CACHE_KEY = 256
EARLY_TURNS = 2

STRUCTURED = frozenset({"json_schema", "json_object"})
REASONING_FIELDS = ("reasoning_effort", "reasoning", "thinking")
TOOL_FIELDS = ("tools", "functions")
OUTPUT_LIMITS = ("max_completion_tokens", "max_tokens")


def of_chat(body: Json, task_type: str = "") -> decision_pb2.RequestFeatures:
    """Features of a chat completion. ``task_type`` is the one that the client named, empty when it named none."""
    conversation = turns.read(body.get("messages"))
    last = turns.last_user(conversation)
    user_text = conversation[last].text if last >= 0 else ""
    definitions = tool_definitions(body)
    return decision_pb2.RequestFeatures(
        operation=decision_pb2.OPERATION_CHAT,
        input_tokens=sum(turn.tokens for turn in conversation) + _tokens_beside(body, definitions),
        max_output_tokens=_output_limit(body),
        stream=body.get("stream") is True,
        tool_count=len(definitions),
        has_tools=bool(definitions),
        tool_choice_none=body.get("tool_choice", body.get("function_call")) == "none",
        needs_vision=any(turn.image for turn in conversation),
        needs_audio=any(turn.audio for turn in conversation) or _asks_for_audio(body),
        needs_structured_output=_format(body).get("type") in tuple(STRUCTURED),
        has_reasoning_params=any(field in body for field in REASONING_FIELDS),
        is_tool_continuation=bool(conversation) and conversation[-1].is_result,
        tool_rounds=sum(turn.role == "assistant" and turn.calls_tools for turn in conversation[last + 1 :]),
        tool_results_before_last_user=sum(turn.results for turn in conversation[: max(last, 0)]),
        last_user_chars=len(user_text),
        context_tokens_to_last_user=sum(turn.tokens for turn in conversation[: last + 1]),
        task_type=task_type,
        last_user_text=user_text[:MAX_USER_TEXT],
        prompt_cache_key=_cache_key(body),
        prompt_prefix_hash=prefix_hash(body, conversation, last),
    )


def tool_definitions(body: Json) -> list[Any]:
    """Tool definitions of the body, in today's and in the legacy field."""
    return [tool for field in TOOL_FIELDS if isinstance(body.get(field), list) for tool in body[field]]


def prefix_hash(body: Json, conversation: Sequence[Turn], last: int) -> str:
    """Hash of what the next turns of this conversation will begin with as well; empty when that is nothing.

    That is the tool definitions, the leading system turns, and the first two turns after them as far as they stand
    before the last user turn: from the second question on the hash stays the same however long the conversation grows.
    """
    start = next((i for i, turn in enumerate(conversation) if turn.role not in turns.SYSTEM_ROLES), len(conversation))
    end = max(start, min(start + EARLY_TURNS, last))
    definitions = tool_definitions(body)
    if not definitions and end == 0:
        return ""
    stable = [definitions, body["messages"][:end]] if end else [definitions]
    return hashlib.sha256(orjson.dumps(stable)).hexdigest()


def session_id(api_key_id: str, body: Json) -> str:
    """The id of a conversation that its client did not name; empty when no user has spoken yet."""
    conversation = body.get("messages")
    if not isinstance(conversation, list):
        return ""
    for message in conversation:
        if isinstance(message, dict) and message.get("role") == "user":
            content = message.get("content")
            first = content.encode() if isinstance(content, str) else orjson.dumps(content)
            return hashlib.sha256(api_key_id.encode() + b"\0" + first).hexdigest()
    return ""


def _output_limit(body: Json) -> int | None:
    for field in OUTPUT_LIMITS:
        limit = body.get(field)
        if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
            return min(limit, MAX_UINT32)
    return None


def _format(body: Json) -> Json:
    wanted = body.get("response_format")
    return wanted if isinstance(wanted, dict) else {}


def _tokens_beside(body: Json, definitions: list[Any]) -> int:
    """Tokens of what a model is shown beside the conversation."""
    return tokens.of_json(definitions) + tokens.of_json(_format(body).get("json_schema"))


def _asks_for_audio(body: Json) -> bool:
    modalities = body.get("modalities")
    return isinstance(body.get("audio"), dict) or (isinstance(modalities, list) and "audio" in modalities)


def _cache_key(body: Json) -> str:
    """The client's own cache key; a long one is replaced by its hash."""
    key = body.get("prompt_cache_key")
    if not isinstance(key, str):
        return ""
    return key if len(key) <= MAX_CACHE_KEY else hashlib.sha256(key.encode()).hexdigest()
