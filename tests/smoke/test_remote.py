"""smoke-remote against services that run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

import pytest
import pytest_asyncio

from tests.decision_service.process import free_ports
from tests.e2e.stack import Provided, Stack, good, running
from tests.executor.upstream import Script, answer, error_body, hang
from tests.smoke.checks import OK, Checks, Row
from tests.smoke.conftest import Run
from tests.smoke.failover import failover
from tests.smoke.gateway import Gateway, connected
from tests.smoke.stand_in import obliging

pytestmark = pytest.mark.asyncio(loop_scope="module")
KINDS = ("plain", "stream", "tools")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    async with running(tmp_path_factory.mktemp("smoke")) as stack:
        await stack.provider("good", obliging)
        yield stack


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(stack: Stack) -> AsyncIterator[Gateway]:
    async with connected(stack.url) as gateway:
        yield gateway


@asynccontextmanager
async def lent(stack: Stack, gateway: Gateway, word: str, *scripts: Script) -> AsyncIterator[Provided]:
    """A provider that no later test meets in `auto`."""
    provided = await stack.provider(word, *scripts)
    try:
        yield provided
    finally:
        await gateway.operate("DELETE", f"/api/connections/{provided.connection}")


async def stored(gateway: Gateway) -> dict[str, list[str]]:
    """The ids of all that failing over might leave behind."""
    found = {kind: await gateway.operate("GET", f"/api/{kind}") for kind in ("combos", "connections")}
    found["providers"] = await gateway.operate("GET", "/api/providers?custom_only=true")
    return {kind: [each["id"] for each in listed[kind]] for kind, listed in found.items()}


async def test_services_without_keys_pass_and_are_left_as_they_were(stack: Stack, gateway: Gateway, run: Run) -> None:
    before = await stored(gateway)
    printed = await run(["remote", "--failover", f"{stack.url}/v1/"], {})
    assert printed.status == 0, printed.text
    expected = [("models", "-"), *((kind, "auto") for kind in KINDS), ("plain", "auto/fast"), ("plain", "auto/cheap")]
    assert list(printed.results.items())[:-1] == [(name, "ok") for name in expected]
    *_, last = printed.rows.values()
    assert (last["check"], last["result"], last["provider"], last["attempts"]) == ("failover", "ok", "good1", "2")
    assert await stored(gateway) == before


async def test_without_being_asked_to_it_stores_nothing(stack: Stack, run: Run) -> None:
    printed = await run(["remote", stack.url], {})
    assert printed.status == 0
    assert "failover" not in printed.text


async def test_a_broken_provider_and_one_without_tools_are_told_apart(stack: Stack, run: Run) -> None:
    broken = await stack.provider("broken", answer(500, error_body("out of order")))
    plain = await stack.provider("plain", capabilities=["-tools"])
    printed = await run(["remote", "--model", broken.model, "--model", plain.model, stack.url], {})
    assert printed.status == 1
    assert [printed.results[kind, plain.model] for kind in KINDS] == ["ok", "ok", "skipped"]
    assert [printed.results[kind, broken.model] for kind in KINDS] == ["FAILED"] * 3
    assert "out of order" in printed.rows["plain", broken.model]["note"]
    assert [printed.results[kind, "auto"] for kind in KINDS] == ["ok"] * 3
    assert "3 failed, 1 skipped" in printed.text


async def test_answers_that_are_not_right_fail(stack: Stack, gateway: Gateway, run: Run) -> None:
    """A model that talks instead of calling the tool."""
    async with lent(stack, gateway, "talker", good) as talker:
        printed = await run(["remote", "--model", talker.model, stack.url], {})
    assert printed.status == 1
    assert printed.rows["tools", talker.model]["note"] == "0 calls of nothing"
    assert printed.rows["tools", talker.model]["provider"] == talker.name


async def test_what_was_stored_goes_away_when_a_run_is_stopped(stack: Stack, gateway: Gateway) -> None:
    async with lent(stack, gateway, "sleeper", hang) as sleeper:
        before = await stored(gateway)
        able = {"provider": sleeper.name, "model": f"{sleeper.name}-model"}
        checks = Checks(gateway, 8, perf_counter() + 30)
        task = asyncio.create_task(failover(checks, [Row("plain", "auto", OK, 0.0, headers=able)]))
        async with asyncio.timeout(20):
            while not sleeper.upstream.requests:
                assert not task.done()
                await asyncio.sleep(0.02)
            assert await stored(gateway) != before
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await stored(gateway) == before


async def test_nobody_there_is_one_row(run: Run) -> None:
    [port] = free_ports(1)
    printed = await run(["remote", "--failover", f"http://127.0.0.1:{port}"], {"OMNIROUTE_API_KEY": "of-nobody"})
    assert (printed.status, printed.results) == (1, {("models", "-"): "FAILED"})


async def test_keys(stack: Stack, gateway: Gateway, run: Run) -> None:
    """The last one here: from the first stored key on the services want one."""
    operator = await key(gateway, "operator", "inference", "admin")
    async with connected(stack.url, operator) as administered:
        client = await key(administered, "client", "inference")

    without = await run(["remote", "--failover", stack.url], {})
    assert without.status == 0
    [line] = without.text.splitlines()
    assert line.startswith("smoke-remote: nothing is checked: the gateway wants an API key, and OMNIROUTE_API_KEY")

    wrong = await run(["remote", "--failover", stack.url], {"OMNIROUTE_API_KEY": "not-one-of-its-keys"})
    assert (wrong.status, wrong.results) == (1, {("models", "-"): "FAILED"})
    assert "401 invalid_api_key" in wrong.text
    assert "not-one-of-its-keys" not in wrong.text

    may_not = await run(["remote", "--failover", stack.url], {"OMNIROUTE_API_KEY": client})
    assert may_not.status == 1
    assert [check for (check, _), result in may_not.results.items() if result == "FAILED"] == ["failover"]
    assert "403 forbidden" in may_not.text
    assert client not in may_not.text

    may = await run(["remote", "--failover", stack.url], {"OMNIROUTE_API_KEY": operator})
    assert (may.status, set(may.results.values())) == (0, {"ok"})
    assert operator not in may.text


async def key(gateway: Gateway, name: str, *scopes: str) -> str:
    made: dict[str, Any] = await gateway.operate("POST", "/api/keys", {"id": name, "name": name, "scopes": scopes})
    return str(made["secret"])
