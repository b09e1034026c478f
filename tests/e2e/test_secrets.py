"""The credential of a connection reaches its provider and nobody else."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from omniroute.decision.v1 import decision_pb2
from omniroute.registry.v1 import registry_pb2
from tests.e2e.stack import Provided, Stack, good, running
from tests.executor.upstream import (
    ROLE,
    Connection,
    Received,
    Script,
    answer,
    close_at_once,
    delta,
    error_body,
    event,
    hang,
    stream,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """One that says as much as it can."""
    async with running(tmp_path_factory.mktemp("stack"), OMNIROUTE_LOG_LEVEL="debug") as stack:
        yield stack


SECRET = "sk-e2e-Zq81_hush-0123456789"
LEAKY = f"Incorrect API key provided: {SECRET}. You sent Authorization: Bearer {SECRET}"


async def mirror(received: Received, connection: Connection) -> None:
    """An upstream that shows in its error all that it was sent."""
    shown = {**error_body(str(dict(received.headers))), "headers": dict(received.headers)}
    await answer(500, shown, {"x-echo": received.headers["authorization"]})(received, connection)


SCRIPTS: dict[str, Script] = {
    "good": good,
    "401": answer(401, error_body(LEAKY, code="invalid_api_key"), {"x-request-id": SECRET}),
    "400": answer(400, error_body(LEAKY, type="invalid_request_error", param=SECRET)),
    "403 that is no JSON": answer(403, LEAKY.encode(), {"content-type": "text/plain"}),
    "500 with everything": mirror,
    "429": answer(429, error_body(LEAKY, type=SECRET), {"retry-after": "60"}),
    "302": answer(302, b"", {"location": f"http://127.0.0.1:1/?key={SECRET}"}),
    "error event": stream(ROLE, event(error_body(LEAKY))),
    "error event after content": stream(ROLE, event(delta("Hel")), event(error_body(LEAKY, code=SECRET))),
    "closes": close_at_once,
    "hangs": hang,
}


async def provided_with_key(stack: Stack, script: Script) -> Provided:
    return await stack.provider("keyed", script, api_key=SECRET, provider_class="api_key")


async def everything_said(stack: Stack) -> str:
    """Logs, metrics, and what the gRPC services show."""
    logs = [service.said for service in stack.services]
    urls = [f"http://127.0.0.1:{service.ready_port}/metrics" for service in stack.services]
    figures = [(await stack.http.get(url)).text for url in urls]
    client = stack.client
    shown: list[Any] = [
        await client.connections.ListConnections(registry_pb2.ListConnectionsRequest()),
        await client.catalog.ListProviders(registry_pb2.ListProvidersRequest(custom_only=True)),
        await client.machines.ListStates(registry_pb2.ListStatesRequest(page_size=1000)),
        await client.decisions.ListDecisions(decision_pb2.ListDecisionsRequest(page_size=1000)),
    ]
    return "\n".join([*logs, *figures, *map(str, shown)])


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
async def test_a_key_stays_between_executor_and_provider(stack: Stack, script: Script, streamed: bool) -> None:
    keyed = await provided_with_key(stack, script)
    combo = await stack.combo(keyed, targetTimeoutMs=500, maxRetries=0)
    served = await stack.chat(combo, stream=streamed)
    await stack.settled(served.decision_id)
    assert {received.headers["authorization"] for received in keyed.upstream.requests} == {f"Bearer {SECRET}"}
    told = served.body.decode() + str(served.headers) + str(await stack.record(served.decision_id))
    assert SECRET not in told
    assert SECRET[8:] not in told


async def test_nothing_that_the_processes_ever_said_holds_the_key(stack: Stack) -> None:
    """Runs after the tests above, whose traces it looks through."""
    keyed = await provided_with_key(stack, good)
    assert (await stack.chat(keyed.model)).status == 200
    said = await everything_said(stack)
    assert keyed.connection in said
    for part in (SECRET, SECRET[8:]):
        assert part not in said
    assert "Traceback" not in said


async def test_a_reference_is_read_by_the_executor_alone(stack: Stack, tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text(f"{SECRET}-from-a-file\n")
    keyed = await stack.provider("filed")
    given = registry_pb2.Connection(id=f"{keyed.name}-2", provider=keyed.name, models=[f"{keyed.name}-model"])
    given.credential.reference = f"file:{secret}"
    request = registry_pb2.CreateConnectionRequest(connection=given)
    await stack.client.connections.CreateConnection(request, timeout=10)
    step = registry_pb2.ComboStep(model=keyed.model, connection_id=f"{keyed.name}-2")
    await stack.client.add_combo("filed", [step])
    served = await stack.chat("filed")
    assert served.status == 200
    assert keyed.upstream.requests[0].headers["authorization"] == f"Bearer {SECRET}-from-a-file"
    assert f"{SECRET}-from-a-file" not in await everything_said(stack)


async def test_the_words_of_a_conversation_are_in_no_log(stack: Stack) -> None:
    scripts = (good, answer(500, error_body()), hang, close_at_once)
    for number, (script, streamed) in enumerate(itertools.product(scripts, (False, True))):
        provided = await stack.provider("quiet", script)
        combo = await stack.combo(provided, targetTimeoutMs=300, maxRetries=0)
        await stack.chat(combo, f"confidential-{number}", stream=streamed)
    assert "confidential" not in await everything_said(stack)
