"""What the events of a stream have in common, so that most of them need not be read one by one. Does no I/O.

A model's words come as events that are the same byte for byte around each piece of text. Once such an event was read
and went on as it came, the like of it does too: all it can say is another text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# No quote ends it and no backslash begins anything: within a JSON string it can be nothing but itself.
PLAIN = re.compile(rb"[ !#-\[\]-~]*")
DATA, END = b"data: ", b"\n\n"
# Some upstreams put something new into each event, and then there is nothing to learn.
MOST_LESSONS = 8


class Refrain:
    """``learn`` from an event that went on as it came; ``run`` tells how far others repeat it."""

    def __init__(self) -> None:
        self._before = self._after = b""
        self._lessons = 0

    def learn(self, data: bytes, chunk: Mapping[str, Any]) -> None:
        """``data`` is the event's JSON and ``chunk`` what it says."""
        text = _only_text(chunk)
        if not text or self._lessons == MOST_LESSONS:
            return
        self._lessons += 1
        before, found, after = data.partition(b'"content":"%s"' % text.encode())
        if found and PLAIN.fullmatch(text.encode()) and b"\n" not in data:
            self._before = DATA + before + b'"content":"'
            self._after = b'"' + after

    def run(self, data: bytes) -> tuple[int, int, int]:
        """How many bytes of whole events at the front of ``data`` repeat it; their number, and characters of text."""
        before, after = self._before, self._after
        if not before or not data.startswith(before):
            return 0, 0, 0
        around, size, count, characters = len(before) + len(after), 0, 0, 0
        for block in data.split(END)[:-1]:
            end = len(block) - len(after)
            if not (block.startswith(before) and block.endswith(after) and PLAIN.fullmatch(block, len(before), end)):
                break
            size += len(block) + len(END)
            characters += len(block) - around
            count += 1
        return size, count, characters


def _only_text(chunk: Mapping[str, Any]) -> str:
    """The text of a chunk that holds one piece of it and nothing else; empty for others."""
    try:
        (choice,) = chunk["choices"]
        delta = choice["delta"]
        is_alone = len(delta) == 1 and not (choice.get("finish_reason") or chunk.get("usage") or "error" in chunk)
        text = delta["content"]
    except (LookupError, TypeError, ValueError, AttributeError):
        return ""
    return text if is_alone and isinstance(text, str) else ""
