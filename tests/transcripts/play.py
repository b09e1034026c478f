"""Transcripts on disk, and what they would be now."""

from __future__ import annotations

from pathlib import Path

from decision_service.kernel.model import Refused
from service_kit.errors import ServiceError
from tests.transcripts.language import Command, replayed
from tests.transcripts.stage import Stage

HERE = Path(__file__).parent


def scripts() -> list[Path]:
    return sorted(HERE.glob("*.txt"))


def played(path: Path) -> str:
    """A transcript with the output that its commands give now. Raises ValueError, naming the line."""
    stage = Stage()

    def run(command: Command) -> list[str]:
        try:
            return list(stage.run(command))
        except (ServiceError, Refused) as error:
            raise ValueError(error.message) from error

    return replayed(path.read_text(), run)
