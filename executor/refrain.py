"""What the events of a stream have in common, so that most of them need not be read one by one. Does no I/O.

A model's words come as events that are the same byte for byte around each piece of text. Once such an event was read
and went on as it came, the like of it does too: all it can say is another text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# No quote ends it and no backslash begins anything: within a JSON string it can be nothing but itself.
PLAIN = re.compile(rb"[ !#-\[\]-~\x80-\xff]*")
DATA, END = b"data: ", b"\n\n"
# Some upstreams put something new into each event, and then there is nothing to learn.
MOST_LESSONS = 8


class Refrain:
    """``learn`` from each event that was read; ``run`` tells how far others repeat the last one."""

    def __init__(self) -> None:
        self._around: tuple[bytes, bytes] | None = None  # of the last event that was read, if that was text alone
        self._learnt: tuple[bytes, bytes] | None = None
        self._lessons = 0

    def learn(self, data: bytes, chunk: Mapping[str, Any]) -> None:
        """``data`` is the event's JSON if it went on as it came, else empty; ``chunk`` what it says."""
        self._around = None
        text = _only_text(chunk).encode() if data and self._lessons < MOST_LESSONS else b""
        before, found, after = data.partition(b'"content":"%s"' % text)
        if not (text and found and PLAIN.fullmatch(text)) or b"\n" in data:
            return
        around = (DATA + before + b'"content":"', b'"' + after)
        if around != self._learnt:
            self._learnt, self._lessons = around, self._lessons + 1
        self._around = around

    def run(self, data: bytes) -> tuple[int, int, int]:
        """How many bytes of whole events at the front of ``data`` repeat it; their number, and characters of text."""
        if self._around is None or not data.startswith(self._around[0]):
            return 0, 0, 0
        before, after = self._around
        size, count, characters = 0, 0, 0
        for block in data.split(END)[:-1]:
            start, end = len(before), len(block) - len(after)
            if not (block.startswith(before) and block.endswith(after) and PLAIN.fullmatch(block, start, end)):
                break
            try:
                characters += end - start if block.isascii() else len(block[start:end].decode())
            except UnicodeDecodeError:
                break
            size += len(block) + len(END)
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
