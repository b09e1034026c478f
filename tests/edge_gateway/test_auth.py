"""Who may ask."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import openai
import pytest

from edge_gateway.assembly import refuse_open_house
from edge_gateway.auth import ANONYMOUS_S, KNOWN_S, MAX_KEPT, STALE_S, WRONG_S, Gate, is_foreign
from edge_gateway.patience import Patience
from omniroute.registry.v1.registry_pb2 import ApiKey, AuthenticateResponse
from service_kit.errors import Reason, ServiceError
from service_kit.settings import SettingsError
from tests.edge_gateway.conftest import Open, chat
from tests.edge_gateway.fakes import FakeDecision

PATIENCE_S = 0.25
KEYS = {"sk-good": ApiKey(id="key-1"), "sk-admin": ApiKey(id="key-2", scopes=["admin"])}


class Registry:
    """Answers Authenticate and counts; raises ``failure`` while there is one."""

    def __init__(self, keys: dict[str, ApiKey]) -> None:
        self.keys = keys
        self.failure: ServiceError | None = None
        self.delay_s = 0.0
        self.calls: list[str] = []

    async def authenticate(self, secret: str) -> AuthenticateResponse:
        self.calls.append(secret)
        await asyncio.sleep(self.delay_s)
        if self.failure is not None:
            raise self.failure
        if self.keys and secret and secret not in self.keys:
            raise ServiceError(Reason.UNAUTHENTICATED, "unknown")
        return AuthenticateResponse(required=bool(self.keys), key=self.keys.get(secret))


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def gate_for(registry: Registry, time: Time, *, loopback_only: bool = True) -> Gate:
    return Gate(
        registry.authenticate,
        loopback_only=loopback_only,
        patience=Patience(time),
        patience_s=PATIENCE_S,
        clock=time,
        wall=time,
    )


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


async def test_keys_over_http(open_house: Open) -> None:
    house = await open_house(decision=FakeDecision(keys=KEYS))
    assert (await house.post(chat(), bearer("sk-good"))).status_code == 200
    assert (await house.post(chat(), {"x-api-key": "sk-good"})).status_code == 200
    assert (await house.post(chat(), {"authorization": "bEaReR   sk-good"})).status_code == 200
    assert [asked.api_key_id for asked in house.decision.asked] == ["key-1"] * 3
    assert house.decision.authentications == ["sk-good"], "asked once"
    for headers in ({}, {"authorization": "Bearer"}, bearer("sk-wrong"), {"authorization": "Basic c2s6"}):
        answer = await house.post(chat(), headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
        assert "sk-wrong" not in answer.text
    answer = await house.post(chat(), bearer("sk-admin"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
    assert (await house.get("/v1/models")).status_code == 401
    assert (await house.get("/v1/auto-combo/auto/candidates")).status_code == 401
    assert (await house.get("/healthz")).status_code == 200


async def test_the_client_raises_its_own_exception(open_house: Open) -> None:
    house = await open_house(decision=FakeDecision(keys=KEYS))
    async with house.openai("sk-wrong") as client:
        with pytest.raises(openai.AuthenticationError):
            await client.chat.completions.create(**chat())


async def test_without_keys_any_bearer_is_anonymous(open_house: Open) -> None:
    house = await open_house()
    for headers in ({}, bearer("whatever"), {"x-api-key": "z"}, bearer("x" * 5000)):
        assert (await house.post(chat(), headers)).status_code == 200
    assert {asked.api_key_id for asked in house.decision.asked} == {""}


async def test_pages_of_other_sites_are_refused_without_a_key(open_house: Open) -> None:
    house = await open_house()
    for origin in ("https://evil.example", "http://localhost.evil.example:20128", "null", "http://[bad"):
        answer = await house.post(chat(), {"origin": origin})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
        assert "access-control-allow-origin" not in answer.headers
    for origin in ("http://localhost:3000", "http://127.0.0.1:20128", "http://[::1]:80", "app://desktop"):
        assert (await house.post(chat(), {"origin": origin})).status_code == 200
    assert not is_foreign("")


async def test_nobody_is_anonymous_beyond_this_machine() -> None:
    registry, time = Registry({}), Time()
    gate = gate_for(registry, time, loopback_only=False)
    for headers in ({}, bearer("whatever")):
        with pytest.raises(ServiceError, match="omnictl keys create") as caught:
            await gate.admit(headers)
        assert caught.value.reason is Reason.UNAUTHENTICATED
    registry.keys = {"sk": ApiKey(id="k")}
    time.now += ANONYMOUS_S
    assert (await gate.admit(bearer("sk"))).api_key_id == "k"


async def test_open_house_does_not_start() -> None:
    with pytest.raises(SettingsError, match="omnictl keys create"):
        await refuse_open_house(gate_for(Registry({}), Time(), loopback_only=False))
    await refuse_open_house(gate_for(Registry({"sk": ApiKey(id="k")}), Time(), loopback_only=False))


async def test_answers_are_kept_for_a_while() -> None:
    registry, time = Registry({"sk": ApiKey(id="k")}), Time()
    gate = gate_for(registry, time)

    async def calls_of(secret: str, *, after: float) -> int:
        time.now += after
        before = len(registry.calls)
        for _ in range(2):
            with suppress(ServiceError):
                await gate.admit(bearer(secret))
        return registry.calls[before:].count(secret)

    assert await calls_of("sk", after=0) == 1
    assert await calls_of("sk", after=KNOWN_S - 1) == 0
    assert await calls_of("sk", after=1) == 1
    assert await calls_of("wrong", after=0) == 1
    assert await calls_of("wrong", after=WRONG_S - 1) == 0
    assert await calls_of("wrong", after=1) == 1
    assert await calls_of("", after=0) == 0, "the wrong key's refusal had asked whether keys exist"
    assert await calls_of("", after=ANONYMOUS_S) == 1


async def test_first_key_ends_anonymity() -> None:
    registry, time = Registry({}), Time()
    gate = gate_for(registry, time)
    assert (await gate.admit({})).api_key_id == ""
    registry.keys = {"sk": ApiKey(id="k")}
    time.now += ANONYMOUS_S
    with pytest.raises(ServiceError):
        await gate.admit({})


async def test_key_is_not_kept_beyond_its_end() -> None:
    key = ApiKey(id="k")
    key.expires_at.FromSeconds(1005)
    registry, time = Registry({"sk": key}), Time()
    gate = gate_for(registry, time)
    await gate.admit(bearer("sk"))
    del registry.keys["sk"]
    registry.keys["other"] = ApiKey(id="o")
    time.now += 4
    await gate.admit(bearer("sk"))
    time.now += 1
    with pytest.raises(ServiceError):
        await gate.admit(bearer("sk"))


async def test_known_keys_survive_an_outage() -> None:
    registry, time = Registry({"sk": ApiKey(id="k")}), Time()
    gate = gate_for(registry, time)
    await gate.admit(bearer("sk"))
    registry.failure = ServiceError(Reason.UNAVAILABLE, "away")
    time.now += STALE_S - 1
    assert (await gate.admit(bearer("sk"))).api_key_id == "k"
    with pytest.raises(ServiceError, match="away"):
        await gate.admit(bearer("new"))
    time.now += 1
    with pytest.raises(ServiceError, match="away"):
        await gate.admit(bearer("sk"))


async def test_a_frozen_registry_costs_a_known_caller_one_short_wait() -> None:
    registry, time = Registry({"sk": ApiKey(id="k")}), Time()
    gate = gate_for(registry, time)
    await gate.admit(bearer("sk"))
    registry.delay_s = 2.0
    time.now += KNOWN_S
    waits = []
    for _ in range(3):
        began = asyncio.get_running_loop().time()
        assert (await gate.admit(bearer("sk"))).api_key_id == "k"
        waits.append(asyncio.get_running_loop().time() - began)
    assert waits[0] < PATIENCE_S + 0.5
    assert max(waits[1:]) < PATIENCE_S / 2, "it has shown that it does not answer"


async def test_waiting_requests_share_one_call() -> None:
    registry = Registry({"sk": ApiKey(id="k")})
    gate = gate_for(registry, Time())
    first = asyncio.create_task(gate.admit(bearer("sk")))
    others = [asyncio.create_task(gate.admit(bearer("sk"))) for _ in range(50)]
    await asyncio.sleep(0)
    first.cancel()
    assert {caller.api_key_id for caller in await asyncio.gather(*others)} == {"k"}
    assert registry.calls == ["sk"]


async def test_memory_is_bounded() -> None:
    registry, time = Registry({"sk": ApiKey(id="k")}), Time()
    gate = gate_for(registry, time)
    for number in range(MAX_KEPT + 50):
        with pytest.raises(ServiceError):
            await gate.admit(bearer(f"wrong-{number}"))
    assert len(gate._kept) == MAX_KEPT
