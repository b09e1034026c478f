"""The same request id again: the same decision, no second lease."""

from __future__ import annotations

import asyncio

from omniroute.decision.v1 import decision_pb2 as pb
from tests.decision_service.client import Client, outcome, refused


async def test_the_same_request_again_gets_the_same_decision(service: Client) -> None:
    model = await service.add_target("ant")
    features = pb.RequestFeatures(input_tokens=7)
    first = await service.decide(model, request_id="r-1", api_key_id="k", features=features)
    again = await asyncio.gather(
        *(service.decide(model, request_id="r-1", api_key_id="k", features=features) for _ in range(5))
    )
    assert again == [first] * 5
    assert list(await service.states("lease")) == [first.decision_id]
    await service.report(outcome(first, "SUCCESS"))
    assert await service.decide(model, request_id="r-1", api_key_id="k", features=features) == first
    assert not await service.states("lease")


async def test_other_content_under_a_request_id_is_refused(service: Client) -> None:
    model = await service.add_target("ant")
    await service.decide(model, request_id="r-1")
    for other in (
        service.decide(model, request_id="r-1", session_id="s"),
        service.decide(model, request_id="r-1", include_trace=True),
        service.decide("auto", request_id="r-1"),
    ):
        told = await refused(other)
        assert (told.reason, told.field) == ("INVALID_FIELD", "request_id")


async def test_request_ids_belong_to_a_key(service: Client) -> None:
    model = await service.add_target("ant")
    ids = [(await service.decide(model, request_id="r-1", api_key_id=key)).decision_id for key in ("", "k1", "k2")]
    assert len(set(ids)) == 3


async def test_without_an_id_nothing_is_a_repeat(service: Client) -> None:
    model = await service.add_target("ant")
    decisions = await asyncio.gather(*(service.decide(model) for _ in range(20)))
    assert len({decision.decision_id for decision in decisions}) == 20
    assert len(await service.states("lease")) == 20


async def test_a_refused_request_may_be_asked_again(service: Client) -> None:
    told = await refused(service.decide("auto", request_id="r-1"))
    assert told.reason == "NO_AVAILABLE_TARGET"
    await service.add_target("ant")
    assert (await service.decide("auto", request_id="r-1")).decision_id
