"""All dialects against an independent imitation of the vendors, an npm package that this project does not hold."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from executor.model import ClientDialect
from omniroute.decision.v1 import decision_pb2
from tests.executor.conftest import House, target
from tests.executor.dialects.streams import heard, payloads
from tests.executor.dialects.test_served import MODELS, asked

pytestmark = [pytest.mark.full, pytest.mark.timeout(180)]

PACKAGE = "@copilotkit/aimock@1"
CALLS = [{"name": "get_weather", "arguments": '{"location":"Paris"}'}, {"name": "get_time", "arguments": "{}"}]
FIXTURES: list[dict[str, Any]] = [
    {"match": {"userMessage": "weather"}, "response": {"toolCalls": CALLS}},
    {"match": {"userMessage": "think"}, "response": {"content": "Hello", "reasoning": "Let me see."}},
    {
        "match": {"userMessage": "busy"},
        "response": {"error": {"message": "Overloaded", "type": "overloaded_error"}, "status": 529},
    },
    {
        "match": {"userMessage": "slow"},
        "response": {"error": {"message": "Slow down", "type": "rate_limit_error"}, "status": 429},
    },
    {
        "match": {"userMessage": "cut"},
        "response": {"content": "Hello there, on and on"},
        "chunkSize": 3,
        "truncateAfterChunks": 5,
        "latency": 30,
    },
    {"match": {"userMessage": "hello"}, "response": {"content": "Hello, wörld 😀"}, "chunkSize": 4},
]
BASES = {"openai": "/v1", "anthropic": "/v1", "gemini": "/v1beta"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, in a directory of this run."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not here")
    return tmp_path_factory.mktemp("aimock")


@pytest.fixture
async def vendors(installed: Path) -> AsyncIterator[str]:
    """The address of the imitated vendors."""
    program = installed / "node_modules" / ".bin" / "llmock"
    if not program.exists() and await finished("npm", "install", "--prefix", str(installed), "--no-audit", PACKAGE):
        pytest.skip("npm's registry cannot be reached")
    (installed / "fixtures").mkdir(exist_ok=True)
    (installed / "fixtures" / "all.json").write_bytes(orjson.dumps({"fixtures": FIXTURES}))
    process = await asyncio.create_subprocess_exec(
        str(program), "-p", "0", "-f", str(installed / "fixtures"), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(20):
            while (match := re.search(rb"http://[\d.]+:\d+", await process.stdout.readline())) is None:
                pass
        yield match[0].decode()
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 10)


async def finished(*command: str) -> int:
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    try:
        return await asyncio.wait_for(process.wait(), 120)
    except TimeoutError:
        process.kill()
        return -1


def asking(client: ClientDialect, text: str) -> dict[str, Any]:
    if client is ClientDialect.OPENAI_RESPONSES:
        return {"input": text}
    return {"messages": [{"role": "user", "content": text}]}


def speaking(vendors: str, dialect: str, name: str = "t0") -> decision_pb2.Target:
    return target(vendors + BASES[dialect], name, dialect=dialect, model=MODELS[dialect])


async def test_every_client_hears_every_vendor(house: House, vendors: str) -> None:
    for client in ClientDialect:
        for dialect in BASES:
            for text in ("hello", "think", "weather"):
                body = {**asking(client, text), "stream": True}
                got = await asked(house, client, [speaking(vendors, dialect)], body)
                told = heard(client, payloads(got.data))
                case = (client, dialect, text)
                assert got.classes == ["SUCCESS"], case
                assert told.text == {"hello": "Hello, wörld 😀", "think": "Hello", "weather": ""}[text], case
                assert told.thinking == ("Let me see." if text == "think" else ""), case
                calls = [(name, orjson.loads(arguments or "{}")) for _, name, arguments in told.tools]
                wanted = [("get_weather", {"location": "Paris"}), ("get_time", {})] if text == "weather" else []
                assert calls == wanted, case
                whole = await asked(house, client, [speaking(vendors, dialect)], asking(client, text))
                assert whole.classes == ["SUCCESS"], case


async def test_errors_of_every_vendor(house: House, vendors: str) -> None:
    for dialect in BASES:
        for text, outcome_class in (("busy", "OVERLOADED"), ("slow", "RATE_LIMITED")):
            got = await asked(
                house, ClientDialect.OPENAI_CHAT, [speaking(vendors, dialect)], asking(ClientDialect.OPENAI_CHAT, text)
            )
            assert set(got.classes) == {outcome_class}, (dialect, text)


async def test_a_stream_that_is_cut(house: House, vendors: str) -> None:
    for client in ClientDialect:
        for dialect in BASES:
            got = await asked(house, client, [speaking(vendors, dialect)], {**asking(client, "cut"), "stream": True})
            assert got.classes == ["INTERRUPTED"], (client, dialect)
