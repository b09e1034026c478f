"""What every dialect's translation speaks: prepared requests, whole answers and frames of a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from executor import sse
from executor.faults import Fault
from executor.model import Call, OutcomeClass, Target, Usage


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request ready to be sent to ``base_url + path``. ``added`` names the body fields that are not the client's."""

    path: str
    body: bytes
    added: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer as the client may get it; ``usage`` is None when the upstream told none."""

    body: bytes
    usage: Usage | None = None
    finish_reason: str = ""
    characters: int = 0  # of its output, to estimate tokens from
    refused: bool = False  # withheld by a content filter, and to be passed on as it is


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """A success status without an answer behind it. Either the upstream says why (``fault``), or we saw it."""

    outcome_class: OutcomeClass
    message: str
    fault: Fault | None = None


class Frame(NamedTuple):
    """One event of a stream. ``data`` is the chunk's JSON for the client, empty when it gets nothing of it.

    A tuple, because there is one for each token of every stream, and tuples are made three times as fast.
    """

    data: bytes = b""
    content: bool = False  # it holds text, reasoning or a tool call
    characters: int = 0
    usage: Usage | None = None
    finish_reason: str = ""
    fault: Fault | None = None
    broken: bool = False  # it should have been a chunk and cannot be read
    done: bool = False  # the upstream says that the stream is whole


class FrameReader(Protocol):
    """Reads one stream; it has a memory of what came before."""

    def read(self, event: sse.Event) -> Frame:
        """The next event, in OpenAI's terms."""

    def usage_chunk(self, usage: Usage, cost_usd: float) -> bytes:
        """The JSON of the chunk that tells the usage, in the likeness of the stream's own chunks."""


class Dialect(Protocol):
    """One wire dialect of upstreams."""

    def prepare(self, call: Call, target: Target) -> Prepared:
        """The client's call as this target must get it."""

    def read_answer(self, call: Call, body: bytes) -> Answer | NoAnswer:
        """Checks a whole answer that came with a success status."""

    def reader(self) -> FrameReader:
        """A reader for one stream."""

    def as_stream(self, body: bytes) -> list[bytes]:
        """A whole answer as the JSON of the chunks that ``reader`` reads; ``body`` has passed ``read_answer``."""
