"""A conversation read as turns: tool rounds, and a transcript of its end. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from executor.answers import text_of
from executor.dialects import chat

RESULT_ROLES = frozenset({"tool", "function"})


def continues(messages: Sequence[Any]) -> bool:
    """The last item is a tool result."""
    return bool(messages) and is_result(messages[-1])


def rounds(messages: Sequence[Any]) -> int:
    """Assistant messages with tool calls after the last user message."""
    count = 0
    for message in reversed(messages):
        if not isinstance(message, dict):
            continue
        if message.get("role") == "user" and not is_result(message):
            break
        count += bool(message.get("tool_calls") or message.get("function_call"))
    return count


def is_result(message: Any) -> bool:
    """A tool's result: by its role, or a user message that holds nothing else."""
    if not isinstance(message, dict):
        return False
    parts = chat.mappings(message.get("content"))
    return chat.word(message.get("role")) in RESULT_ROLES or (
        bool(parts) and all(part.get("type") == "tool_result" for part in parts)
    )


def transcript(messages: Sequence[Any], most_messages: int, most_tokens: int) -> str:
    """The end of a conversation as text, oldest turn first; a turn that does not fit is cut, older ones left out."""
    lines: list[str] = []
    left = float(most_tokens)
    for message in reversed(messages[-most_messages:]):
        whole = _line(message) if isinstance(message, dict) else ""
        line = _cut(whole, left)
        if line:
            lines.append(line)
            left -= tokens(line)
        if line != whole:
            break
    return "\n\n".join(reversed(lines))


def tokens(text: str) -> float:
    """An estimate that is rather too high: four ASCII characters a token, one of any other."""
    ascii_count = len(text.encode("ascii", "ignore"))
    return ascii_count / 4 + (len(text) - ascii_count)


def _line(message: Mapping[str, Any]) -> str:
    said = [text_of(message.get("content"))]
    for call in chat.mappings(message.get("tool_calls")):
        function = call.get("function")
        if isinstance(function, dict):
            said.append(f"[calls {function.get('name')} with {_argument(function.get('arguments'))}]")
    text = "\n".join(part for part in said if part)
    return f"{chat.word(message.get('role')) or 'unknown'}: {text}" if text else ""


def _argument(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _cut(text: str, most_tokens: float) -> str:
    """The beginning of a text that is within the estimate."""
    while text and tokens(text) > most_tokens:
        text = text[: int(len(text) * max(0.0, most_tokens) / tokens(text))]
    return text
