"""The form of a transcript: commands behind ``>``, what they put out beneath, and remarks behind ``#``.

A line that begins with ``>`` and two blanks belongs to the command above it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

PROMPT, MORE, REMARK = "> ", ">  ", "#"


@dataclass(slots=True)
class Command:
    """A command's words, and those of each line that belongs to it. ``given`` is how it is written."""

    line: int
    words: Sequence[str]
    given: list[str]
    more: list[Sequence[str]] = field(default_factory=list)


def parse(text: str) -> Iterator[Command | str]:
    """Commands, remarks and blank lines in order; what the commands put out is left out."""
    command: Command | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if command is not None and line.startswith(MORE):
            command.more.append(shlex.split(line[1:]))
            command.given.append(line)
            continue
        if line.startswith((PROMPT, REMARK)) or not line.strip():
            if command is not None:
                yield command
                command = None
            if line.startswith(PROMPT):
                command = Command(number, shlex.split(line[1:]), [line])
            else:
                yield line
    if command is not None:
        yield command


def replayed(text: str, run: Callable[[Command], Iterable[str]]) -> str:
    """The transcript with what its commands put out now. Raises ValueError, naming the line."""
    lines: list[str] = []
    for part in parse(text):
        if isinstance(part, str):
            lines.append(part)
            continue
        try:
            lines += [*part.given, *run(part)]
        except (ValueError, KeyError) as error:
            raise ValueError(f"line {part.line}: {error}") from error
    return "\n".join(line.rstrip() for line in lines) + "\n"
