"""A decision service whose combos ask Nadir, over loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from omniroute.decision.v1 import decision_pb2 as pb
from omniroute.registry.v1 import registry_pb2
from service_kit.settings import SettingsError
from tests.decision_service.client import LIMIT_S, Client, refused
from tests.decision_service.loopback import serving
from tests.decision_service.nadir.conftest import choosing
from tests.executor.upstream import Connection, Received, Script, Upstream, answer, hang

KEY = "ndr-service-wide-hush"


@pytest.fixture
async def service(tmp_path: Path, player: Upstream) -> AsyncIterator[Client]:
    """A pool of two models, ``small`` and ``big``, and the combo ``mine`` over it."""
    base_url = f"http://127.0.0.1:{player.port}/v1"
    async with serving(tmp_path, nadir_base_url=base_url, nadir_api_key=KEY) as client:
        for provider, model in (("ant", "small"), ("bee", "big")):
            await client.add_provider(provider)
            await client.add_model(provider, model)
            await client.add_connection(f"{provider}-1", provider, model)
        await add_combo(client, "mine")
        await add_combo(client, "plain", routerStrategy="rules")
        yield client


async def add_combo(client: Client, name: str, **config: Any) -> None:
    chosen = {"routerStrategy": "nadir", "explorationRate": 0, **config}
    await client.add_combo(name, ["ant/small", "bee/big"], "auto", chosen)


def first(decision: pb.DecideResponse) -> str:
    return decision.plan.targets[0].model


def prompt(text: str) -> pb.RequestFeatures:
    return pb.RequestFeatures(last_user_text=text)


class Gate:
    """Holds its answers back until the test opens it."""

    def __init__(self, then: Script) -> None:
        self.opened = asyncio.Event()
        self._then = then

    async def __call__(self, received: Received, connection: Connection) -> None:
        await self.opened.wait()
        await self._then(received, connection)


async def asked(player: Upstream, times: int = 1) -> None:
    async with asyncio.timeout(LIMIT_S):
        while len(player.requests) < times:
            await asyncio.sleep(0.005)


async def test_the_model_that_nadir_chooses_goes_first(service: Client, player: Upstream) -> None:
    player.scripts = [choosing("big", bucket="complex", confidence=0.9), choosing("small")]
    decision = await service.decide("mine", features=prompt("Prove it."), include_trace=True)
    assert (decision.strategy, decision.router_strategy) == ("auto", "nadir")
    assert decision.reason == "NadirStrategy: chose big (complex, confidence 0.90)"
    assert [target.model for target in decision.plan.targets] == ["big", "small"]
    assert first(await service.decide("mine", features=prompt("Say hello."))) == "small"
    bodies = [request.body for request in player.requests]
    assert bodies == [
        {"prompt": text, "menu": ["small", "big"], "source": "omniroute"} for text in ("Prove it.", "Say hello.")
    ]
    assert {request.headers["x-api-key"] for request in player.requests} == {KEY}
    views = await service.states("lease")
    assert len(views) == 2


async def test_only_combos_that_want_it_ask(service: Client, player: Upstream) -> None:
    for model in ("plain", "auto", "auto/coding", "ant/small", "small"):
        decision = await service.decide(model, features=prompt("Prove it."))
        assert decision.router_strategy != "nadir"
    assert not player.requests


async def test_a_failure_falls_back_to_rules_and_spares_the_network(service: Client, player: Upstream) -> None:
    player.scripts = [answer(500, b"ndr-service-wide-hush: no")]
    reasons = [(await service.decide("mine")).reason for _ in range(2)]
    assert reasons[0].startswith("NadirStrategy: fallback (http 500)")
    assert reasons[1].startswith("NadirStrategy: fallback (skipped after a failure)")
    assert (await service.decide("mine")).router_strategy == "rules"
    assert len(player.requests) == 1


async def test_a_callers_deadline_ends_the_question_in_time(service: Client, player: Upstream) -> None:
    player.scripts = [hang]
    await add_combo(service, "patient", nadir={"timeoutMs": 30_000})
    decision = await service.decisions.Decide(pb.DecideRequest(model="patient"), timeout=0.5)
    assert decision.reason.startswith("NadirStrategy: fallback (timeout)")


async def test_an_explanation_asks_nobody(service: Client, player: Upstream) -> None:
    told = await service.decisions.Explain(pb.ExplainRequest(request=pb.DecideRequest(model="mine")), timeout=LIMIT_S)
    assert told.decision.reason.startswith("NadirStrategy: fallback (explain)")
    assert told.decision.router_strategy == "rules"
    assert not player.requests


async def test_a_combos_own_key_and_address(service: Client, player: Upstream) -> None:
    other = await Upstream(choosing("small")).start()
    own = {"apiKey": "ndr-own-hush", "baseUrl": f"http://127.0.0.1:{other.port}"}
    await add_combo(service, "own", nadir=own)
    assert first(await service.decide("own")) == "small"
    assert other.requests[0].headers["x-api-key"] == "ndr-own-hush"
    assert not player.requests
    combos = await service.combos.ListCombos(registry_pb2.ListCombosRequest(), timeout=LIMIT_S)
    [stored] = [combo for combo in combos.combos if combo.name == "own"]
    assert "hush" not in str(combos)
    stored.config.update({"routerStrategy": "nadir", "nadir": {**own, "apiKey": "ndr-new-hush"}})
    await service.combos.UpdateCombo(registry_pb2.UpdateComboRequest(combo=stored), timeout=LIMIT_S)
    await service.decide("own")
    assert other.requests[1].headers["x-api-key"] == "ndr-new-hush"
    records = await service.decisions.ListDecisions(pb.ListDecisionsRequest(), timeout=LIMIT_S)
    assert "hush" not in str(records)
    await other.stop()


async def test_what_is_unavailable_is_not_on_the_menu(service: Client, player: Upstream) -> None:
    await service.attempt("bee/big", "RATE_LIMITED", retry_after_ms=60_000)
    player.scripts = [choosing("small")]
    assert first(await service.decide("mine")) == "small"
    assert player.requests[0].body["menu"] == ["small"]
    await service.attempt("ant/small", "RATE_LIMITED", retry_after_ms=60_000)
    assert (await refused(service.decide("mine"))).reason == "NO_AVAILABLE_TARGET"
    assert len(player.requests) == 1, "a pool without a target is refused at once"


async def test_what_became_unavailable_while_nadir_thought_is_not_chosen(service: Client, player: Upstream) -> None:
    gate = Gate(choosing("big"))
    player.scripts = [gate]
    waiting = asyncio.create_task(service.decide("mine"))
    await asked(player)
    await service.attempt("bee/big", "RATE_LIMITED", retry_after_ms=60_000)
    gate.opened.set()
    decision = await waiting
    assert decision.reason.startswith("NadirStrategy: fallback (choice outside the pool)")
    assert [target.model for target in decision.plan.targets] == ["small"]


async def test_others_are_decided_while_one_waits(service: Client, player: Upstream) -> None:
    gate = Gate(choosing("big"))
    player.scripts = [gate]
    waiting = asyncio.create_task(service.decide("mine"))
    await asked(player)
    for _ in range(20):
        assert (await service.decide("plain")).decision_id
    assert not waiting.done()
    assert len(await service.states("lease")) == 20, "what waits holds no lease yet"
    gate.opened.set()
    assert first(await waiting) == "big"


# The same request, twice


async def test_the_same_request_asked_meanwhile_gets_the_same_decision(service: Client, player: Upstream) -> None:
    gate = Gate(choosing("big"))
    player.scripts = [gate]
    same = [asyncio.create_task(service.decide("mine", request_id="r-1")) for _ in range(5)]
    await asked(player)
    told = await refused(service.decide("plain", request_id="r-1"))
    assert (told.reason, told.field) == ("INVALID_FIELD", "request_id")
    gate.opened.set()
    decisions = await asyncio.gather(*same)
    decisions.append(await service.decide("mine", request_id="r-1"))
    assert {decision.decision_id for decision in decisions} == {decisions[0].decision_id}
    assert len(player.requests) == 1
    assert len(await service.states("lease")) == 1


async def test_who_hangs_up_leaves_no_lease_and_others_with_the_same_id_are_served(
    service: Client, player: Upstream
) -> None:
    player.scripts = [hang, choosing("big")]
    gone = service.decisions.Decide(pb.DecideRequest(model="mine", request_id="r-1"), timeout=LIMIT_S)
    await asked(player)
    waiting = asyncio.create_task(service.decide("mine", request_id="r-1"))
    await service.decide("plain")
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    decision = await waiting
    assert decision.router_strategy == "nadir"
    assert len(await service.states("lease")) == 2
    assert (await service.decide("mine", request_id="r-1")).decision_id == decision.decision_id


# Streams


async def test_a_slow_question_on_a_stream_holds_up_no_other_decision(service: Client, player: Upstream) -> None:
    gate = Gate(choosing("big"))
    player.scripts = [gate]
    call = service.decisions.DecideStream(timeout=LIMIT_S)

    async def ask(model: str, request_id: str) -> None:
        await call.write(pb.DecideStreamRequest(request=pb.DecideRequest(model=model, request_id=request_id)))

    async def answered() -> pb.DecideStreamResponse:
        read = await call.read()
        assert isinstance(read, pb.DecideStreamResponse)
        return read

    await ask("mine", "slow-1")
    await ask("mine", "slow-2")
    await asked(player, 2)
    for number in range(20):
        await ask("plain" if number % 2 else "nothing/here", f"r-{number}")
        told = await answered()
        assert told.request_id == f"r-{number}"
        assert told.WhichOneof("result") == ("response" if number % 2 else "error")
    gate.opened.set()
    late = [await answered(), await answered()]
    assert {told.request_id for told in late} == {"slow-1", "slow-2"}
    assert {first(told.response) for told in late} == {"big"}
    await ask("plain", "last")
    assert (await answered()).request_id == "last"
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF


async def test_a_stream_whose_client_is_done_still_gets_what_waits(service: Client, player: Upstream) -> None:
    gate = Gate(choosing("big"))
    player.scripts = [gate]
    requests = [pb.DecideStreamRequest(request=pb.DecideRequest(model="mine", request_id=f"r-{n}")) for n in range(100)]
    call = service.decisions.DecideStream(iter(requests), timeout=LIMIT_S)
    await asked(player, 64)
    await asyncio.sleep(0.1)
    assert len(player.requests) == 64, "no more are read while so many wait"
    gate.opened.set()
    answers = [told async for told in call]
    assert sorted(told.request_id for told in answers) == sorted(f"r-{n}" for n in range(100))
    assert {first(told.response) for told in answers} == {"big"}


async def test_a_stream_that_is_cut_leaves_no_lease(service: Client, player: Upstream) -> None:
    player.scripts = [hang]
    call = service.decisions.DecideStream(timeout=LIMIT_S)
    await call.write(pb.DecideStreamRequest(request=pb.DecideRequest(model="mine", request_id="r-1")))
    await asked(player)
    call.cancel()
    async with asyncio.timeout(LIMIT_S):
        await player.connections[0].gone.wait()
    assert not await service.states("lease")


# Settings


@pytest.mark.parametrize(
    ("variable", "setting"),
    [
        ("OMNIROUTE_NADIR_BASE_URL", {"nadir_base_url": "ftp://hush"}),
        ("OMNIROUTE_NADIR_BASE_URL", {"nadir_base_url": "https://hush:hush@nadir.example"}),
        ("OMNIROUTE_NADIR_API_KEY", {"nadir_api_key": "hush hush"}),
        ("OMNIROUTE_NADIR_API_KEY", {"nadir_api_key": "hüsh"}),
    ],
)
async def test_a_setting_that_cannot_be_used_stops_the_start(
    tmp_path: Path, variable: str, setting: dict[str, Any]
) -> None:
    with pytest.raises(SettingsError, match=variable) as stopped:
        async with serving(tmp_path, **setting):
            pass
    assert "hush" not in str(stopped.value).replace("ftp://hush", "")
