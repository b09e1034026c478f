"""What is asked for -> what Decide needs to know of it. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import orjson

from edge_gateway import tokens, turns
from edge_gateway.dialects.asked import Asked
from edge_gateway.turns import Turn
from omniroute.decision.v1 import decision_pb2

MAX_USER_TEXT = 16_000
EARLY_TURNS = 2


def of(
    asked: Asked,
    operation: decision_pb2.Operation.ValueType = decision_pb2.OPERATION_CHAT,
    task_type: str = "",
) -> decision_pb2.RequestFeatures:
    """Features of a request. ``task_type`` is the one that the client named, empty when it named none."""
    conversation = turns.read(asked.messages)
    last = turns.last_user(conversation)
    user_text = conversation[last].text if last >= 0 else ""
    estimated = input_tokens(asked, conversation)
    return decision_pb2.RequestFeatures(
        operation=operation,
        input_tokens=estimated,
        least_input_tokens=tokens.at_least(estimated),
        max_output_tokens=asked.output_limit,
        stream=asked.stream,
        tool_count=len(asked.tools),
        has_tools=bool(asked.tools),
        tool_choice_none=asked.forbids_tools,
        needs_vision=any(turn.image for turn in conversation),
        needs_audio=asked.speaks or any(turn.audio for turn in conversation),
        needs_structured_output=asked.json,
        has_reasoning_params=asked.reasoning,
        is_tool_continuation=bool(conversation) and conversation[-1].is_result,
        tool_rounds=sum(turn.role == "assistant" and turn.calls_tools for turn in conversation[last + 1 :]),
        tool_results_before_last_user=sum(turn.results for turn in conversation[: max(last, 0)]),
        last_user_chars=len(user_text),
        context_tokens_to_last_user=sum(turn.tokens for turn in conversation[: last + 1]),
        task_type=task_type,
        last_user_text=user_text[:MAX_USER_TEXT],
        prompt_cache_key=asked.cache_key,
        prompt_prefix_hash=prefix_hash(asked, conversation, last),
    )


def input_tokens(asked: Asked, conversation: Sequence[Turn]) -> int:
    """Estimated tokens of all that a model is shown."""
    return asked.tokens_beside + sum(turn.tokens for turn in conversation)


def prefix_hash(asked: Asked, conversation: Sequence[Turn], last: int) -> str:
    """Hash of what the next turns of this conversation will begin with as well; empty when that is nothing.

    That is the tool definitions, the leading system turns, and the first two turns after them as far as they stand
    before the last user turn: from the second question on the hash stays the same however long the conversation grows.
    """
    start = next((i for i, turn in enumerate(conversation) if turn.role not in turns.SYSTEM_ROLES), len(conversation))
    end = max(start, min(start + EARLY_TURNS, last))
    if not asked.tools and end == 0:
        return ""
    definitions = list(asked.tools)
    stable = [definitions, list(asked.messages[:end])] if end else [definitions]
    return hashlib.sha256(orjson.dumps(stable)).hexdigest()


def session_id(api_key_id: str, asked: Asked) -> str:
    """The id of a conversation that its client did not name; empty when no user has spoken yet."""
    for message in asked.messages:
        if isinstance(message, dict) and message.get("role") == "user":
            content = message.get("content")
            first = content.encode() if isinstance(content, str) else orjson.dumps(content)
            return hashlib.sha256(api_key_id.encode() + b"\0" + first).hexdigest()
    return ""
