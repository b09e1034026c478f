"""What one dialect of clients knows, and the rest of the executor does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from executor.dialects.frames import Answer, Frame
from executor.model import Call, Failure, Spoken, Usage
from executor.problems import Problem
from executor.sse import Event


class StreamWriter(Protocol):
    """Writes one stream; it has a memory of what it wrote.

    It is told every event in order, held ones too, but for those that pass with only another text than the one before.
    """

    @property
    def passes_data(self) -> bool:
        """A frame's ``data``, where it has some, goes out as it is, as an event of one data line."""

    def event(self, event: Event, frame: Frame) -> bytes:
        """What the client gets of an upstream's event, read as ``frame``: whole events, or nothing."""

    def end(self, usage: Usage, cost_usd: float) -> bytes:
        """What a served stream ends with."""

    def error(self, failure: Failure) -> bytes:
        """What a stream ends with that broke after its first content."""


class Client(Protocol):
    """One dialect of clients. ``headers`` are the names of those that go on to an upstream of the same dialect."""

    @property
    def headers(self) -> frozenset[str]: ...

    def read(self, body: Mapping[str, Any]) -> Spoken | None:
        """The request in chat form; None when it is. Raises ServiceError INVALID_FIELD naming the field."""

    def answer(self, call: Call, answer: Answer) -> bytes:
        """The body of a whole answer."""

    def problem(self, problem: Problem) -> bytes:
        """The body of an error answer."""

    def writer(self, call: Call, *, as_it_is: bool) -> StreamWriter:
        """A writer for one stream; ``as_it_is`` when the upstream speaks the client's dialect."""
