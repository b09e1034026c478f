"""A recorded stream on its way through the relay, and what a client reads of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from executor.clients import CLIENTS
from executor.dialects import DIALECTS
from executor.model import Call, ClientDialect, Usage
from executor.relay import Relay, State
from executor.sse import EventParser
from tests.executor.dialects.recorded import RECORDED

CREATED = 1_760_000_000
COST = 0.25
TOOLS = ["get_weather", "get_time"]


def call_of(client: ClientDialect, body: dict[str, Any] | None = None) -> Call:
    """A streamed request for the two tools, by the client's own body."""
    asked = {**BODIES[client], "stream": True, **(body or {})}
    spoken = CLIENTS[client].read(asked)
    return Call("d1", asked if spoken is None else spoken.chat, client=client, spoken=spoken, created=CREATED)


BODIES: dict[ClientDialect, dict[str, Any]] = {
    ClientDialect.OPENAI_CHAT: {
        "model": "auto",
        "messages": [{"role": "user", "content": "hi"}],
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": {"name": name}} for name in TOOLS],
    },
    ClientDialect.OPENAI_RESPONSES: {
        "model": "auto",
        "input": "hi",
        "tools": [{"type": "function", "name": name, "parameters": {}, "strict": False} for name in TOOLS],
    },
    ClientDialect.ANTHROPIC_MESSAGES: {
        "model": "auto",
        "max_tokens": 4_096,
        "messages": [{"role": "user", "content": "hi"}],
        "thinking": {"type": "enabled", "budget_tokens": 2_048},
        "tools": [{"name": name, "input_schema": {"type": "object"}} for name in TOOLS],
    },
}


@dataclass
class Relayed:
    """The client's bytes, and how the stream ended."""

    data: bytes
    relay: Relay

    @property
    def events(self) -> list[dict[str, Any]]:
        return payloads(self.data)

    @property
    def state(self) -> State:
        return self.relay.state


def relayed(call: Call, dialect: str, pieces: Iterable[bytes]) -> Relayed:
    """As an attempt would relay it; a broken stream ends without the client's error event."""
    as_it_is = call.own_body(dialect) is not None
    reader, writer = DIALECTS[dialect].reader(call), CLIENTS[call.client].writer(call, as_it_is=as_it_is)
    relay = Relay(reader, writer, max_event_bytes=1 << 20)
    out = b""
    for piece in pieces:
        if relay.is_open:
            out += relay.feed(piece)
    if relay.is_open:
        out += relay.close()
    if relay.state is State.SERVED:
        out += relay.tail(relay.usage or Usage(1, 2, estimated=True), COST)
    return Relayed(out, relay)


def whole(client: ClientDialect, dialect: str, name: str, body: dict[str, Any] | None = None) -> Relayed:
    return relayed(call_of(client, body), dialect, [RECORDED[dialect][name]])


def payloads(data: bytes) -> list[dict[str, Any]]:
    parser = EventParser()
    events = [*parser.feed(data), *parser.close()]
    for event in events:
        if event.name:
            assert event.name.decode() == orjson.loads(event.data)["type"]
    return [orjson.loads(event.data) for event in events if event.data != b"[DONE]"]


@dataclass
class Heard:
    """What a client understands of an answer. ``tools`` are id, name and arguments of each call."""

    text: str = ""
    thinking: str = ""
    refusal: str = ""
    tools: list[list[str]] = field(default_factory=list)
    finish: str = ""
    usage: tuple[int, int, int] | None = None  # input, output, cached


def heard(client: ClientDialect, events: list[dict[str, Any]]) -> Heard:
    return HEARING[client](events)


def _chat(events: list[dict[str, Any]]) -> Heard:
    told = Heard()
    for event in events:
        for choice in event.get("choices", ()):
            delta = choice["delta"]
            told.text += delta.get("content") or ""
            told.thinking += delta.get("reasoning_content") or ""
            told.refusal += delta.get("refusal") or ""
            for call in delta.get("tool_calls", ()):
                if "id" in call:
                    assert call["index"] == len(told.tools), "indexes are dense"
                    told.tools.append([call["id"], call["function"]["name"], ""])
                told.tools[call["index"]][2] += call["function"].get("arguments") or ""
            told.finish = choice.get("finish_reason") or told.finish
        if event.get("usage"):
            usage = event["usage"]
            cached = usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)
            told.usage = (usage["prompt_tokens"], usage["completion_tokens"], cached)
    return told


def _responses(events: list[dict[str, Any]]) -> Heard:
    """The deltas; that the closing response says the same is checked here."""
    told = Heard()
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"][: len(kinds)]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    items: dict[int, dict[str, Any]] = {}
    calls: dict[int, list[str]] = {}
    for event in events:
        match event["type"]:
            case "response.output_item.added":
                assert event["output_index"] == len(items), "indexes are dense"
                items[event["output_index"]] = event["item"]
                if event["item"]["type"] == "function_call":
                    calls[event["output_index"]] = [event["item"]["call_id"], event["item"]["name"], ""]
            case "response.output_text.delta":
                told.text += event["delta"]
            case "response.reasoning_summary_text.delta":
                told.thinking += event["delta"]
            case "response.refusal.delta":
                told.refusal += event["delta"]
            case "response.function_call_arguments.delta":
                calls[event["output_index"]][2] += event["delta"]
            case "response.output_item.done":
                items[event["output_index"]] = event["item"]
            case "response.completed" | "response.incomplete":
                response = event["response"]
                assert response["output"] == [items[index] for index in sorted(items)]
                told.finish = (response["incomplete_details"] or {"reason": response["status"]})["reason"]
                usage = response["usage"]
                cached = usage["input_tokens_details"]["cached_tokens"]
                told.usage = (usage["input_tokens"], usage["output_tokens"], cached)
    told.tools = [calls[index] for index in sorted(calls)]
    return told


def _messages(events: list[dict[str, Any]]) -> Heard:
    told = Heard()
    open_block: dict[str, Any] | None = None
    count = 0
    for place, event in enumerate(event for event in events if event["type"] != "ping"):
        assert (event["type"] == "message_start") == (place == 0)
        match event["type"]:
            case "content_block_start":
                assert open_block is None
                assert event["index"] == count
                open_block, count = event["content_block"], count + 1
                if open_block["type"] == "tool_use":
                    given = orjson.dumps(open_block["input"]).decode() if open_block["input"] else ""
                    told.tools.append([open_block["id"], open_block["name"], given])
            case "content_block_delta":
                assert open_block is not None
                assert event["index"] == count - 1
                delta = event["delta"]
                told.text += delta.get("text", "")
                told.thinking += delta.get("thinking", "")
                if "partial_json" in delta:
                    told.tools[-1][2] += delta["partial_json"]
            case "content_block_stop":
                assert open_block is not None
                open_block = None
            case "message_delta":
                told.finish = event["delta"]["stop_reason"]
                told.usage = _anthropic_usage({**events[0]["message"]["usage"], **event["usage"]})
    return told


def _anthropic_usage(usage: dict[str, int]) -> tuple[int, int, int]:
    cached, written = (usage.get(f"cache_{what}_input_tokens", 0) for what in ("read", "creation"))
    return (usage["input_tokens"] + written + cached, usage["output_tokens"], cached)


HEARING = {
    ClientDialect.OPENAI_CHAT: _chat,
    ClientDialect.OPENAI_RESPONSES: _responses,
    ClientDialect.ANTHROPIC_MESSAGES: _messages,
}
