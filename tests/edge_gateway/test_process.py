"""``python -m edge_gateway`` as an operator runs it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from omniroute.decision.v1 import decision_pb2
from omniroute.executor.v1 import executor_pb2
from omniroute.registry.v1.registry_pb2 import ApiKey
from tests.edge_gateway import fakes
from tests.edge_gateway.conftest import chat
from tests.edge_gateway.fakes import EDGE_TOKEN, FakeDecision, FakeExecutor

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def process(
    decision: FakeDecision, script: fakes.Script, **variables: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """The edge as a process of its own, and its port."""
    decision_server, executor_server = await decision.start(), await FakeExecutor(script).start()
    port = free_port()
    environ = {
        "PYTHONPATH": f"{ROOT}:{ROOT / 'protos/gen'}",
        "PATH": os.environ["PATH"],
        "OMNIROUTE_EDGE_PORT": str(port),
        "OMNIROUTE_EDGE_TOKEN": EDGE_TOKEN,
        "OMNIROUTE_DECISION_ADDRESS": f"127.0.0.1:{decision_server.port}",
        "OMNIROUTE_EXECUTOR_ADDRESS": f"127.0.0.1:{executor_server.port}",
    } | {f"OMNIROUTE_{name}": value for name, value in variables.items()}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "edge_gateway", env=environ, cwd=ROOT, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield child, port
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()
        await decision_server.stop(0)
        await executor_server.stop(0)


async def ready(port: int) -> None:
    async with asyncio.timeout(15), httpx.AsyncClient() as client:
        while True:
            try:
                if (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.05)


async def ended(child: asyncio.subprocess.Process) -> tuple[int, str]:
    """Exit status and what it said."""
    async with asyncio.timeout(15):
        _, said = await child.communicate()
    assert child.returncode is not None
    return child.returncode, said.decode()


async def refused_meanwhile(port: int) -> None:
    """While an edge ends, whoever sends something new is told to try again, elsewhere perhaps."""
    async with asyncio.timeout(5), httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        while (await client.get("/readyz")).status_code == 200:
            await asyncio.sleep(0.01)
        assert (await client.get("/readyz")).json()["checks"] == {"edge": "draining"}
        assert (await client.get("/healthz")).status_code == 200
        for path in ("/v1/chat/completions", "/v1/messages"):
            refused = await client.post(path, json=chat())
            assert refused.status_code == 503
            assert refused.json()["error"]["code"] == "shutting_down"
            assert (refused.headers["retry-after"], refused.headers["connection"]) == ("1", "close")


async def test_sigterm_lets_requests_end_and_outcomes_out() -> None:
    async def slow(request: executor_pb2.ExecuteRequest) -> AsyncIterator[fakes.Event]:
        for event in (fakes.stream_head(), *fakes.text_chunks(["Hel"])):
            yield event
        await asyncio.sleep(1.5)
        for event in (*fakes.text_chunks(["lo"]), fakes.DONE_LINE, fakes.outcome(), fakes.done()):
            yield event

    decision = FakeDecision()
    async with process(decision, slow) as (child, port):
        await ready(port)
        async with httpx.AsyncClient(timeout=10) as client:
            url = f"http://127.0.0.1:{port}/v1/chat/completions"
            async with client.stream("POST", url, json=chat("sensitive words", stream=True)) as answer:
                parts = answer.aiter_bytes()
                first = await anext(parts)
                child.terminate()
                await refused_meanwhile(port)
                rest = b"".join([part async for part in parts])
        assert b"[DONE]" in first + rest
        status, said = await ended(child)
    assert status == 0
    assert decision.outcomes[0].final
    assert '"event":"request"' in said
    assert '"decision_id":"d-1"' in said
    assert "sensitive" not in said
    assert EDGE_TOKEN not in said
    assert "Traceback" not in said


async def test_drain_is_bounded_and_cancelled_requests_are_reported() -> None:
    decision = FakeDecision()
    hang = fakes.then_hang(fakes.stream_head(), *fakes.text_chunks(["Hel"]))
    async with process(decision, hang, EDGE_DRAIN_MS="1000") as (child, port):
        await ready(port)
        async with httpx.AsyncClient(timeout=10) as client:
            url = f"http://127.0.0.1:{port}/v1/chat/completions"
            async with client.stream("POST", url, json=chat(stream=True)) as answer:
                parts = answer.aiter_bytes()
                await anext(parts)
                child.terminate()
                with pytest.raises(httpx.RemoteProtocolError):
                    await anext(parts)
        status, said = await ended(child)
    assert status == 0
    assert "Traceback" not in said
    [closing] = decision.outcomes
    assert closing.outcome_class == decision_pb2.OUTCOME_CLASS_LOCAL_CANCELLED
    assert closing.final


def occupied() -> dict[str, str]:
    return {"EDGE_PORT": "1", "EDGE_HOST": "203.0.113.1"}


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        (lambda: {"EDGE_HOST": "0.0.0.0"}, "omnictl keys create"),
        (lambda: {"EDGE_PORT": "http"}, "OMNIROUTE_EDGE_PORT: got 'http'"),
        (occupied, "OMNIROUTE_EDGE_HOST"),
    ],
    ids=["no keys", "bad port", "foreign address"],
)
async def test_refuses_to_start(variables: Callable[[], dict[str, str]], says: str) -> None:
    async with process(FakeDecision(), fakes.plain_answer(), **variables()) as (child, _):
        status, said = await ended(child)
    assert status == 2
    assert says in said
    assert "Traceback" not in said


async def test_listens_beyond_this_machine_once_there_is_a_key() -> None:
    decision = FakeDecision(keys={"sk": ApiKey(id="k")})
    async with process(decision, fakes.plain_answer(), EDGE_HOST="0.0.0.0") as (child, port):
        await ready(port)
        async with httpx.AsyncClient() as client:
            url = f"http://127.0.0.1:{port}/v1/chat/completions"
            assert (await client.post(url, json=chat())).status_code == 401
            assert (await client.post(url, json=chat(), headers={"authorization": "Bearer sk"})).status_code == 200
        child.terminate()
        assert (await ended(child))[0] == 0
