"""The messages of a chat completion as turns and parts, for dialects that arrange them otherwise."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote_to_bytes

import orjson

from executor.dialects.chat import mappings, word
from executor.dialects.frames import Untranslatable

# Marks reasoning that its vendor signed, in the field in which chat clients carry it from answer to request.
ANTHROPIC_REASONING = "anthropic-claude-v1"


@dataclass(frozen=True, slots=True)
class Text:
    """``cache`` is a cache mark that the client put on it."""

    text: str
    cache: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Media:
    """An image, audio or document: base64 ``data`` of type ``mime``, or the ``url`` where it lies. One is empty."""

    kind: str  # image, audio or document
    mime: str = ""
    data: str = ""
    url: str = ""
    name: str = ""
    cache: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """``signature`` is Google's over the thought that led to the call."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    signature: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """``name`` is the called tool's, empty when no call with the id came before."""

    id: str
    name: str
    parts: tuple[Text | Media, ...]

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


@dataclass(frozen=True, slots=True)
class Thought:
    """Reasoning with Anthropic's ``signature``, or ``hidden`` in a form that only Anthropic can read."""

    text: str = ""
    signature: str = ""
    hidden: str = ""


Part = Text | Media | ToolCall | ToolResult | Thought


@dataclass(frozen=True, slots=True)
class Turn:
    """``role`` is user or assistant; tool results are parts of a user turn. No two neighbours have the same role."""

    role: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """``system`` holds all instructions, wherever they stood; where nobody else spoke, the last one is the user's."""

    system: tuple[Text, ...]
    turns: tuple[Turn, ...]


def read(messages: Any, prompt: str = "") -> Conversation:
    """``prompt`` goes before all instructions. Raises Untranslatable, naming the message."""
    system: list[Text] = [Text(prompt)] if prompt else []
    turns: list[tuple[str, list[Part]]] = []
    names: dict[str, str] = {}
    for place, message in enumerate(mappings(messages)):
        field = f"messages[{place}]"
        role = word(message.get("role"))
        if role not in READERS:
            raise Untranslatable(f"{field} has a role that the target's dialect does not know")
        turn_role, reader = READERS[role]
        parts = list(reader(message, field, names))
        if turn_role == "system":
            system += [part for part in parts if isinstance(part, Text)]
        elif parts and turns and turns[-1][0] == turn_role:
            turns[-1][1].extend(parts)
        elif parts:
            turns.append((turn_role, parts))
    if not turns and system:
        turns = [("user", [system.pop()])]
    return Conversation(tuple(system), tuple(Turn(role, tuple(parts)) for role, parts in turns))


def tool_loop_is_open(turns: tuple[Turn, ...]) -> Turn | None:
    """The last turn of the assistant, where it called tools whose results come last; else None."""
    if len(turns) < 2 or not any(isinstance(part, ToolResult) for part in turns[-1].parts):
        return None
    return turns[-2]


def data_url(url: str, field: str) -> tuple[str, str]:
    """Media type and base64 text of a ``data:`` URL. Raises Untranslatable."""
    head, comma, data = url.removeprefix("data:").partition(",")
    mime, *options = head.split(";")
    if not comma:
        raise Untranslatable(f"{field} is no whole data URL")
    if "base64" not in options:
        return mime or "text/plain", base64.b64encode(unquote_to_bytes(data)).decode()
    try:
        base64.b64decode(data, validate=True)
    except binascii.Error:
        raise Untranslatable(f"{field} holds data that is no base64") from None
    return mime or "text/plain", data


def arguments_of(text: Any) -> Mapping[str, Any]:
    """A tool call's arguments as an object. What a model wrote that is none is kept as the text it is."""
    if isinstance(text, dict):
        return text
    if not isinstance(text, str) or not text.strip():
        return {}
    try:
        arguments = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {"arguments": text}
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}


def _said(message: Mapping[str, Any], field: str, _names: dict[str, str]) -> Iterator[Text | Media]:
    """The content of a message: one text, or parts."""
    content = message.get("content")
    if isinstance(content, str):
        if content:
            yield Text(content, _cache_mark(message))
        return
    for place, part in enumerate(mappings(content)):
        kind = word(part.get("type"))
        at = f"{field}.content[{place}]"
        if kind not in PARTS:
            raise Untranslatable(f"{at} is of a type that the target's dialect does not know")
        read_part = PARTS[kind](part, at)
        if not isinstance(read_part, Text) or read_part.text:
            yield read_part


def _assistant(message: Mapping[str, Any], field: str, names: dict[str, str]) -> Iterator[Part]:
    yield from _thoughts(message)
    yield from _said(message, field, names)
    refusal = word(message.get("refusal"))
    if refusal:
        yield Text(refusal)
    legacy = message.get("function_call")
    calls = mappings(message.get("tool_calls"))
    if isinstance(legacy, dict):
        calls = [*calls, {"id": f"call_{word(legacy.get('name'))}", "function": legacy}]
    for place, call in enumerate(calls):
        function = call.get("function")
        if not isinstance(function, dict):
            raise Untranslatable(f"{field}.tool_calls[{place}] is no call of a function")
        name, call_id = word(function.get("name")), word(call.get("id")) or f"call_{len(names)}"
        names[call_id] = name
        yield ToolCall(call_id, name, arguments_of(function.get("arguments")), _google_signature(call))


def _tool(message: Mapping[str, Any], field: str, names: dict[str, str]) -> Iterator[ToolResult]:
    call_id = word(message.get("tool_call_id")) or f"call_{word(message.get('name'))}"
    name = names.get(call_id) or word(message.get("name"))
    yield ToolResult(call_id, name, tuple(_said(message, field, names)))


def _thoughts(message: Mapping[str, Any]) -> Iterator[Thought]:
    for detail in mappings(message.get("reasoning_details")):
        if detail.get("format") != ANTHROPIC_REASONING:
            continue
        if word(detail.get("signature")):
            yield Thought(text=word(detail.get("text")), signature=word(detail.get("signature")))
        elif word(detail.get("data")):
            yield Thought(hidden=word(detail.get("data")))


def _google_signature(call: Mapping[str, Any]) -> str:
    extra = call.get("extra_content")
    google = extra.get("google") if isinstance(extra, dict) else None
    return word(google.get("thought_signature")) if isinstance(google, dict) else ""


def _text(part: Mapping[str, Any], _field: str) -> Text:
    return Text(word(part.get("text")) or word(part.get("refusal")), _cache_mark(part))


def _image(part: Mapping[str, Any], field: str) -> Media:
    image = part.get("image_url")
    url = word(image.get("url")) if isinstance(image, dict) else word(image)
    if url.startswith("data:"):
        mime, data = data_url(url, f"{field}.image_url")
        return Media("image", mime, data, cache=_cache_mark(part))
    if not url.startswith(("http://", "https://")):
        raise Untranslatable(f"{field}.image_url is neither a data URL nor an http address")
    return Media("image", url=url, cache=_cache_mark(part))


def _audio(part: Mapping[str, Any], field: str) -> Media:
    audio = part.get("input_audio")
    if not isinstance(audio, dict) or not word(audio.get("data")):
        raise Untranslatable(f"{field}.input_audio holds no data")
    return Media("audio", f"audio/{word(audio.get('format')) or 'wav'}", word(audio.get("data")))


def _document(part: Mapping[str, Any], field: str) -> Media:
    file = part.get("file")
    data = word(file.get("file_data")) if isinstance(file, dict) else ""
    if not isinstance(file, dict) or not data:
        raise Untranslatable(f"{field}.file holds no data; files kept with one vendor cannot be read by another")
    name, mime = word(file.get("filename")), "application/pdf"
    if data.startswith("data:"):
        mime, data = data_url(data, f"{field}.file.file_data")
    return Media("document", mime, data, name=name, cache=_cache_mark(part))


def _cache_mark(part: Mapping[str, Any]) -> Mapping[str, Any] | None:
    mark = part.get("cache_control")
    return mark if isinstance(mark, dict) else None


PARTS: Mapping[str, Callable[[Mapping[str, Any], str], Text | Media]] = MappingProxyType(
    {"text": _text, "refusal": _text, "image_url": _image, "input_audio": _audio, "file": _document}
)
Reader = Callable[[Mapping[str, Any], str, dict[str, str]], Iterator[Part]]
READERS: Mapping[str, tuple[str, Reader]] = MappingProxyType(
    {
        "system": ("system", _said),
        "developer": ("system", _said),
        "user": ("user", _said),
        "assistant": ("assistant", _assistant),
        "tool": ("user", _tool),
        "function": ("user", _tool),
    }
)
