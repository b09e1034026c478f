"""An answer as the events of a Messages stream; the whole message is what they add up to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from executor.clients.pieces import Piece, Refusal, Text, Thought, ToolPiece

Event = dict[str, Any]


class Blocks:
    """Content blocks one after the other: a block ends before the next begins.

    A piece of a tool call whose turn has not come waits until the open call has whole arguments, or the answer ends.
    Reasoning becomes thinking only where ``shows_thinking``.
    """

    def __init__(self, *, shows_thinking: bool) -> None:
        self.content: list[dict[str, Any]] = []
        self._shows_thinking = shows_thinking
        self._is_open = False
        self._tool: int | None = None  # place of the open call
        self._arguments: dict[int, str] = {}
        self._waiting: list[ToolPiece] = []

    def add(self, piece: Piece) -> Iterator[Event]:
        match piece:
            case Thought():
                if self._shows_thinking:
                    yield from self._thinking(piece.text)
            case Text() | Refusal():
                yield from self._text(piece.text)
            case ToolPiece():
                yield from self._tool_piece(piece)

    def close(self) -> Iterator[Event]:
        """The end of all that was said."""
        yield from self._stop()
        waiting, self._waiting = self._waiting, []
        for place in dict.fromkeys(piece.place for piece in waiting):
            for piece in waiting:
                if piece.place == place:
                    yield from self._tool_piece(piece)
            yield from self._stop()

    def _thinking(self, text: str) -> Iterator[Event]:
        if not self._is("thinking"):
            yield from self._start({"type": "thinking", "thinking": "", "signature": ""})
        self.content[-1]["thinking"] += text
        yield self._delta({"type": "thinking_delta", "thinking": text})

    def _text(self, text: str) -> Iterator[Event]:
        if not self._is("text"):
            yield from self._start({"type": "text", "text": ""})
        self.content[-1]["text"] += text
        yield self._delta({"type": "text_delta", "text": text})

    def _tool_piece(self, piece: ToolPiece) -> Iterator[Event]:
        if piece.place != self._tool:
            if piece.place in self._arguments:
                return  # that call was whole
            if self._must_wait(piece):
                self._waiting.append(piece)
                return
            yield from self._start({"type": "tool_use", "id": piece.id, "name": piece.name, "input": {}})
            self._tool = piece.place
            self._arguments[piece.place] = ""
        if piece.arguments:
            self._arguments[piece.place] += piece.arguments
            yield self._delta({"type": "input_json_delta", "partial_json": piece.arguments})

    def _must_wait(self, piece: ToolPiece) -> bool:
        if any(waiting.place == piece.place for waiting in self._waiting):
            return True
        return self._tool is not None and not _is_whole(self._arguments[self._tool])

    def _is(self, kind: str) -> bool:
        return self._is_open and self.content[-1]["type"] == kind

    def _start(self, block: dict[str, Any]) -> Iterator[Event]:
        yield from self._stop()
        self.content.append(block)
        self._is_open = True
        yield {"type": "content_block_start", "index": len(self.content) - 1, "content_block": {**block}}

    def _stop(self) -> Iterator[Event]:
        if not self._is_open:
            return
        if self._tool is not None:
            self.content[-1]["input"] = _object(self._arguments[self._tool])
            self._tool = None
        self._is_open = False
        yield {"type": "content_block_stop", "index": len(self.content) - 1}

    def _delta(self, delta: dict[str, Any]) -> Event:
        return {"type": "content_block_delta", "index": len(self.content) - 1, "delta": delta}


def _is_whole(arguments: str) -> bool:
    """No arguments may mean that they are still to come."""
    try:
        orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return False
    return True


def _object(arguments: str) -> dict[str, Any]:
    """Arguments that a model left broken are shown as the text that they are."""
    if not _is_whole(arguments):
        return {"arguments": arguments} if arguments.strip() else {}
    loaded = orjson.loads(arguments)
    return loaded if isinstance(loaded, dict) else {"arguments": loaded}
