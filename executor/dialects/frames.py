"""What every dialect's translation speaks: prepared requests, whole answers and frames of a stream.

Inside the executor everything has the form of OpenAI's chat completions; see ``executor.dialects.chat``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from executor import sse
from executor.faults import Fault
from executor.model import Call, OutcomeClass, Target, Usage


class Untranslatable(Exception):
    """The dialect cannot say what the call asks for. Its text names the field; another target may still serve it."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request ready to be sent to ``base_url + path``.

    ``added`` names the body fields that are not the client's. A ``translated`` body is ours altogether, so that what
    the upstream says against its shape need not be the client's doing.
    """

    path: str
    body: bytes
    added: frozenset[str] = frozenset()
    translated: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. ``body`` is the JSON of a chat completion; ``usage`` is None when the upstream told none.

    ``own`` is the upstream's body as it came, where the client speaks the upstream's dialect; else empty.
    """

    body: bytes
    usage: Usage | None = None
    finish_reason: str = ""
    characters: int = 0  # of its output, to estimate tokens from
    refused: bool = False  # withheld by a content filter, and to be passed on as it is
    own: bytes = b""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """A success status without an answer behind it. Either the upstream says why (``fault``), or we saw it."""

    outcome_class: OutcomeClass
    message: str
    fault: Fault | None = None


class Frame(NamedTuple):
    """One event of a stream. ``chunk`` is what it says to the client, None when that is nothing.

    A tuple, because there is one for each token of every stream, and tuples are made three times as fast.
    """

    chunk: Mapping[str, Any] | None = None
    data: bytes = b""  # the chunk's JSON where the upstream sent it just so; empty: to be made of the chunk
    content: bool = False  # it holds text, reasoning or a tool call
    characters: int = 0
    usage: Usage | None = None
    told: Mapping[str, Any] | None = None  # the usage in the upstream's words, where they are OpenAI's
    finish_reason: str = ""
    fault: Fault | None = None
    broken: bool = False  # it should have been a chunk and cannot be read
    done: bool = False  # the upstream says that the stream is whole


class FrameReader(Protocol):
    """Reads one stream; it has a memory of what came before."""

    def read(self, event: sse.Event) -> Frame:
        """The next event, in OpenAI's terms."""


class Dialect(Protocol):
    """One wire dialect of upstreams."""

    def prepare(self, call: Call, target: Target) -> Prepared:
        """The client's call as this target must get it. Raises Untranslatable."""

    def read_answer(self, call: Call, body: bytes) -> Answer | NoAnswer:
        """Checks a whole answer that came with a success status."""

    def reader(self, call: Call) -> FrameReader:
        """A reader for one stream."""
