"""Models and candidates."""

from __future__ import annotations

import openai
import pytest

from omniroute.decision.v1.decision_pb2 import CandidateView, Rejection
from omniroute.registry.v1.registry_pb2 import AdvertisedModel
from tests.edge_gateway.conftest import House

IDS = ["auto", "auto/coding:fast", "meta-llama/llama-3.1-8b:free", "combo/my combo", "50%/off", "модель"]


@pytest.fixture
def stocked(house: House) -> House:
    house.decision.models = [AdvertisedModel(id=name, kind="model", owned_by="omniroute") for name in IDS]
    house.decision.models[0].context_length = 200_000
    return house


async def test_list(stocked: House) -> None:
    async with stocked.openai() as client:
        models = [model async for model in client.models.list()]
    assert [model.id for model in models] == IDS
    assert models[0].owned_by == "omniroute"
    raw = (await stocked.get("/v1/models")).json()
    assert raw["object"] == "list"
    assert raw["data"][0]["context_length"] == 200_000
    assert "context_length" not in raw["data"][1], "unknown is absent, never 0"


async def test_retrieve(stocked: House) -> None:
    async with stocked.openai() as client:
        for name in IDS:
            assert (await client.models.retrieve(name)).id == name
        with pytest.raises(openai.NotFoundError) as caught:
            await client.models.retrieve("no/such:model")
    assert caught.value.code == "model_not_found"
    for path in ("auto/coding:fast", "auto%2Fcoding%3Afast", "auto%2fcoding:fast"):
        assert (await stocked.get(f"/v1/models/{path}")).json()["id"] == "auto/coding:fast"


async def test_candidates(house: House) -> None:
    house.decision.pool = [
        CandidateView(candidate="p/m@c", provider="p", model="m", connection_id="c", reachable=True, input_price=0.5),
        CandidateView(
            candidate="q/n@d", excluded=True, rejection=Rejection(filter="cooldown", reason="429", until_ms=3000)
        ),
    ]
    answer = (await house.get("/v1/auto-combo/coding/candidates")).json()
    assert answer["channel"] == "auto/coding"
    first, second = answer["candidates"]
    assert (first["candidate"], first["connectionId"], first["reachable"], first["rejection"]) == (
        "p/m@c",
        "c",
        True,
        None,
    )
    assert (first["inputPrice"], first["outputPrice"], first["contextWindow"]) == (0.5, None, None)
    assert second["excluded"]
    assert second["rejection"] == {"filter": "cooldown", "reason": "429", "untilMs": 3000}
    assert (await house.get("/v1/auto-combo/auto/candidates")).json()["channel"] == "auto"
    assert (await house.get("/v1/auto-combo/reasoning%3Apro/candidates")).json()["channel"] == "auto/reasoning:pro"
    assert (await house.get("/v1/auto-combo/nonsense/candidates")).json()["error"]["code"] == "model_not_found"


async def test_head_is_answered_like_get(stocked: House) -> None:
    answer = await stocked.raw(b"HEAD /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert body == b""
