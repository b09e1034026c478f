"""A request of the Messages API as a chat completion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import orjson

from executor.clients.fields import Fields
from executor.model import Spoken

NATIVE = "anthropic"
# Budgets of thinking up to which an effort reaches.
EFFORTS: tuple[tuple[int, str], ...] = ((2_048, "low"), (16_384, "medium"))
HIGHEST = "high"
MODES: Mapping[str, str] = MappingProxyType({"auto": "auto", "any": "required", "none": "none"})
# Tools whose work the vendor does itself, by how their types begin: the model can do without.
VENDOR_RUN = ("web_search", "web_fetch", "code_execution", "tool_search", "mcp_toolset", "advisor")


def read(body: Mapping[str, Any]) -> Spoken:
    """Raises ServiceError INVALID_FIELD naming the field."""
    reading = _Reading()
    return Spoken(body, reading.chat(Fields(body)), NATIVE, tuple(dict.fromkeys(reading.lost)))


class _Reading:
    """One request on its way into chat form; ``lost`` grows by what that form cannot carry."""

    def __init__(self) -> None:
        self.lost: list[str] = []

    def chat(self, asked: Fields) -> dict[str, Any]:
        messages = self._system(asked)
        for message in asked.items("messages"):
            messages += self._message(message)
        chat: dict[str, Any] = {"model": asked.value.get("model"), "messages": messages}
        chat |= asked.numbers("max_tokens", "temperature", "top_p", "top_k") | asked.flags("stream")
        stops = asked.value.get("stop_sequences")
        if stops is not None and not (isinstance(stops, list) and all(isinstance(stop, str) for stop in stops)):
            raise asked.wrong("stop_sequences", "an array of strings")
        if stops:
            chat["stop"] = stops
        chat |= self._tools(asked) | _effort(asked) | _format(asked)
        if asked.items("mcp_servers"):
            self.lost.append("mcp_servers can be reached through Anthropic's own models only")
        return chat

    def _system(self, asked: Fields) -> list[dict[str, Any]]:
        given = asked.value.get("system")
        text = given if isinstance(given, str) else "\n\n".join(part.text("text") for part in asked.items("system"))
        return [{"role": "system", "content": text}] if text else []

    def _message(self, message: Fields) -> list[dict[str, Any]]:
        role, content = message.required_text("role"), message.value.get("content")
        if role not in ("user", "assistant", "system"):
            raise message.wrong("role", "user, assistant or system")
        if isinstance(content, str):
            return [{"role": role, "content": content}]
        if not isinstance(content, list):
            raise message.wrong("content", "a string or an array of content blocks")
        blocks = message.items("content")
        return self._assistant(blocks) if role == "assistant" else self._user(role, blocks)

    def _assistant(self, blocks: list[Fields]) -> list[dict[str, Any]]:
        """Thinking stays behind: nobody but its vendor can read its signature."""
        texts = [block.text("text") for block in blocks if block.kind() == "text"]
        calls = [_call(block) for block in blocks if block.kind() == "tool_use"]
        for block in blocks:
            if block.kind() not in ("text", "tool_use", "thinking", "redacted_thinking"):
                self.lost.append(f"{block.path} is of a type that Anthropic's own models alone know")
        message: dict[str, Any] = {"role": "assistant", "content": "".join(texts) or None}
        if calls:
            message["tool_calls"] = calls
        return [message] if texts or calls else []

    def _user(self, role: str, blocks: list[Fields]) -> list[dict[str, Any]]:
        """Tool results are messages of their own, and come first; images in them follow as the user's."""
        results: list[dict[str, Any]] = []
        parts: list[dict[str, Any]] = []
        for block in blocks:
            if block.kind() == "tool_result":
                result, media = self._result(block)
                results.append(result)
                parts += media
            else:
                parts += self._part(block)
        if role == "system" or not any(part["type"] != "text" for part in parts):
            content: Any = "\n".join(part["text"] for part in parts)
        else:
            content = parts
        return [*results, *([{"role": role, "content": content}] if parts else [])]

    def _result(self, block: Fields) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        content = block.value.get("content")
        told: dict[str, Any] = {"role": "tool", "tool_call_id": block.required_text("tool_use_id")}
        if content is None or isinstance(content, str):
            return {**told, "content": content or ""}, []
        parts = [part for inner in block.items("content") for part in self._part(inner)]
        text = "\n".join(part["text"] for part in parts if part["type"] == "text")
        return {**told, "content": text}, [part for part in parts if part["type"] != "text"]

    def _part(self, block: Fields) -> list[dict[str, Any]]:
        reader = PARTS.get(block.kind())
        part = reader(block) if reader is not None else None
        if part is None:
            self.lost.append(f"{block.path} is of a type that Anthropic's own models alone know")
        return [] if part is None else [part]

    def _tools(self, asked: Fields) -> dict[str, Any]:
        offered = asked.items("tools")
        tools = [_tool(tool) for tool in offered if tool.kind("custom") == "custom"]
        for tool in offered:
            kind = tool.kind("custom")
            if kind != "custom" and not kind.startswith(VENDOR_RUN):
                self.lost.append(f"{tool.path} is a tool that Anthropic's own models alone know")
        if offered and not tools:
            self.lost.append("tools holds only tools that Anthropic's own models alone know")
        if not tools:
            return {}
        return {"tools": tools, **_choice(asked.fields("tool_choice"), tools)}


def _call(block: Fields) -> dict[str, Any]:
    arguments = orjson.dumps(dict(block.fields("input").value)).decode()
    function = {"name": block.required_text("name"), "arguments": arguments}
    return {"id": block.required_text("id"), "type": "function", "function": function}


def _tool(tool: Fields) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.required_text("name"), "parameters": tool.fields("input_schema").value}
    if tool.text("description"):
        function["description"] = tool.text("description")
    return {"type": "function", "function": function}


def _choice(choice: Fields, tools: list[dict[str, Any]]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    kind = choice.kind("auto")
    if kind == "tool":
        name = choice.required_text("name")
        if any(tool["function"]["name"] == name for tool in tools):
            told["tool_choice"] = {"type": "function", "function": {"name": name}}
    elif kind not in MODES:
        raise choice.wrong("type", "auto, any, tool or none")
    elif kind != "auto":
        told["tool_choice"] = MODES[kind]
    if choice.value.get("disable_parallel_tool_use") is True:
        told["parallel_tool_calls"] = False
    return told


def _effort(asked: Fields) -> dict[str, Any]:
    """Thinking by a budget or by an effort; an effort alone, without thinking, has no name in chat completions."""
    thinking = asked.fields("thinking")
    if thinking.kind() not in ("enabled", "adaptive"):
        return {}
    effort = asked.fields("output_config").text("effort")
    budget = thinking.value.get("budget_tokens")
    if not effort and isinstance(budget, int):
        effort = next((name for least, name in EFFORTS if budget <= least), HIGHEST)
    return {"reasoning_effort": {"xhigh": HIGHEST, "max": HIGHEST}.get(effort, effort)} if effort else {}


def _format(asked: Fields) -> dict[str, Any]:
    wanted = asked.fields("output_config").fields("format")
    if wanted.kind() != "json_schema":
        return {}
    schema = {"name": "answer", "schema": wanted.fields("schema").value, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _text(block: Fields) -> dict[str, Any]:
    return {"type": "text", "text": block.text("text")}


def _image(block: Fields) -> dict[str, Any] | None:
    url = _url(block.fields("source"))
    return {"type": "image_url", "image_url": {"url": url}} if url else None


def _document(block: Fields) -> dict[str, Any] | None:
    """None for a document that lies elsewhere."""
    source = block.fields("source")
    if source.kind() == "text":
        return {"type": "text", "text": source.text("data")}
    if source.kind() == "content":
        content = source.value.get("content")
        if isinstance(content, str):
            return {"type": "text", "text": content}
        return {"type": "text", "text": "\n".join(part.text("text") for part in source.items("content"))}
    if source.kind() != "base64":
        return None
    return {"type": "file", "file": {"filename": block.text("title") or "document.pdf", "file_data": _url(source)}}


def _search_result(block: Fields) -> dict[str, Any]:
    lines = [block.text("title"), block.text("source"), *(part.text("text") for part in block.items("content"))]
    return {"type": "text", "text": "\n".join(line for line in lines if line)}


def _url(source: Fields) -> str:
    """Empty for a file that the vendor keeps."""
    if source.kind() == "base64":
        return f"data:{source.required_text('media_type')};base64,{source.required_text('data')}"
    return source.required_text("url") if source.kind() == "url" else ""


PARTS: Mapping[str, Callable[[Fields], dict[str, Any] | None]] = MappingProxyType(
    {"text": _text, "image": _image, "document": _document, "search_result": _search_result}
)
