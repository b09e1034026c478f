"""A request of the Responses API as a chat completion. Nothing is kept from one request to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from executor.clients import responses_tools
from executor.clients.fields import Fields
from executor.clients.responses_tools import Tool
from executor.model import Spoken

ROLES = frozenset({"user", "assistant", "system", "developer"})
# Of these the model can do without: what its vendor did by itself, and reasoning that its vendor alone can read.
PASSED_OVER = frozenset(
    "reasoning web_search_call file_search_call code_interpreter_call image_generation_call mcp_list_tools mcp_call "
    "mcp_approval_request mcp_approval_response tool_search_call tool_search_output".split()
)
# Fields by which a request would refer to what a server keeps.
KEPT = ("previous_response_id", "conversation", "prompt")


def read(body: Mapping[str, Any]) -> Spoken:
    """Raises ServiceError INVALID_FIELD naming the field."""
    asked = Fields(body)
    for name in KEPT:
        if body.get(name) is not None:
            raise asked.wrong(name, "null: nothing is kept between requests, so send the whole input")
    if body.get("background") is True:
        raise asked.wrong("background", "false or null: answers are not kept")
    offered = responses_tools.offer(asked)
    chosen, unchosen = responses_tools.choice(asked, offered.tools)
    reading = _Reading(offered.tools)
    chat: dict[str, Any] = {"model": body.get("model"), "messages": reading.messages_of(asked)}
    chat |= asked.numbers("temperature", "top_p") | asked.flags("stream") | asked.passed("prompt_cache_key")
    if asked.numbers("max_output_tokens"):
        chat["max_tokens"] = body["max_output_tokens"]
    if offered.definitions:
        chat |= {"tools": list(offered.definitions), **chosen, **asked.flags("parallel_tool_calls")}
    effort = asked.fields("reasoning").text("effort")
    chat |= {"reasoning_effort": effort} if effort else {}
    chat |= _format(asked.fields("text").fields("format"))
    unread = ("top_logprobs cannot be told in this dialect here",) if body.get("top_logprobs") else ()
    return Spoken(body, chat, lost=(*offered.lost, *unchosen, *reading.lost, *unread))


class _Reading:
    """Input items on their way into messages; ``lost`` grows by what these cannot carry."""

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self.lost: list[str] = []
        self._tools = {(tool.name, tool.namespace): tool for tool in tools}
        self._messages: list[dict[str, Any]] = []
        self._media: list[dict[str, Any]] = []  # of tool results, which may hold text only

    def messages_of(self, asked: Fields) -> list[dict[str, Any]]:
        if asked.text("instructions"):
            self._messages.append({"role": "system", "content": asked.text("instructions")})
        given = asked.value.get("input")
        if isinstance(given, str):
            self._messages.append({"role": "user", "content": given})
        elif not isinstance(given, list):
            raise asked.wrong("input", "a string or an array of items")
        else:
            for item in asked.items("input"):
                self._item(item)
            self._show_media()
        return self._messages

    def _item(self, item: Fields) -> None:
        kind = item.kind("message")
        if not kind.endswith("_call_output"):
            self._show_media()
        if kind in ITEMS:
            ITEMS[kind](self, item)
        elif kind == "item_reference":
            raise item.wrong("type", "an item itself: nothing is kept between requests that one could refer to")
        elif kind not in PASSED_OVER:
            self.lost.append(f"{item.path} is of a type that OpenAI's own models alone know")

    def message(self, item: Fields) -> None:
        role = item.required_text("role")
        if role not in ROLES:
            raise item.wrong("role", "user, assistant, system or developer")
        content = item.value.get("content")
        if not isinstance(content, str | list):
            raise item.wrong("content", "a string or an array of parts")
        parts: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else []
        parts += self._parts(item) if isinstance(content, list) else []
        texts_only = all(part["type"] == "text" for part in parts)
        told: Any = "\n".join(part["text"] for part in parts) if texts_only else parts
        if role == "assistant":
            self._assistant(text=told)
        else:
            self._messages.append({"role": "user" if role == "user" else "system", "content": told})

    def call(self, item: Fields) -> None:
        custom = item.kind() == "custom_tool_call"
        name, namespace = item.required_text("name"), item.text("namespace")
        tool = self._tools.get((name, namespace), Tool(name, custom, namespace))
        arguments = responses_tools.custom_arguments(item.text("input")) if custom else item.text("arguments")
        function = {"name": tool.function_name, "arguments": arguments}
        self._assistant(call={"id": item.required_text("call_id"), "type": "function", "function": function})

    def output(self, item: Fields) -> None:
        output = item.value.get("output")
        if not isinstance(output, str | list):
            raise item.wrong("output", "a string or an array of parts")
        parts = self._parts(item, "output") if isinstance(output, list) else []
        text = output if isinstance(output, str) else "\n".join(p["text"] for p in parts if p["type"] == "text")
        self._media += [part for part in parts if part["type"] != "text"]
        self._messages.append({"role": "tool", "tool_call_id": item.required_text("call_id"), "content": text})

    def _assistant(self, text: Any = None, call: Mapping[str, Any] | None = None) -> None:
        """What the assistant said and called in one go is one message."""
        if not self._messages or self._messages[-1]["role"] != "assistant":
            self._messages.append({"role": "assistant", "content": None})
        message = self._messages[-1]
        if text:
            message["content"] = f"{message['content']}\n\n{text}" if message["content"] else text
        if call is not None:
            message.setdefault("tool_calls", []).append(call)

    def _show_media(self) -> None:
        if self._media:
            self._messages.append({"role": "user", "content": self._media})
            self._media = []

    def _parts(self, item: Fields, name: str = "content") -> list[dict[str, Any]]:
        told = []
        for part in item.items(name):
            reader = PARTS.get(part.kind())
            read_part = reader(part) if reader is not None else None
            if read_part is None:
                self.lost.append(f"{part.path} is of a type that OpenAI's own models alone know")
            else:
                told.append(read_part)
        return told


def _format(wanted: Fields) -> dict[str, Any]:
    if wanted.kind() == "json_object":
        return {"response_format": {"type": "json_object"}}
    if wanted.kind() != "json_schema":
        return {}
    described = {"name": wanted.text("name") or "answer", **wanted.passed("schema", "description", "strict")}
    return {"response_format": {"type": "json_schema", "json_schema": described}}


def _text(part: Fields) -> dict[str, Any]:
    return {"type": "text", "text": part.text("text")}


def _refusal(part: Fields) -> dict[str, Any]:
    return {"type": "text", "text": part.text("refusal")}


def _image(part: Fields) -> dict[str, Any] | None:
    """None for a file that the vendor keeps."""
    url = part.text("image_url")
    return {"type": "image_url", "image_url": {"url": url, **part.passed("detail")}} if url else None


def _file(part: Fields) -> dict[str, Any] | None:
    data = part.text("file_data")
    return {"type": "file", "file": {"filename": part.text("filename"), "file_data": data}} if data else None


def _audio(part: Fields) -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": part.fields("input_audio").value}


PARTS: Mapping[str, Callable[[Fields], dict[str, Any] | None]] = MappingProxyType(
    {
        "input_text": _text,
        "output_text": _text,
        "text": _text,
        "refusal": _refusal,
        "input_image": _image,
        "input_file": _file,
        "input_audio": _audio,
    }
)
ITEMS: Mapping[str, Callable[[_Reading, Fields], None]] = MappingProxyType(
    {
        "message": _Reading.message,
        "function_call": _Reading.call,
        "custom_tool_call": _Reading.call,
        "function_call_output": _Reading.output,
        "custom_tool_call_output": _Reading.output,
    }
)
