"""Client programs as a test speaks to them: each runs once, in the environment that its client is installed in."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson
import pytest

from tests.clients.heard import Heard

ROOT = Path(__file__).parents[2]
OWN, OTHERS = Path(sys.executable), ROOT / ".venv-clients" / "bin" / "python"
STARTED_S = 100.0  # an import of LiteLLM's on a busy machine, the first time

# By the name of a program: the interpreter that has its client.
PROGRAMS: Mapping[str, Path] = MappingProxyType(
    {
        "openai_chat": OWN,
        "openai_responses": OWN,
        "anthropic_messages": OWN,
        "langchain_chat": OTHERS,
        "langchain_messages": OTHERS,
        "litellm_client": OTHERS,
        "llm_command": OTHERS,
    }
)
QUIET = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False", "LANGSMITH_TRACING": "false"}


class Speakers:
    """The programs of one stack. Each starts at its first question."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._running: dict[str, asyncio.subprocess.Process] = {}

    async def ask(self, program: str, do: str = "talk", **question: Any) -> Heard:
        """What the program's client heard. A program that dies has its last words in the failure."""
        process = self._running.get(program) or await self._start(program)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(orjson.dumps({"do": do, "url": self._url, **question}) + b"\n")
        try:
            async with asyncio.timeout(STARTED_S):
                line = await process.stdout.readline()
        except TimeoutError:
            line = b""
        if not line:  # it is stuck or dead; the next question goes to a new one
            await self._end(self._running.pop(program))
        assert line, self._log(program).read_text()[-4_000:]
        return Heard(**orjson.loads(line))

    async def _start(self, program: str) -> asyncio.subprocess.Process:
        if not PROGRAMS[program].exists():
            pytest.skip(f"{OTHERS} is not there: make test installs it")
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        with self._log(program).open("wb") as log:
            self._running[program] = await asyncio.create_subprocess_exec(
                PROGRAMS[program],
                "-m",
                f"tests.clients.programs.{program}",
                cwd=ROOT,
                env={**kept, **QUIET, "HOME": str(self._folder)},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        return self._running[program]

    def _log(self, program: str) -> Path:
        return self._folder / f"{program}.log"

    async def close(self) -> None:
        for process in self._running.values():
            await self._end(process)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def speaking(url: str, folder: Path) -> AsyncIterator[Speakers]:
    speakers = Speakers(url, folder)
    try:
        yield speakers
    finally:
        await speakers.close()
