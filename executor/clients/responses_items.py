"""An answer as the events of a Responses stream; the whole response is what they add up to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from executor.clients.pieces import Piece, Refusal, Text, Thought, ToolPiece
from executor.clients.responses_tools import Tool, custom_input

Event = dict[str, Any]


@dataclass(slots=True)
class _Open:
    """An item that goes on. ``text`` is what it has so far: reasoning, text, refusal or arguments."""

    index: int
    item: dict[str, Any]
    kind: str
    text: str = ""

    @property
    def place(self) -> dict[str, Any]:
        return {"item_id": self.item["id"], "output_index": self.index}


class Items:
    """Output items in order. Reasoning and messages end when another item begins; calls go on to the end."""

    def __init__(self, response_id: str, tools: Mapping[str, Tool]) -> None:
        self.output: list[dict[str, Any]] = []
        self._id = response_id
        self._tools = tools
        self._speech: _Open | None = None
        self._calls: dict[int, _Open] = {}

    def add(self, piece: Piece) -> Iterator[Event]:
        match piece:
            case Thought(text):
                yield from self._speak("reasoning", text)
            case Text(text):
                yield from self._speak("output_text", text)
            case Refusal(text):
                yield from self._speak("refusal", text)
            case ToolPiece():
                yield from self._call(piece)

    def close(self, status: str = "completed") -> Iterator[Event]:
        """The end of all that was said; ``status`` is completed or incomplete."""
        yield from self._end_speech(status)
        for call in self._calls.values():
            yield from self._end_call(call, status)
        self._calls = {}

    def _speak(self, kind: str, text: str) -> Iterator[Event]:
        speech = self._speech
        if speech is None or speech.kind != kind:
            yield from self._end_speech("completed")
            speech = self._speech = self._begin(kind, SPEECH[kind](f"{self._id}_{len(self.output)}"))
            yield {"type": "response.output_item.added", "output_index": speech.index, "item": {**speech.item}}
            yield {"type": PART_EVENTS[kind] + ".added", **_part_place(speech), "part": _part(kind, "")}
        speech.text += text
        yield {"type": TEXT_EVENTS[kind] + ".delta", **_part_place(speech), "delta": text, **BESIDE.get(kind, {})}

    def _end_speech(self, status: str) -> Iterator[Event]:
        speech, self._speech = self._speech, None
        if speech is None:
            return
        kind, place = speech.kind, _part_place(speech)
        part = _part(kind, speech.text)
        word = "refusal" if kind == "refusal" else "text"
        yield {"type": TEXT_EVENTS[kind] + ".done", **place, word: speech.text, **BESIDE.get(kind, {})}
        yield {"type": PART_EVENTS[kind] + ".done", **place, "part": part}
        speech.item["summary" if kind == "reasoning" else "content"] = [part]
        yield self._ended(speech, status)

    def _call(self, piece: ToolPiece) -> Iterator[Event]:
        call = self._calls.get(piece.place)
        if call is None:
            yield from self._end_speech("completed")
            tool = self._tools.get(piece.name, Tool(piece.name))
            call = self._begin("custom" if tool.custom else "function", self._call_item(piece, tool))
            self._calls[piece.place] = call
            yield {"type": "response.output_item.added", "output_index": call.index, "item": {**call.item}}
        call.text += piece.arguments
        if piece.arguments and call.kind == "function":
            yield {"type": "response.function_call_arguments.delta", **call.place, "delta": piece.arguments}

    def _end_call(self, call: _Open, status: str) -> Iterator[Event]:
        """The input of a custom tool is known only when its arguments are whole."""
        if call.kind == "function":
            call.item["arguments"] = call.text or "{}"
            done = {"name": call.item["name"], "arguments": call.item["arguments"]}
            yield {"type": "response.function_call_arguments.done", **call.place, **done}
        else:
            text = call.item["input"] = custom_input(call.text)
            yield {"type": "response.custom_tool_call_input.delta", **call.place, "delta": text}
            yield {"type": "response.custom_tool_call_input.done", **call.place, "input": text}
        yield self._ended(call, status)

    def _call_item(self, piece: ToolPiece, tool: Tool) -> dict[str, Any]:
        item_id = f"{self._id}_{len(self.output)}"
        common = {"status": "in_progress", "call_id": piece.id, "name": tool.name}
        if tool.namespace:
            common["namespace"] = tool.namespace
        if tool.custom:
            return {"id": f"ctc_{item_id}", "type": "custom_tool_call", **common, "input": ""}
        return {"id": f"fc_{item_id}", "type": "function_call", **common, "arguments": ""}

    def _begin(self, kind: str, item: dict[str, Any]) -> _Open:
        self.output.append(item)
        return _Open(len(self.output) - 1, item, kind)

    def _ended(self, ended: _Open, status: str) -> Event:
        ended.item["status"] = status
        return {"type": "response.output_item.done", "output_index": ended.index, "item": {**ended.item}}


def _message(item_id: str) -> dict[str, Any]:
    return {"id": f"msg_{item_id}", "type": "message", "status": "in_progress", "role": "assistant", "content": []}


def _reasoning(item_id: str) -> dict[str, Any]:
    return {"id": f"rs_{item_id}", "type": "reasoning", "status": "in_progress", "summary": []}


SPEECH = {"reasoning": _reasoning, "output_text": _message, "refusal": _message}
PART_EVENTS = {
    "reasoning": "response.reasoning_summary_part",
    "output_text": "response.content_part",
    "refusal": "response.content_part",
}
TEXT_EVENTS = {
    "reasoning": "response.reasoning_summary_text",
    "output_text": "response.output_text",
    "refusal": "response.refusal",
}
BESIDE: Mapping[str, dict[str, Any]] = {"output_text": {"logprobs": []}}


def _part(kind: str, text: str) -> dict[str, Any]:
    match kind:
        case "reasoning":
            return {"type": "summary_text", "text": text}
        case "refusal":
            return {"type": "refusal", "refusal": text}
        case _:
            return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _part_place(speech: _Open) -> dict[str, Any]:
    return {**speech.place, "summary_index" if speech.kind == "reasoning" else "content_index": 0}
