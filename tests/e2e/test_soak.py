"""Traffic of every kind at once over providers of every kind: afterwards nothing is left over, and the books agree."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing

import httpx
import pytest

from omniroute.decision.v1 import decision_pb2
from tests.e2e.stack import Provided, Stack, good, until
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
CALLERS = 24
TARGET_TIMEOUT_MS = 400
# Of a decision that its edge did not wait for, on a machine that stood still, the lease runs out by itself.
LEASE_LIMIT_S = 4 * TARGET_TIMEOUT_MS / 1000 + 30 + 10
STRATEGIES = ("priority", "round-robin", "least-used", "random", "p2c", "auto", "weighted", "lkgp")


class Moody:
    """An upstream that answers well most of the time, and badly in every way now and then."""

    def __init__(self, seed: int, share_of_good: float) -> None:
        self._dice = random.Random(seed)
        self._good = share_of_good
        self._moods: Sequence[Script] = (
            answer(500, error_body()),
            answer(429, error_body(type="rate_limit_error"), {"retry-after": "1"}),
            answer(529, error_body("overloaded"), {"retry-after": "1"}),
            close_at_once,
            hang,
            stream(ROLE, end="cut"),
            stream(ROLE, event(delta("Hel")), end="cut"),
        )

    async def __call__(self, received: Received, connection: Connection) -> None:
        await asyncio.sleep(self._dice.random() * 0.02)
        script = good if self._dice.random() < self._good else self._dice.choice(self._moods)
        await script(received, connection)


async def one_request(http: httpx.AsyncClient, stack: Stack, combo: str, dice: random.Random) -> str:
    """One completion, left early now and then; how it ended."""
    streamed = dice.random() < 0.5
    body = {"model": combo, "messages": [{"role": "user", "content": f"hi {dice.random()}"}], "stream": streamed}
    patience_s = dice.uniform(0.005, 0.1) if dice.random() < 0.2 else 30.0
    try:
        async with asyncio.timeout(patience_s):
            response = await http.post(f"{stack.url}/v1/chat/completions", json=body)
    except TimeoutError:
        return "left"
    except httpx.RemoteProtocolError:
        return "broken"
    if response.status_code == 200 and streamed:
        return "streamed" if response.text.endswith("data: [DONE]\n\n") else "interrupted"
    return str(response.status_code)


async def caller(stack: Stack, combos: Sequence[str], seed: int, requests: int) -> Counter[str]:
    """Its connections are new after each request that it left: httpx may lose one that is left as its answer ends."""
    dice, ended = random.Random(seed), Counter[str]()
    while ended.total() < requests:
        # Without certificates, which take 24 ms to load: the providers of the test stand still meanwhile.
        async with httpx.AsyncClient(timeout=60, verify=False) as http:
            left = False
            while not left and ended.total() < requests:
                how = await one_request(http, stack, dice.choice(combos), dice)
                ended[how] += 1
                left = how == "left"
    return ended


async def everything_is_over(stack: Stack, provided: Sequence[Provided]) -> None:
    async def no_lease() -> bool:
        return not await stack.client.states("lease")

    await until(no_lease, LEASE_LIMIT_S)
    for each in provided:
        request = decision_pb2.ListCandidatesRequest(model=each.model)
        [view] = (await stack.client.decisions.ListCandidates(request)).candidates
        assert view.in_flight == 0


async def books_agree(stack: Stack, refused: int) -> None:
    """Each decision ended once, but those whose request was refused meanwhile; what is remembered is on disk."""
    records = (await stack.client.decisions.ListDecisions(decision_pb2.ListDecisionsRequest(page_size=1000))).records
    assert len(records) > 500
    remembered: Counter[tuple[str, int]] = Counter()
    abandoned = [record for record in records if not record.outcomes]
    assert len(abandoned) <= refused
    for record in (record for record in records if record.outcomes):
        outcomes = sorted(record.outcomes, key=lambda outcome: outcome.attempt)
        assert [outcome.final for outcome in outcomes] == [False] * (len(outcomes) - 1) + [True], record
        assert [outcome.attempt for outcome in outcomes] == list(range(1, len(outcomes) + 1))
        remembered.update((record.decision.decision_id, outcome.attempt) for outcome in outcomes)
    with closing(sqlite3.connect(stack.database)) as connection:
        kept = Counter(connection.execute("SELECT decision_id, attempt FROM outcomes").fetchall())
    assert {pair: kept[pair] for pair in remembered} == dict(remembered)
    figures = (await stack.get("/metrics")).body.decode()
    dropped = [line for line in figures.splitlines() if "dropped" in line and line.startswith("omniroute")]
    assert not [line for line in dropped if not line.endswith((" 0.0", " 0")) and "_created" not in line], dropped


@pytest.mark.parametrize(
    ("seed", "requests"),
    [
        pytest.param(1, 30, marks=pytest.mark.timeout(120)),
        pytest.param(2, 400, marks=[pytest.mark.full, pytest.mark.timeout(600)]),
    ],
)
async def test_mixed_traffic_leaves_nothing_over(stack: Stack, seed: int, requests: int) -> None:
    shares = (1.0, 0.9, 0.6, 0.3)
    provided = [
        await stack.provider("moody", Moody(seed * 10 + number, share), provider_class="api_key", api_key="sk-x")
        for number, share in enumerate(shares)
    ]
    combos = [
        await stack.combo(
            *random.Random(number).sample(provided, 4), strategy=strategy, targetTimeoutMs=TARGET_TIMEOUT_MS
        )
        for number, strategy in enumerate(STRATEGIES)
    ]
    callers = (caller(stack, combos, seed * 1000 + n, requests) for n in range(CALLERS))
    ended = sum(await asyncio.gather(*callers), Counter[str]())
    print(dict(ended))
    assert sum(ended.values()) == CALLERS * requests
    assert not ended.keys() - {"left", "streamed", "interrupted", "200", "429", "502", "503", "504"}
    assert ended["200"] + ended["streamed"] > 0.6 * CALLERS * requests
    await everything_is_over(stack, provided)
    await books_agree(stack, ended["503"])
    assert not [service.module for service in stack.services if "Traceback" in service.said]
