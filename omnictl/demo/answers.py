"""What a demo provider answers to a chat body: pure, and plainly labelled as simulated."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CHARACTERS_PER_TOKEN = 4
SHOWN_CHARACTERS = 200

Json = Mapping[str, Any]


class BadBodyError(Exception):
    """A body that is no chat request; the text names the field."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Either ``text`` or ``tool`` with its ``arguments`` (JSON text)."""

    text: str
    tool: str
    arguments: str
    finish_reason: str
    input_tokens: int
    output_tokens: int

    @property
    def pieces(self) -> tuple[str, ...]:
        """The text in the pieces of a stream, one word each."""
        return tuple(piece for piece in self.text.replace(" ", " \0").split("\0") if piece)


def answer(provider: str, body: Any) -> Answer:
    """Raises BadBodyError for what is no object with messages."""
    if not isinstance(body, dict):
        raise BadBodyError("the body: a JSON object is needed")
    messages = _objects(body.get("messages"))
    if not messages:
        raise BadBodyError("messages: a list of at least one object is needed")
    tokens = tokens_of("".join(text_of(one) for one in messages))
    tool = _called_tool(body)
    if tool is not None:
        arguments = json.dumps(sample(tool.get("parameters") or {}))
        return Answer("", str(tool.get("name", "")), arguments, "tool_calls", tokens, tokens_of(arguments))
    text = _structured(provider, body) or _prose(provider, messages, body)
    return _cut(text, body, tokens)


def _cut(text: str, body: Json, input_tokens: int) -> Answer:
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    whole = Answer(text, "", "", "stop", input_tokens, tokens_of(text))
    if not isinstance(limit, int) or limit < 1 or whole.output_tokens <= limit:
        return whole
    return Answer(text[: limit * CHARACTERS_PER_TOKEN], "", "", "length", input_tokens, limit)


def _prose(provider: str, messages: Sequence[Json], body: Json) -> str:
    asked = next((text_of(one) for one in reversed(messages) if one.get("role") == "user"), "")
    shown = asked if len(asked) <= SHOWN_CHARACTERS else asked[:SHOWN_CHARACTERS] + "..."
    facts = [f"{len(asked.split())} words", f"{len(messages)} messages in all"]
    facts += [f"{images} images"] if (images := sum(_images(one) for one in messages)) else []
    facts += [f"{tools} tools offered"] if (tools := len(_objects(body.get("tools")))) else []
    return (
        f"[simulated answer from {provider}] No model was asked: this is a demo provider on your own machine. "
        f'It received "{shown}" ({", ".join(facts)}).'
    )


def _structured(provider: str, body: Json) -> str:
    wanted = body.get("response_format")
    if not isinstance(wanted, dict):
        return ""
    if wanted.get("type") == "json_schema":
        described = wanted.get("json_schema")
        return json.dumps(sample(described.get("schema") if isinstance(described, dict) else None))
    return json.dumps({"simulated": True, "provider": provider}) if wanted.get("type") == "json_object" else ""


def _called_tool(body: Json) -> Json | None:
    """The function that the request insists on; one that it merely offers is not called."""
    functions = [tool["function"] for tool in _objects(body.get("tools")) if isinstance(tool.get("function"), dict)]
    match body.get("tool_choice"):
        case "required":
            return next(iter(functions), None)
        case {"function": {"name": str(name)}}:
            return next((function for function in functions if function.get("name") == name), None)
    return None


def sample(schema: Any, depth: int = 0) -> Any:
    """A value that fits a JSON schema well enough for a demonstration."""
    if not isinstance(schema, dict) or depth > 8:
        return "simulated"
    if schema.get("enum"):
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: sample(of, depth + 1) for name, of in (schema.get("properties") or {}).items()}
        case "array":
            return [sample(schema.get("items"), depth + 1)]
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "null":
            return None
    return "simulated"


def text_of(message: Json) -> str:
    """The text of a message whose content is a text or a list of parts."""
    content = message.get("content")
    return content if isinstance(content, str) else "".join(_texts(content))


def _texts(parts: Any) -> Iterator[str]:
    return (part["text"] for part in _objects(parts) if isinstance(part.get("text"), str))


def _images(message: Json) -> int:
    return sum(part.get("type") == "image_url" for part in _objects(message.get("content")))


def _objects(value: Any) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def tokens_of(text: str) -> int:
    """An estimate; at least 1."""
    return max(1, math.ceil(len(text) / CHARACTERS_PER_TOKEN))
