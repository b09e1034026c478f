"""Tool-call deltas put in order: dense integer indexes, and id and name of each call once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(slots=True)
class _ToolCall:
    index: int
    raw_index: Any
    id: str
    made_id: bool
    name: str = ""


class ToolDeltas:
    """The tool calls of one choice of one stream, as far as they have come."""

    def __init__(self) -> None:
        self._calls: list[_ToolCall] = []

    def normalised(self, deltas: list[Any], stream_id: str) -> list[dict[str, Any]]:
        """The same deltas for a client; an id that the upstream leaves out is made from ``stream_id``."""
        return [self._normal(delta, stream_id) for delta in deltas if isinstance(delta, dict)]

    def _normal(self, delta: Mapping[str, Any], stream_id: str) -> dict[str, Any]:
        given = delta.get("function")
        function: Mapping[str, Any] = given if isinstance(given, dict) else {}
        name, call_id = _text(function.get("name")), _text(delta.get("id"))
        call = self._match(call_id, delta.get("index"), name)
        opening: dict[str, Any] = {}
        if call is None:
            call = self._begin(call_id, delta.get("index"), stream_id)
            opening = {"id": call.id, "type": "function"}
        passed = {key: value for key, value in function.items() if key not in ("name", "arguments")}
        if name and not call.name:
            call.name = passed["name"] = name
        if function.get("arguments") is not None:
            passed["arguments"] = _arguments(function["arguments"])
        rest = {key: value for key, value in delta.items() if key not in ("index", "id", "type", "function")}
        return {"index": call.index, **opening, **rest, "function": passed}

    def _begin(self, call_id: str, raw_index: Any, stream_id: str) -> _ToolCall:
        index = len(self._calls)
        call = _ToolCall(index, raw_index, call_id or made_id(stream_id, index), made_id=not call_id)
        self._calls.append(call)
        return call

    def _match(self, call_id: str, raw_index: Any, name: str) -> _ToolCall | None:
        """The call that a delta goes on with; None when it begins a new one.

        Upstreams leave out the index, count from one, give every call the index 0, repeat id and name in each delta, or
        send the id late; a known id goes before the index, and another name at the same index is another call.
        """
        known = next((call for call in self._calls if call_id and call.id == call_id), None)
        if known is not None:
            return known
        same_place = [call for call in self._calls if raw_index is None or call.raw_index == raw_index]
        if not same_place:
            return None
        last = same_place[-1]
        is_other_call = bool(name and last.name) and (bool(call_id) or raw_index is None or name != last.name)
        is_other_id = bool(call_id and name) and not last.made_id
        return None if is_other_call or is_other_id else last


def made_id(stream_id: str, index: int) -> str:
    """An id for a call whose upstream gives none. OpenAI takes none above forty characters."""
    return f"call_{stream_id[-24:]}_{index}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _arguments(value: Any) -> str:
    """Arguments are text in this dialect; some upstreams send the object itself."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
