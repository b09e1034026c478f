"""Tools of the Responses API as functions, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from executor.clients.fields import Fields

# Tools whose work the vendor does itself, by how their types begin: the model can do without.
VENDOR_RUN = ("web_search", "file_search", "code_interpreter", "image_generation", "mcp", "tool_search")
INPUT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Tool:
    """One function that the client runs. A ``custom`` one takes a text, inside here as the argument `input`."""

    name: str
    custom: bool = False
    namespace: str = ""

    @property
    def function_name(self) -> str:
        """Its name as a function of chat completions, which know no namespaces."""
        return f"{self.namespace}__{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Offer:
    """``definitions`` in chat form; ``lost`` names tools that cannot be offered in it."""

    tools: tuple[Tool, ...]
    definitions: tuple[dict[str, Any], ...]
    lost: tuple[str, ...]


def offer(asked: Fields) -> Offer:
    """Raises ServiceError INVALID_FIELD."""
    tools: list[Tool] = []
    definitions: list[dict[str, Any]] = []
    lost: list[str] = []
    given = asked.items("tools")
    for namespace, tool in _flat(given):
        kind = tool.kind()
        if kind in ("function", "custom"):
            offered = Tool(tool.required_text("name"), kind == "custom", namespace)
            tools.append(offered)
            definitions.append(_custom(offered, tool) if offered.custom else _function(offered, tool))
        elif not kind.startswith(VENDOR_RUN):
            lost.append(f"{tool.path} is a tool that OpenAI's own models alone know")
    if given and not tools:
        lost.append("tools holds only tools that OpenAI's own models alone know")
    return Offer(tuple(tools), tuple(definitions), tuple(lost))


def by_function_name(body: Mapping[str, Any]) -> Mapping[str, Tool]:
    """The tools of a request that was read before."""
    return {tool.function_name: tool for tool in offer(Fields(body)).tools}


def choice(asked: Fields, offered: tuple[Tool, ...]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The choice in chat form, and what of it is lost. Raises ServiceError INVALID_FIELD."""
    given = asked.value.get("tool_choice")
    if given is None or isinstance(given, str):
        return ({"tool_choice": given} if given and offered else {}), ()
    wanted = asked.fields("tool_choice")
    names = {(tool.name, tool.custom): tool.function_name for tool in offered}
    if wanted.kind() in ("function", "custom"):
        name = names.get((wanted.required_text("name"), wanted.kind() == "custom"))
        if name is None:
            raise wanted.wrong("name", "the name of one of tools")
        return {"tool_choice": _named(name)}, ()
    if wanted.kind() == "allowed_tools":
        allowed = [names.get((tool.text("name"), tool.kind() == "custom")) for tool in wanted.items("tools")]
        tools = [_named(name) for name in allowed if name]
        inner = {"mode": wanted.text("mode") or "auto", "tools": tools}
        return ({"tool_choice": {"type": "allowed_tools", "allowed_tools": inner}} if tools else {}), ()
    return {}, (f"{wanted.path} asks for a tool that OpenAI's own models alone know",)


def custom_arguments(text: str) -> str:
    """The input of a custom tool as a function's arguments."""
    return orjson.dumps({"input": text}).decode()


def custom_input(arguments: str) -> str:
    """The input inside a function's arguments; a model that wrote none of them meant the text itself."""
    try:
        loaded = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments
    text = loaded.get("input") if isinstance(loaded, dict) else None
    return text if isinstance(text, str) else arguments


def _flat(tools: list[Fields]) -> Iterator[tuple[str, Fields]]:
    for tool in tools:
        if tool.kind() == "namespace":
            yield from ((tool.required_text("name"), inner) for inner in tool.items("tools"))
        else:
            yield "", tool


def _function(offered: Tool, tool: Fields) -> dict[str, Any]:
    function = {"name": offered.function_name, **tool.passed("description", "parameters", "strict")}
    return {"type": "function", "function": function}


def _custom(offered: Tool, tool: Fields) -> dict[str, Any]:
    """A grammar can be described, not enforced."""
    description = tool.text("description")
    form = tool.fields("format")
    if form.kind() == "grammar":
        description += f"\nThe input follows this {form.text('syntax')} grammar:\n{form.text('definition')}"
    function = {"name": offered.function_name, "description": description.strip(), "parameters": INPUT_SCHEMA}
    return {"type": "function", "function": function}


def _named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}
