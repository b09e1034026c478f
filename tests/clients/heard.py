"""What every client program shares: questions come as lines of JSON, and what the client heard goes back as others.

It is run by the interpreter of each client's own environment, and needs nothing but Python.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

FOUND = "underground, mostly"
LOOK_UP = "look_up"
DESCRIPTION = "Looks something up."
PARAMETERS: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
ROUNDS = 3
LIMIT_S = 30.0

Question = dict[str, Any]


@dataclass
class Heard:
    """All that a client was told: text, calls as name and arguments, tokens in and out, an error in its own words."""

    text: str = ""
    calls: list[str] = field(default_factory=list)
    usage: Sequence[int] = (0, 0)
    error: dict[str, Any] = field(default_factory=dict)
    value: Any = None

    def call(self, name: str, arguments: Any) -> None:
        """A call, with its arguments as a text or as the client read them."""
        read = json.loads(arguments) if isinstance(arguments, str) else arguments
        self.calls.append(f"{name}{json.dumps(read, separators=(',', ':'))}")

    @contextmanager
    def erring(self, *kinds: type[Exception]) -> Iterator[None]:
        """Keeps the first error of these kinds; any other one is the program's own fault and ends it."""
        try:
            yield
        except kinds as error:
            told = {name: getattr(error, name, None) for name in ("status_code", "code")}
            self.error = {"kind": type(error).__name__, "message": str(error), **told}


RUNNER = asyncio.Runner()


def now(found: Any) -> Any:
    """What a client's method gave, of a client that waits and of one that is awaited alike."""
    if hasattr(found, "__await__"):
        return RUNNER.run(_awaited(found))
    if hasattr(found, "__aenter__"):
        return now(found.__aenter__())
    if hasattr(found, "__enter__"):
        return found.__enter__()
    return found


def each(items: Any) -> Iterator[Any]:
    """What a stream gives, of both kinds; of one that is both, as of one to be awaited."""
    if not hasattr(items, "__aiter__"):
        yield from items
        return
    while True:
        try:
            yield RUNNER.run(_awaited(anext(items)))
        except StopAsyncIteration:
            return


async def _awaited(found: Any) -> Any:
    return await found


Answer = Callable[[Question], Heard]


def serve(answers: Mapping[str, Answer]) -> None:
    """Answers questions by their ``do`` until there are no more. What a client prints by itself goes to stderr."""
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        question = json.loads(line)
        told.write(json.dumps(asdict(answers[question["do"]](question))) + "\n")
        told.flush()
