"""Whole answers read and written: their text, and their form as a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from executor.clients import CLIENTS
from executor.dialects import chat
from executor.dialects.frames import Answer
from executor.dialects.openai import ChunkReader
from executor.model import Call, Usage
from executor.relay import Relay


def said(answer: Answer | None) -> str:
    """The text of an answer's first choice; empty when it says nothing in words, or a content filter withheld it."""
    if answer is None or answer.refused:
        return ""
    message = first_message(orjson.loads(answer.body))
    return text_of(message.get("content")) or chat.word(message.get("refusal"))


def first_message(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The message of the first choice of a completion; empty where there is none."""
    messages = [choice.get("message") for choice in chat.mappings(payload.get("choices"))]
    return next((message for message in messages if isinstance(message, dict)), {})


def text_of(content: Any) -> str:
    """The text of a message's content, its parts joined by line ends; empty when there is none but white space."""
    if not isinstance(content, str):
        content = "\n".join(chat.texts(part.get("text") for part in chat.mappings(content)))
    return content if content.strip() else ""


def streamed(call: Call, answer: Answer, usage: Usage, cost_usd: float) -> bytes:
    """A whole answer as a stream for the client."""
    events = chat.as_events(answer.body)
    relay = Relay(ChunkReader(), CLIENTS[call.client].writer(call, as_it_is=False), len(events))
    return relay.feed(events) + relay.tail(usage, cost_usd)
