"""A client that hangs up: the upstream is left at once, and nobody is blamed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from statistics import median

import orjson
import pytest

from omniroute.decision.v1 import decision_pb2
from tests.e2e.stack import Provided, Stack, until
from tests.executor.upstream import (
    ROLE,
    Connection,
    Received,
    Script,
    answer,
    chunked,
    delta,
    error_body,
    event,
    hang,
    head,
    stream,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
TRIES = 15
LIMIT_S = 10.0
USUAL_S, WORST_S = 0.1, 1.0  # the worst is for a machine that is busy with other things

TALKS = stream(ROLE, event(delta("Hel")), end="hang")


async def talks_without_end(_received: Received, connection: Connection) -> None:
    await connection.send(head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"}))
    with suppress(RuntimeError):  # it is a socket's way to say that it was closed in this moment
        while not connection.gone.is_set():
            await connection.send(chunked(event(delta("lo"))))
            await asyncio.sleep(0.002)
    await connection.gone.wait()


class Caller:
    """A client that is a bare socket, so that a test can say how it leaves."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    async def call(self, model: str, *, streamed: bool) -> None:
        body = orjson.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": streamed})
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._stack.edge_port)
        headers = f"host: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.writer.write(f"POST /v1/chat/completions HTTP/1.1\r\n{headers}\r\n".encode() + body)
        await self.writer.drain()

    async def hears(self, words: bytes) -> bytes:
        """What came, up to these words."""
        async with asyncio.timeout(LIMIT_S):
            return await self.reader.readuntil(words)

    def reset(self) -> None:
        self.writer.transport.abort()

    def close(self) -> None:
        self.writer.close()


async def left_after_s(stack: Stack, provided: Provided, *, streamed: bool, abruptly: bool, words: bytes) -> float:
    """Seconds from the client's leaving to the moment at which the upstream sees its connection close."""
    served = len(provided.upstream.requests)
    caller = Caller(stack)
    await caller.call(provided.model, streamed=streamed)
    if words:
        await caller.hears(words)
    async with asyncio.timeout(LIMIT_S):
        while len(provided.upstream.requests) == served:
            await asyncio.sleep(0.005)
    connection = provided.upstream.connections[-1]
    if not words:
        await asyncio.sleep(0.05)
    began = asyncio.get_running_loop().time()
    if abruptly:
        caller.reset()
    else:
        caller.close()
    async with asyncio.timeout(LIMIT_S):
        await connection.gone.wait()
    return connection.gone_at - began


def decision_of(head: bytes) -> str:
    """The decision's id in the head of an answer."""
    [line] = [line for line in head.decode().splitlines() if line.startswith("x-omniroute-decision-id")]
    return line.split()[1]


CASES: dict[str, tuple[Script, bool, bytes]] = {
    "in mid-stream": (TALKS, True, b"Hel"),
    "while it talks": (talks_without_end, True, b"lo"),
    "before the first word": (hang, True, b""),
    "waiting for a plain answer": (hang, False, b""),
}


@pytest.mark.parametrize("abruptly", [True, False], ids=["reset", "close"])
@pytest.mark.parametrize("case", CASES)
async def test_the_upstream_is_left_at_once(
    stack: Stack, record_property: Callable[[str, object], None], case: str, abruptly: bool
) -> None:
    script, streamed, words = CASES[case]
    provided = await stack.provider("talker", script)
    taken = sorted(
        [await left_after_s(stack, provided, streamed=streamed, abruptly=abruptly, words=words) for _ in range(TRIES)]
    )
    told = [round(1000 * seconds, 1) for seconds in taken]
    record_property("hang_up_ms", told)
    print(f"{case}, {'reset' if abruptly else 'close'}: median {told[TRIES // 2]} ms, all {told}")
    assert median(taken) < USUAL_S
    assert taken[-1] < WORST_S
    await nobody_is_blamed(stack, provided)


async def nobody_is_blamed(stack: Stack, provided: Provided) -> None:
    async def no_lease() -> bool:
        leases = (await stack.client.states("lease")).values()
        return not any(provided.name in lease.reason for lease in leases)

    await until(no_lease)
    breaker = (await stack.client.states("breaker"))[provided.name]
    assert (breaker.state, breaker.count, breaker.generation) == ("CLOSED", 0, 0)
    assert provided.name not in str(await stack.client.states(abnormal_only=True))
    [view] = [v for v in await candidates(stack, provided.model) if v.provider == provided.name]
    assert (view.reachable, view.in_flight) == (True, 0)


async def candidates(stack: Stack, model: str) -> list[decision_pb2.CandidateView]:
    request = decision_pb2.ListCandidatesRequest(model=model)
    return list((await stack.client.decisions.ListCandidates(request)).candidates)


async def test_a_hang_up_is_on_record_as_the_clients_own(stack: Stack) -> None:
    provided = await stack.provider("talker", TALKS)
    caller = Caller(stack)
    await caller.call(provided.model, streamed=True)
    decision_id = decision_of(await caller.hears(b"\r\n\r\n"))
    caller.reset()
    assert await stack.settled(decision_id) == ["CLIENT_CANCELLED"]

    async def logged() -> bool:
        lines = [line for line in stack.edge.said.splitlines() if decision_id in line and '"status":499' in line]
        return bool(lines)

    await until(logged)


async def test_hang_ups_do_not_move_a_health_score(stack: Stack) -> None:
    """The factors of a provider are the same before and after its clients left."""
    provided = await stack.provider("talker", TALKS)
    before = await factors(stack, provided)
    for _ in range(5):
        await left_after_s(stack, provided, streamed=True, abruptly=True, words=b"Hel")
    await nobody_is_blamed(stack, provided)
    assert await factors(stack, provided) == before


async def factors(stack: Stack, provided: Provided) -> dict[str, float]:
    request = decision_pb2.DecideRequest(model="auto", seed=1)
    explained = await stack.client.decisions.Explain(decision_pb2.ExplainRequest(request=request))
    rows = {row.provider: dict(row.factors) for row in explained.decision.trace.candidates}
    return {name: rows[provided.name][name] for name in ("health", "quality", "reliability", "stability", "quota")}


async def test_a_client_that_leaves_right_after_the_end_was_served(stack: Stack) -> None:
    provided = await stack.provider("talker")
    for _ in range(5):
        caller = Caller(stack)
        await caller.call(provided.model, streamed=True)
        said = await caller.hears(b"[DONE]")
        caller.reset()
        assert await stack.settled(decision_of(said)) == ["SUCCESS"]


async def test_a_hang_up_in_the_second_attempt_ends_that_one(stack: Stack) -> None:
    ill, talker = await stack.provider("ill", answer(500, error_body())), await stack.provider("talker", TALKS)
    caller = Caller(stack)
    await caller.call(await stack.combo(ill, talker), streamed=True)
    decision_id = decision_of(await caller.hears(b"\r\n\r\n"))
    caller.reset()
    assert await stack.settled(decision_id) == ["UPSTREAM_ERROR", "CLIENT_CANCELLED"]
    [_, closing] = (await stack.record(decision_id)).outcomes
    assert closing.provider == talker.name
    await nobody_is_blamed(stack, talker)


async def test_many_who_hang_up_together_leave_nothing_behind(stack: Stack) -> None:
    provided = await stack.provider("talker", TALKS)
    callers = [Caller(stack) for _ in range(40)]
    await asyncio.gather(*(caller.call(provided.model, streamed=True) for caller in callers))
    await asyncio.gather(*(caller.hears(b"Hel") for caller in callers))
    for caller in callers:
        caller.reset()
    async with asyncio.timeout(LIMIT_S):
        await asyncio.gather(*(connection.gone.wait() for connection in provided.upstream.connections))
    await nobody_is_blamed(stack, provided)
