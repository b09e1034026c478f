"""Two edges before one decision service share nothing but it: what was done through one holds at the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import chain, repeat
from typing import Any

import httpx
import pytest
import pytest_asyncio

from edge_gateway.auth import KNOWN_S
from tests.e2e.open_streams import Tap
from tests.e2e.stack import Answer, Stack, running, until

pytestmark = pytest.mark.asyncio(loop_scope="module")
DEAR = {"input_price": 1.0, "output_price": 10_000.0}  # a token of output is a cent


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    async with running(tmp_path_factory.mktemp("edges"), edges=2) as stack:
        yield stack


# Each goes to either provider by chance: the first few may well all go to one, so many do not.
FEWEST_CONVERSATIONS, MOST_CONVERSATIONS = 8, 40


class Caller:
    """Asks through both edges, with one key."""

    def __init__(self, stack: Stack, secret: str) -> None:
        self._edges = (stack.through(0), stack.through(1))
        self.headers = {"authorization": f"Bearer {secret}"}

    async def chat(self, edge: int, model: str, **fields: Any) -> Answer:
        headers = {**self.headers, **fields.pop("headers", {})}
        return await self._edges[edge].chat(model, headers=headers, **fields)

    async def send(self, edge: int, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Of the administration."""
        stack = self._edges[edge]
        sent = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        given = {} if body is None else {"json": body}
        return await stack.http.request(method, stack.url + path, headers=sent, **given)

    async def ok(self, edge: int, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        response = await self.send(edge, method, path, body, **headers)
        assert response.is_success, response.text
        return response


async def caller(stack: Stack, name: str, *scopes: str, **limits: Any) -> Caller:
    made = await stack.client.add_key(name, scopes=scopes or ["inference"], limits=limits)
    return Caller(stack, made.secret)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(stack: Stack) -> Caller:
    return await caller(stack, "operator", "admin", "inference")


def turns(count: int) -> list[int]:
    """The edges, each in turn."""
    return list(chain.from_iterable(repeat((0, 1), count)))[:count]


@pytest.mark.parametrize(
    ("strategy", "named"), [("random", True), ("quota-weighted", False)], ids=["named session", "derived session"]
)
async def test_a_conversation_stays_where_it_is(stack: Stack, admin: Caller, strategy: str, named: bool) -> None:
    ant, bee = await stack.provider("ant"), await stack.provider("bee")
    combo = await stack.combo(ant, bee, strategy=strategy)
    homes: list[set[str]] = []
    for number in range(MOST_CONVERSATIONS):
        sent = {"x-omniroute-session": f"{combo}-{number}"} if named else {}
        providers = set()
        for edge in turns(4):
            served = await admin.chat(edge, combo, content=f"Conversation {number}", headers=sent)
            assert await stack.settled(served.decision_id) == ["SUCCESS"]
            providers.add(served.provider)
        homes.append(providers)
        if len(homes) >= FEWEST_CONVERSATIONS and len(set.union(*homes)) > 1:
            break
    assert [len(each) for each in homes] == [1] * len(homes)
    assert set.union(*homes) == {ant.name, bee.name}, "not because there was no other"


async def test_requests_a_minute_are_counted_over_both(stack: Stack) -> None:
    ant, limited = await stack.provider("ant"), await caller(stack, "few", requests_per_minute=6)
    for edge in turns(6):
        assert (await limited.chat(edge, ant.model)).status == 200
    for edge in turns(2):
        refused = await limited.chat(edge, ant.model)
        assert (refused.status, refused.error["code"]) == (429, "rate_limit_exceeded")
        assert 0 < int(refused.headers["retry-after"]) <= 60


async def test_tokens_a_minute_are_counted_over_both(stack: Stack) -> None:
    ant, limited = await stack.provider("ant"), await caller(stack, "brief", tokens_per_minute=300)
    for edge in turns(10):  # of 15 tokens each
        served = await limited.chat(edge, ant.model, max_tokens=20)
        assert await stack.settled(served.decision_id) == ["SUCCESS"]
    for edge in turns(2):
        refused = await limited.chat(edge, ant.model, max_tokens=200)
        assert (refused.status, refused.error["code"]) == (429, "rate_limit_exceeded")
        assert (await limited.chat(edge, ant.model, max_tokens=20)).status == 200, (
            "what was reserved and not used is free"
        )


@pytest.mark.parametrize("limit", ["usd_per_day", "usd_per_month"])
async def test_money_is_reserved_by_one_and_missed_by_the_other(stack: Stack, limit: str) -> None:
    tap = Tap()
    slow, ant = await stack.provider("tap", tap, **DEAR), await stack.provider("ant", **DEAR)
    spender = await caller(stack, f"spender-{limit}", **{limit: 1.0})
    running = asyncio.create_task(spender.chat(0, slow.model, stream=True, max_tokens=60))
    await until(lambda: _called(slow.upstream.requests))
    refused = await spender.chat(1, ant.model, max_tokens=60)
    assert (refused.status, refused.error["code"]) == (402, "insufficient_quota")
    tap.opened.set()
    await stack.settled((await running).decision_id)
    assert (await spender.chat(1, ant.model, max_tokens=60)).status == 200
    await until(lambda: _spent(spender, ant.model))
    assert (await spender.chat(0, ant.model, max_tokens=99)).status == 402


async def _called(requests: list[Any]) -> bool:
    return bool(requests)


async def _spent(spender: Caller, model: str) -> bool:
    """Some of it again, through the other edge; whether it is all gone."""
    return (await spender.chat(1, model, max_tokens=99)).status == 402


async def test_a_change_through_one_counts_at_the_other(stack: Stack, admin: Caller) -> None:
    ant, bee = await stack.provider("ant"), await stack.provider("bee")
    body = {"id": "shared", "name": "shared", "strategy": "priority", "steps": [ant.model, bee.model]}
    await admin.ok(0, "POST", "/api/combos", body)
    assert (await admin.chat(1, "shared")).provider == ant.name
    await admin.ok(1, "PATCH", "/api/combos/shared", {"steps": [bee.model, ant.model]})
    assert (await admin.chat(0, "shared")).provider == bee.name
    await admin.ok(0, "PATCH", f"/api/connections/{bee.connection}", {"enabled": False})
    assert (await admin.chat(1, "shared")).provider == ant.name
    await admin.ok(1, "DELETE", "/api/combos/shared")
    assert (await admin.chat(0, "shared")).status == 404


async def test_a_revoked_key_is_refused_everywhere_within_its_time(stack: Stack, admin: Caller) -> None:
    ant = await stack.provider("ant")
    made = (await admin.ok(0, "POST", "/api/keys", {"id": "short-lived", "name": "short-lived"})).json()
    leaver = Caller(stack, made["secret"])
    for edge in (0, 1):
        assert (await leaver.chat(edge, ant.model)).status == 200
    loop = asyncio.get_running_loop()
    await admin.ok(0, "DELETE", "/api/keys/short-lived")
    gone = loop.time()
    assert (await leaver.chat(0, ant.model)).status == 401, "at once where it was revoked"

    async def refused() -> bool:
        return (await leaver.chat(1, ant.model)).status == 401

    await until(refused)
    assert loop.time() - gone <= KNOWN_S + 1.0
    assert await refused()


async def test_no_update_is_lost_between_two(stack: Stack, admin: Caller) -> None:
    ant, bee = await stack.provider("ant"), await stack.provider("bee")
    body = {"id": "edited", "name": "edited", "strategy": "priority", "steps": [ant.model]}
    await admin.ok(0, "POST", "/api/combos", body)
    seen = [(await admin.ok(edge, "GET", "/api/combos/edited")).headers["etag"] for edge in (0, 1)]
    assert seen[0] == seen[1]
    await admin.ok(0, "PATCH", "/api/combos/edited", {"steps": [bee.model]}, if_match=seen[0])
    late = await admin.send(1, "PATCH", "/api/combos/edited", {"strategy": "random"}, if_match=seen[1])
    assert (late.status_code, late.json()["error"]["code"]) == (409, "conflict")
    now = await admin.ok(1, "GET", "/api/combos/edited")
    assert now.json()["strategy"] == "priority"
    await admin.ok(1, "PATCH", "/api/combos/edited", {"strategy": "random"}, if_match=now.headers["etag"])
    both = await asyncio.gather(
        *(
            admin.send(edge, "PATCH", "/api/combos/edited", {"config": {"maxRetries": edge}}, if_match=etag)
            for etag in [(await admin.ok(0, "GET", "/api/combos/edited")).headers["etag"]]
            for edge in (0, 1)
        )
    )
    assert sorted(each.status_code for each in both) == [200, 409]


async def test_a_decision_is_explained_by_the_other(stack: Stack, admin: Caller) -> None:
    ant, bee = await stack.provider("ant"), await stack.provider("bee")
    combo = await stack.combo(ant, bee, strategy="round-robin")
    served = await admin.chat(0, combo)
    await stack.settled(served.decision_id)
    record = (await admin.ok(1, "GET", f"/api/decisions/{served.decision_id}")).json()
    assert record["decision"]["plan"]["targets"][0]["provider"] == served.provider
    assert [outcome["outcomeClass"] for outcome in record["outcomes"]] == ["SUCCESS"]
    told = (await admin.ok(1, "POST", "/api/explain", {"model": combo})).json()
    after = await admin.chat(0, combo)
    assert told["decision"]["plan"]["targets"][0]["provider"] == after.provider, "it sees what came of the first"
