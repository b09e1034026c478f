"""One stream from an upstream to the client: held until its first content, then passed on. Does no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from executor.clients.port import StreamWriter
from executor.dialects.frames import Frame, FrameReader, NoAnswer
from executor.model import Failure, OutcomeClass, Usage
from executor.refrain import Refrain
from executor.sse import Event, EventParser, EventTooLarge


class State(StrEnum):
    """Where a stream stands. After COMMITTED there is no other target."""

    HOLDING = "holding"
    COMMITTED = "committed"
    SERVED = "served"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class Signal(StrEnum):
    """What moves it."""

    CONTENT = "content"
    DONE = "done"
    FAULT = "fault"


NEXT: Mapping[tuple[State, Signal], State] = MappingProxyType(
    {
        (State.HOLDING, Signal.CONTENT): State.COMMITTED,
        (State.HOLDING, Signal.DONE): State.FAILED,
        (State.HOLDING, Signal.FAULT): State.FAILED,
        (State.COMMITTED, Signal.CONTENT): State.COMMITTED,
        (State.COMMITTED, Signal.DONE): State.SERVED,
        (State.COMMITTED, Signal.FAULT): State.INTERRUPTED,
    }
)
OPEN = frozenset({State.HOLDING, State.COMMITTED})
# Events of one read that are read by themselves, each in the hope that those behind it need not be.
MOST_SINGLE = 4
COMMITTED = frozenset({State.COMMITTED, State.SERVED, State.INTERRUPTED})


class Relay:
    """``feed`` the upstream's bytes in, take the client's bytes out; ``state`` and ``no_answer`` tell how it ended.

    ``reader`` knows what the upstream says, ``writer`` how the client is told.
    """

    def __init__(self, reader: FrameReader, writer: StreamWriter, max_event_bytes: int) -> None:
        self.state = State.HOLDING
        self.no_answer: NoAnswer | None = None
        self.usage: Usage | None = None
        self.finish_reason = ""
        self.characters = 0
        self.refused = False
        self._reader = reader
        self._writer = writer
        self._parser = EventParser(max_event_bytes)
        self._refrain = Refrain()
        self._most_single = MOST_SINGLE if writer.passes_data else 0
        self._max_held = max_event_bytes
        self._held: list[bytes] = []
        self._held_bytes = 0

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    @property
    def is_committed(self) -> bool:
        """Its content belongs to the client; no other target may answer."""
        return self.state in COMMITTED

    @property
    def progress(self) -> int:
        """Grows with each whole event or comment."""
        return self._parser.blocks

    def feed(self, data: bytes) -> bytes:
        """The client's bytes that these bring; empty while the stream is held."""
        out = b""
        for _ in range(self._most_single):
            if self.state is State.COMMITTED and self._parser.at_rest:
                size, count, characters = self._refrain.run(data)
                self._parser.passed_by(count)
                self.characters += characters
                out, data = out + data[:size], data[size:]
            end = data.find(b"\n\n") + len(b"\n\n")
            if end < len(b"\n\n") or not self.is_open:
                break
            out, data = out + self._parsed(data[:end]), data[end:]
        return out + self._parsed(data) if data and self.is_open else out

    def _parsed(self, data: bytes) -> bytes:
        try:
            events = self._parser.feed(data)
        except EventTooLarge as error:
            self._fault(OutcomeClass.MALFORMED, str(error))
            return b""
        return self._taken(events)

    def close(self) -> bytes:
        """The upstream ended the stream. With a finish reason it is whole, also without [DONE]."""
        out = self._taken(self._parser.close())
        if self.is_open and self.finish_reason:
            out += self._done()
        elif self.is_open:
            empty = not self.progress
            text = "the upstream's stream held no event" if empty else "the upstream's stream ended before it was whole"
            self._fault(OutcomeClass.MALFORMED if empty else OutcomeClass.EMPTY, text)
        return out

    def tail(self, usage: Usage, cost_usd: float) -> bytes:
        """What a served stream ends with."""
        return self._writer.end(usage, cost_usd)

    def error(self, failure: Failure) -> bytes:
        """What a broken stream ends with."""
        return self._writer.error(failure)

    def _taken(self, events: list[Event]) -> bytes:
        out: list[bytes] = []
        for event in events:
            if not self.is_open:
                break
            out.append(self._frame(event, self._reader.read(event)))
        return b"".join(out)

    def _frame(self, event: Event, frame: Frame) -> bytes:
        if frame.fault is not None:
            self._move(Signal.FAULT)
            self.no_answer = NoAnswer(OutcomeClass.UPSTREAM_ERROR, "", frame.fault)
            return b""
        if frame.broken:
            self._fault(OutcomeClass.MALFORMED, "the upstream sent an event that cannot be read")
            return b""
        if frame.done:
            return self._done()
        self.usage = frame.usage or self.usage
        self.finish_reason = frame.finish_reason or self.finish_reason
        self.characters += frame.characters
        data = self._writer.event(event, frame)
        if self._writer.passes_data and frame.chunk is not None:
            self._refrain.learn(frame.data, frame.chunk)
        if frame.content and self.state is State.HOLDING:
            return self._commit() + data
        return data if self.state is State.COMMITTED else self._hold(data)

    def _done(self) -> bytes:
        """The stream is whole; reasoning that stays hidden and a content filter's refusal are answers too."""
        out = b""
        if self.state is State.HOLDING:
            hidden_reasoning = self.usage is not None and self.usage.reasoning > 0
            self.refused = self.finish_reason == "content_filter"
            if hidden_reasoning or self.refused:
                out = self._commit()
            else:
                self.no_answer = NoAnswer(OutcomeClass.EMPTY, "the upstream's stream held no content")
        self._move(Signal.DONE)
        return out

    def _hold(self, data: bytes) -> bytes:
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > self._max_held:
            self._fault(OutcomeClass.MALFORMED, "the upstream sent too much before its first content")
        return b""

    def _commit(self) -> bytes:
        self._move(Signal.CONTENT)
        out = b"".join(self._held)
        self._held.clear()
        return out

    def _fault(self, outcome_class: OutcomeClass, message: str) -> None:
        self._move(Signal.FAULT)
        self.no_answer = NoAnswer(outcome_class, message)

    def _move(self, signal: Signal) -> None:
        self.state = NEXT[self.state, signal]
