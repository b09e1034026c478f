"""A parser of event streams that does no I/O: bytes in, whole events out, however the bytes are cut."""

from __future__ import annotations

from typing import NamedTuple

BOM = b"\xef\xbb\xbf"


class EventTooLarge(Exception):
    """One event grew over the limit before it ended."""


class Event(NamedTuple):
    """``data`` is the event's data lines joined by a newline; ``name`` its `event` field, empty when it has none."""

    data: bytes
    name: bytes = b""


class EventParser:
    """Lines end in CR, LF or CRLF. An event without data is dropped, a last one without a blank line is kept.

    ``blocks`` counts what arrived whole, comments too: it tells a living stream from a stalled one.
    """

    def __init__(self, max_event_bytes: int = 8 * 2**20) -> None:
        self.blocks = 0
        self._max = max_event_bytes
        self._partial: list[bytes] = []  # pieces of the line that is not whole yet
        self._size = 0  # bytes of the event and the line that are not whole yet
        self._data: list[bytes] = []
        self._name = b""
        self._skip_lf = False
        self._at_start = True

    def feed(self, data: bytes) -> list[Event]:
        """Events that became whole by these bytes. Raises EventTooLarge."""
        data = self._with_lf(data)
        if b"\n" not in data:
            self._keep(data)
            return []
        lines = b"".join((*self._partial, data)).split(b"\n")
        rest = lines.pop()
        self._partial.clear()
        events = [event for line in lines if (event := self._line(line)) is not None]
        self._size = sum(map(len, self._data)) + len(self._data)
        self._keep(rest)
        return events

    @property
    def at_rest(self) -> bool:
        """Nothing of an event has come yet: what follows begins one."""
        return not (self._at_start or self._partial or self._data or self._name or self._skip_lf)

    def passed_by(self, count: int) -> None:
        """So many whole events did not come through here."""
        self.blocks += count

    def close(self) -> list[Event]:
        """The last event, if the stream ended without a blank line after it."""
        rest = b"".join(self._partial)
        self._partial.clear()
        events = [self._line(rest) if rest else None, self._line(b"")]
        return [event for event in events if event is not None]

    def _with_lf(self, data: bytes) -> bytes:
        """The same lines, ended by LF alone; a CRLF may be cut between two calls."""
        if self._skip_lf and data:
            data = data.removeprefix(b"\n")
            self._skip_lf = False
        if b"\r" in data:
            self._skip_lf = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._max:
            raise EventTooLarge(f"an event is larger than {self._max} bytes")
        if piece:
            self._partial.append(piece)

    def _line(self, line: bytes) -> Event | None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(BOM)
        if not line:
            return self._dispatched()
        field, _, value = line.partition(b":")
        if not field:
            self.blocks += 1
        elif field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.removeprefix(b" ")
        return None

    def _dispatched(self) -> Event | None:
        data, name = self._data, self._name
        self._data, self._name = [], b""
        if not data:
            return None
        self.blocks += 1
        return Event(b"\n".join(data), name)
