"""What a chat completion asks for beside its messages, for dialects that name these things otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from executor.dialects.chat import mappings, texts, word
from executor.dialects.frames import Untranslatable

MAX_WHOLE = 2**53
EMPTY_SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the client runs. ``schema`` is the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]
    cache: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """``mode`` is auto, none or required; ``names`` are the only tools that may be called, empty: all."""

    mode: str = "auto"
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Format:
    """``kind`` is text, json or schema."""

    kind: str = "text"
    schema: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reasoning:
    """How much the model shall think: an ``effort`` by name, or a ``budget`` in tokens. Effort `none`: not at all."""

    effort: str = ""
    budget: int | None = None


def tools(body: Mapping[str, Any]) -> tuple[Tool, ...]:
    """Raises Untranslatable for a tool that is no function."""
    found = []
    for place, tool in enumerate(mappings(body.get("tools"))):
        function = tool.get("function")
        if tool.get("type", "function") != "function" or not isinstance(function, dict):
            raise Untranslatable(f"tools[{place}] is no function, and the target's dialect knows no other tools")
        found.append(_tool(function, tool.get("cache_control")))
    found += [_tool(function, None) for function in mappings(body.get("functions"))]
    return tuple(found)


def choice(body: Mapping[str, Any]) -> Choice:
    """Raises Untranslatable."""
    wanted = body.get("tool_choice", body.get("function_call"))
    if wanted is None or isinstance(wanted, str):
        return Choice(wanted if wanted in ("none", "required") else "auto")
    named = wanted.get("function", wanted) if isinstance(wanted, dict) else {}
    if isinstance(named, dict) and word(named.get("name")):
        return Choice("required", (word(named.get("name")),))
    allowed = wanted.get("allowed_tools") if isinstance(wanted, dict) else None
    if isinstance(allowed, dict):
        functions = [tool.get("function") for tool in mappings(allowed.get("tools"))]
        names = texts(function.get("name") for function in functions if isinstance(function, dict))
        return Choice("required" if allowed.get("mode") == "required" else "auto", tuple(names))
    raise Untranslatable("tool_choice names no function")


def stop(body: Mapping[str, Any]) -> tuple[str, ...]:
    wanted = body.get("stop")
    return tuple(texts([wanted] if isinstance(wanted, str) else wanted if isinstance(wanted, list) else []))


def output_limit(body: Mapping[str, Any]) -> int | None:
    """Most tokens of the answer, where the client says it."""
    for name in ("max_completion_tokens", "max_tokens"):
        limit = whole(body, name)
        if limit is not None and limit >= 1:
            return limit
    return None


def output_format(body: Mapping[str, Any]) -> Format:
    wanted = body.get("response_format")
    if not isinstance(wanted, dict):
        return Format()
    if wanted.get("type") == "json_schema":
        described = wanted.get("json_schema")
        schema = described.get("schema") if isinstance(described, dict) else None
        return Format("schema", schema) if isinstance(schema, dict) else Format("json")
    return Format("json" if wanted.get("type") == "json_object" else "text")


def reasoning(body: Mapping[str, Any]) -> Reasoning | None:
    """None when the body does not speak of it. It may be said in OpenAI's, OpenRouter's or Anthropic's way."""
    effort = word(body.get("reasoning_effort"))
    if effort:
        return Reasoning(effort)
    for name in ("reasoning", "thinking"):
        wanted = body.get(name)
        if not isinstance(wanted, dict) or not wanted:
            continue
        budget = whole(wanted, "budget_tokens") or whole(wanted, "max_tokens")
        if wanted.get("enabled") is False or wanted.get("type") == "disabled":
            return Reasoning("none")
        return Reasoning(word(wanted.get("effort")) or "medium", budget or None)
    return None


def number(body: Mapping[str, Any], name: str) -> float | None:
    value = body.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def whole(body: Mapping[str, Any], name: str) -> int | None:
    """A whole number that every JSON reader takes."""
    value = number(body, name)
    return int(value) if value is not None and abs(value) <= MAX_WHOLE else None


# What would change the answer and has no name in other dialects.
UNSPOKEN: Mapping[str, Callable[[Any], bool]] = MappingProxyType(
    {
        "n": lambda value: isinstance(value, int) and value > 1,
        "logprobs": bool,
        "logit_bias": bool,
        "audio": bool,
        "modalities": lambda value: isinstance(value, list) and "audio" in value,
        "web_search_options": lambda value: value is not None,
    }
)


def refuse_unspoken(body: Mapping[str, Any], spoken: frozenset[str] = frozenset()) -> None:
    """Raises Untranslatable for a field without a name in other dialects; ``spoken`` are those that this one has."""
    for name, is_asked in UNSPOKEN.items():
        if name not in spoken and is_asked(body.get(name)):
            raise Untranslatable(f"{name} cannot be asked of a target of this dialect")


def _tool(function: Mapping[str, Any], cache: Any) -> Tool:
    schema = function.get("parameters")
    return Tool(
        name=word(function.get("name")),
        description=word(function.get("description")),
        schema=schema if isinstance(schema, dict) and schema else EMPTY_SCHEMA,
        cache=cache if isinstance(cache, dict) else None,
    )
