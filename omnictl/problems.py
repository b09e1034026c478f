"""How a command ends when it cannot do what was asked: one line for the person, and an exit status."""

from __future__ import annotations

FAILED, WRONG_USAGE = 1, 2


class CommandError(Exception):
    """``message`` says what went wrong, ``advice`` what to do next; ``status`` is the exit status of the process."""

    def __init__(self, message: str, advice: str = "", *, status: int = FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice
        self.status = status

    def line(self) -> str:
        """The whole text on one line, whatever the parts hold."""
        parts = (" ".join(part.split()) for part in (self.message, self.advice) if part)
        return "omnictl: " + printable(" - ".join(parts))


def wrong_usage(message: str, advice: str = "") -> CommandError:
    """What was typed or given in a file cannot be understood."""
    return CommandError(message, advice, status=WRONG_USAGE)


def printable(text: str) -> str:
    """The text without anything that a terminal would obey."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)
