"""One of our own services is gone: clients are told at once when to come back, and it works again by itself."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import httpx
import orjson
import pytest

from tests.e2e.open_streams import Tap
from tests.e2e.stack import SETTLE_LIMIT_S, Answer, Stack, until

pytestmark = pytest.mark.asyncio(loop_scope="module")
AT_ONCE_S = 5.0


async def refused_at_once(stack: Stack, model: str) -> Answer:
    """A 503 that says when to come back, without a wait."""
    async with asyncio.timeout(AT_ONCE_S):
        served = await stack.chat(model)
    assert served.status == 503
    assert served.error["code"] == "service_unavailable"
    assert served.error["type"] == "server_error"
    assert int(served.headers["retry-after"]) >= 1
    return served


async def works_again(stack: Stack, model: str) -> Answer:
    async def served() -> Answer | None:
        answer = await stack.chat(model)
        assert answer.status in (200, 503)
        return answer if answer.status == 200 else None

    found: Answer = await until(served)
    return found


async def readiness(stack: Stack) -> dict[str, str]:
    served = await stack.get("/readyz")
    checks: dict[str, str] = served.json["checks"]
    assert (served.status == 200) == (set(checks.values()) == {"ok"})
    return checks


async def test_without_the_decision_service(stack: Stack) -> None:
    """A model that was not asked for before: no older plan could serve it."""
    ant, fresh = await stack.provider("ant"), await stack.provider("fresh")
    assert (await stack.chat(ant.model)).status == 200
    await stack.disconnect()
    await stack.decision.kill()
    await refused_at_once(stack, fresh.model)
    await until(lambda: _says(stack, "decision"))
    assert (await stack.get("/healthz")).status == 200
    await stack.decision.start()
    await stack.connect()
    served = await works_again(stack, fresh.model)
    assert await stack.settled(served.decision_id) == ["SUCCESS"]
    await until(lambda: _ready(stack))


async def test_without_the_executor(stack: Stack) -> None:
    ant = await stack.provider("ant")
    assert (await stack.chat(ant.model)).status == 200
    await stack.executor.kill()
    served = await refused_at_once(stack, ant.model)
    assert await stack.settled(served.decision_id) == ["LOCAL_CANCELLED"]
    breaker = (await stack.client.states("breaker"))[ant.name]
    assert (breaker.state, breaker.count) == ("CLOSED", 0)
    assert not await stack.client.states("lease")
    await until(lambda: _says(stack, "executor"))
    await stack.executor.start()
    await works_again(stack, ant.model)
    await until(lambda: _ready(stack))


async def _says(stack: Stack, service: str) -> bool:
    return (await readiness(stack))[service] != "ok"


async def _ready(stack: Stack) -> bool:
    return set((await readiness(stack)).values()) == {"ok"}


@asynccontextmanager
async def open_stream(stack: Stack, model: str) -> AsyncIterator[tuple[httpx.Response, AsyncIterator[bytes]]]:
    """A stream whose first content is here."""
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": True}
    async with stack.http.stream("POST", f"{stack.url}/v1/chat/completions", json=body) as response:
        parts = response.aiter_bytes()
        assert response.status_code == 200
        yield response, parts


async def rest_of(parts: AsyncIterator[bytes]) -> bytes:
    return b"".join([part async for part in parts])


async def test_an_executor_that_dies_in_mid_stream_is_told_in_the_stream(stack: Stack) -> None:
    tap = Tap()
    provided = await stack.provider("tap", tap)
    async with open_stream(stack, provided.model) as (response, parts):
        said = await anext(parts)
        await stack.executor.kill()
        said += await rest_of(parts)
    last = said.strip().split(b"\n\n")[-1].removeprefix(b"data: ")
    assert orjson.loads(last)["error"]["message"]
    assert b"[DONE]" not in said
    assert await stack.settled(response.headers["x-omniroute-decision-id"]) == ["LOCAL_CANCELLED"]
    tap.opened.set()
    await stack.executor.start()
    await works_again(stack, (await stack.provider("ant")).model)


async def test_an_outcome_waits_for_a_decision_service_that_is_away(stack: Stack) -> None:
    """The stream goes on; its outcome is delivered after the restart and kept once."""
    tap = Tap()
    provided = await stack.provider("tap", tap)
    async with open_stream(stack, provided.model) as (response, parts):
        said = await anext(parts)
        await stack.disconnect()
        await stack.decision.kill()
        tap.opened.set()
        said += await rest_of(parts)
    assert said.endswith(b"data: [DONE]\n\n")
    await stack.decision.start()
    await stack.connect()
    decision_id = response.headers["x-omniroute-decision-id"]
    database = stack.database

    async def kept() -> list[tuple[str, str]]:
        query = "SELECT provider, outcome_class FROM outcomes WHERE decision_id = ?"
        with closing(sqlite3.connect(database)) as connection:
            return connection.execute(query, (decision_id,)).fetchall()

    assert await until(kept) == [(provided.name, "SUCCESS")]


async def test_the_edge_drains_on_sigterm_and_serves_again(stack: Stack) -> None:
    """What is under way is finished; what comes is refused at once, in words that say to try again."""
    tap = Tap()
    provided, ant = await stack.provider("tap", tap), await stack.provider("ant")
    async with open_stream(stack, provided.model) as (response, parts):
        said = await anext(parts)
        ending = asyncio.create_task(stack.edge.terminate())
        await until(lambda: _refuses(stack, ant.model))
        refused = await stack.chat(ant.model)
        assert (refused.error["code"], refused.headers["retry-after"]) == ("shutting_down", "1")
        tap.opened.set()
        said += await rest_of(parts)
    assert said.endswith(b"data: [DONE]\n\n")
    async with asyncio.timeout(SETTLE_LIMIT_S):
        assert await ending == 0
    assert await stack.settled(response.headers["x-omniroute-decision-id"]) == ["SUCCESS"]
    await stack.edge.start()
    assert (await stack.chat(ant.model)).status == 200


async def test_the_executor_drains_on_sigterm(stack: Stack) -> None:
    """What is under way is finished; what comes is refused at once."""
    tap = Tap()
    provided, ant = await stack.provider("tap", tap), await stack.provider("ant")
    async with open_stream(stack, provided.model) as (response, parts):
        said = await anext(parts)
        ending = asyncio.create_task(stack.executor.terminate())
        await until(lambda: _refuses(stack, ant.model))
        tap.opened.set()
        said += await rest_of(parts)
    assert said.endswith(b"data: [DONE]\n\n")
    async with asyncio.timeout(SETTLE_LIMIT_S):
        assert await ending == 0
    assert await stack.settled(response.headers["x-omniroute-decision-id"]) == ["SUCCESS"]
    await stack.executor.start()
    await works_again(stack, ant.model)


async def _refuses(stack: Stack, model: str) -> bool:
    return (await stack.chat(model)).status == 503


async def test_no_log_holds_a_stack(stack: Stack) -> None:
    """After all of that."""
    for service in stack.services:
        assert "Traceback" not in service.said
        assert not re.search(r'"level": ?"(error|critical)"', service.said), service.said[-3000:]
