"""The checks are run as they stand, in the test's process; what they print is what the test reads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest
import uvloop

from tests.smoke.__main__ import main
from tests.smoke.checks import FAILED, OK, SKIPPED
from tests.smoke.table import COLUMNS


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the services run on."""
    return {"uvloop": uvloop.new_event_loop}


@dataclass(frozen=True)
class Printed:
    """How a run ended, and all that it printed."""

    status: int
    text: str

    @property
    def rows(self) -> dict[tuple[str, str], dict[str, str]]:
        """The rows of the table by what was checked and asked; a row is its cells by column."""
        lines = self.text.splitlines()
        [at] = [place for place, line in enumerate(lines) if line.startswith("check ")]
        starts = [lines[at].index(column) for column in COLUMNS]
        ends = [*starts[1:], None]
        cells = [[line[start:end].strip() for start, end in zip(starts, ends, strict=True)] for line in lines[at + 2 :]]
        rows = [dict(zip(COLUMNS, each, strict=True)) for each in cells]
        return {(row["check"], row["asked"]): row for row in rows if row["result"] in (OK, FAILED, SKIPPED)}

    @property
    def results(self) -> dict[tuple[str, str], str]:
        return {name: row["result"] for name, row in self.rows.items()}


Run = Callable[[Sequence[str], Mapping[str, str]], Awaitable[Printed]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the program with these arguments and nothing but this environment beside the path."""

    async def ran(arguments: Sequence[str], environ: Mapping[str, str]) -> Printed:
        capsys.readouterr()
        status = await main(arguments, {"PATH": os.environ["PATH"], **environ})
        printed = capsys.readouterr()
        return Printed(status, printed.out + printed.err)

    return ran
