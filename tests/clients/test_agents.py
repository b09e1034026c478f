"""Agents of other makers, configured as their page says, do one task each: Codex, opencode, aider."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio

from tests.clients.shapes import calling
from tests.docs import pages
from tests.e2e.stack import Provided, Stack
from tests.executor.shapes.plans import says
from tests.executor.upstream import Connection, Received

LIMIT_S = 150.0
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.full, pytest.mark.timeout(LIMIT_S + 30)]

INSTALLED = pages.ROOT / ".venv-agents"
TASK = "Write the word ants into found.txt"
SHELLS = {"shell", "bash", "exec_command", "shell_command"}
DONE = "All of it is done."


def tool(name: str) -> Path:
    """Its command, once ``make clients-full`` has installed it."""
    found = INSTALLED / ("aider/bin" if name == "aider" else "node_modules/.bin") / name
    if not found.exists():
        pytest.skip(f"{name} is not installed: make clients-full")
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ant(stack: Stack) -> Provided:
    """The one provider, which `auto` finds."""
    return await stack.provider("ant", writes_once, context_window=200_000)


def block(stack: Stack, language: str) -> str:
    """The one block of the page in this language, for the gateway of the test."""
    [found] = [block.text for block in pages.blocks(pages.DOCS / "clients.md") if block.language == language]
    return found.replace("20128", str(stack.edge_port))


async def run(folder: Path, *command: str | Path, **variables: str) -> str:
    """What an agent said, which must have ended well."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(home), **variables},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, said.decode()[-4_000:]
    return said.decode()


async def writes_once(received: Received, connection: Connection) -> None:
    """Calls the agent's shell, if it has one, and is content with whatever came of it."""
    called = any(message["role"] == "tool" for message in received.body["messages"])
    functions: list[dict[str, Any]] = [each["function"] for each in received.body.get("tools", ())]
    shells = [function for function in functions if function["name"] in SHELLS]
    script = says(DONE) if called or not shells else calling(shells[0]["name"], arguments(shells[0]))
    await script(received, connection)


def arguments(function: dict[str, Any]) -> str:
    """For any of their shells: some take words, some a line, some want to be told what it is for."""
    known = function["parameters"]["properties"]
    line = "echo ants > found.txt"
    named = [name for name in ("cmd", "command") if name in known]
    command = {name: ["bash", "-c", line] if known[name].get("type") == "array" else line for name in named}
    return orjson.dumps(command | ({"description": "writes"} if "description" in known else {})).decode()


def told_result(ant: Provided) -> bool:
    """Whether the provider heard, in its last request, what came of its call."""
    return any(message["role"] == "tool" for message in ant.upstream.requests[-1].body["messages"])


async def test_codex(stack: Stack, ant: Provided, tmp_path: Path) -> None:
    codex, home = tool("codex"), tmp_path / "codex"
    ant.plays(writes_once)
    home.mkdir()
    (home / "config.toml").write_text(block(stack, "toml"))
    options = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
    said = await run(tmp_path, codex, "exec", *options, TASK, CODEX_HOME=str(home), OMNIROUTE_API_KEY="none")
    assert said.strip().endswith(DONE)
    assert (tmp_path / "found.txt").read_text() == "ants\n"
    assert told_result(ant)


async def test_opencode(stack: Stack, ant: Provided, tmp_path: Path) -> None:
    opencode = tool("opencode")
    ant.plays(writes_once)
    (tmp_path / "opencode.json").write_text(block(stack, "json"))
    said = await run(tmp_path, opencode, "run", "--auto", TASK, OPENCODE_DISABLE_AUTOUPDATE="1")
    assert said.strip().endswith(DONE)
    assert (tmp_path / "found.txt").read_text() == "ants\n"
    assert told_result(ant)


async def test_aider(stack: Stack, ant: Provided, tmp_path: Path) -> None:
    aider = tool("aider")
    ant.plays(says("found.txt\n```\nants\n```\n"))
    found = tmp_path / "found.txt"
    found.write_text("bees\n")
    quiet = ("--yes-always", "--no-git", "--no-check-update", "--no-show-model-warnings", "--no-analytics")
    more = ("--edit-format", "whole", "--no-stream", "--message", TASK, found)
    await run(
        tmp_path,
        aider,
        "--model=openai/auto",
        *quiet,
        *more,
        OPENAI_API_BASE=f"{stack.url}/v1",
        OPENAI_API_KEY="none",
        LITELLM_LOCAL_MODEL_COST_MAP="True",
    )
    assert found.read_text() == "ants\n"
