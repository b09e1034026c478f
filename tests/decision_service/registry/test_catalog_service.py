"""CatalogService."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from decision_service.kernel.model import Provider
from omniroute.registry.v1 import registry_pb2 as pb
from service_kit.errors import Reason, ServiceError
from tests.decision_service.registry.conftest import Running


async def call(live: Running, method: str, request: Any) -> Any:
    return await live.call("CatalogService", method, request)


async def provider(live: Running, method: str, mask: list[str] | None = None, **fields: Any) -> pb.Provider:
    request = getattr(pb, f"{method}Request")(provider=pb.Provider(**fields))
    if mask:
        request.update_mask.CopyFrom(FieldMask(paths=mask))
    return (await call(live, method, request)).provider  # type: ignore[no-any-return]


async def model(live: Running, mask: list[str] | None = None, **fields: Any) -> pb.Model:
    request = pb.UpdateModelRequest(model=pb.Model(**fields), update_mask=FieldMask(paths=mask) if mask else None)
    return (await call(live, "UpdateModel", request)).model  # type: ignore[no-any-return]


def providers(live: Running) -> Mapping[str, Provider]:
    return live.source.snapshot.roster.providers


async def test_the_catalogue_is_paged_whole(live: Running) -> None:
    found: list[str] = []
    token = ""
    while not found or token:
        page = await call(live, "ListProviders", pb.ListProvidersRequest(page_size=50, page_token=token))
        found += [each.id for each in page.providers]
        token = page.next_page_token
    assert len(found) > 100
    assert found == sorted(found)
    assert {"openai", "anthropic", "demo", "ollama-local"} <= set(found)
    openai = (await call(live, "GetProvider", pb.GetProviderRequest(id="openai"))).provider
    assert (openai.dialect, openai.base_url, openai.custom) == ("openai", "https://api.openai.com/v1", False)
    assert (list(openai.env_names), openai.provider_class, openai.etag) == (["OPENAI_API_KEY"], "api_key", "")


async def test_models_are_listed_by_provider_and_connection(live: Running) -> None:
    page = await call(live, "ListModels", pb.ListModelsRequest(provider="anthropic", page_size=1000))
    assert len(page.models) > 5
    assert {each.provider for each in page.models} == {"anthropic"}
    connected = await call(live, "ListModels", pb.ListModelsRequest(connected_only=True, page_size=1000))
    assert {each.provider for each in connected.models} == {"openai", "anthropic", "demo"}
    everything, token = 0, ""
    while not everything or token:
        page = await call(live, "ListModels", pb.ListModelsRequest(page_size=1000, page_token=token))
        everything, token = everything + len(page.models), page.next_page_token
    assert everything > 4_000
    gpt = (await call(live, "GetModel", pb.GetModelRequest(provider="openai", model="gpt-4o"))).model
    assert (gpt.input_price, gpt.output_price, gpt.context_window) == (2.5, 10, 128_000)
    assert {"tools", "vision", "structured_output", "-audio", "-reasoning"} <= set(gpt.capabilities)
    assert (gpt.economic_tier, gpt.source, gpt.name) == ("premium", "catalog", "GPT-4o")


async def test_an_operator_knows_a_model_better(live: Running) -> None:
    changed = await model(live, provider="openai", model="gpt-4o", input_price=0, hidden=True, fitness={"coding": 0.9})
    assert (changed.economic_tier, changed.source, changed.output_price) == ("free", "operator", 10)
    facts = live.source.snapshot.roster.facts["openai", "gpt-4o"]
    assert (facts.input_price, facts.output_price, facts.hidden) == (0, 10, True)
    assert facts.fitness == {"coding": 0.9}
    back = await model(live, ["input_price", "hidden"], provider="openai", model="gpt-4o", etag=changed.etag)
    assert (back.input_price, back.hidden, dict(back.fitness)) == (2.5, False, {"coding": 0.9})
    with pytest.raises(ServiceError) as caught:
        await model(live, provider="openai", model="gpt-4o", etag=changed.etag)
    assert caught.value.reason is Reason.CONFLICT


async def test_an_unknown_model_is_made(live: Running) -> None:
    made = await model(
        live, provider="openai", model="gpt-99", capabilities=["tools", "-vision"], max_output_tokens=9, name="GPT 99"
    )
    assert (list(made.capabilities), made.max_output_tokens, made.name) == (["tools", "-vision"], 9, "GPT 99")
    roster = live.source.snapshot.roster
    assert roster.facts["openai", "gpt-99"].max_output == 9
    assert "gpt-99" in roster.providers["openai"].models
    elsewhere = await model(live, provider="groq", model="gpt-99", context_window=5)
    assert elsewhere.context_window == 5
    assert (await call(live, "GetModel", pb.GetModelRequest(provider="groq", model="gpt-99"))).model == elsewhere


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"provider": "nobody", "model": "x"}, "provider"),
        ({"provider": "openai", "model": ""}, "model"),
        ({"input_price": -1}, "input_price"),
        ({"output_price": float("inf")}, "output_price"),
        ({"context_window": 0}, "context_window"),
        ({"capabilities": ["tool"]}, "capabilities[0]"),
        ({"capabilities": ["tools", "-tools"]}, "capabilities"),
        ({"fitness": {"cooking": 1}}, "fitness.cooking"),
        ({"fitness": {"coding": 2}}, "fitness.coding"),
    ],
)
async def test_bad_models_are_refused(live: Running, fields: dict[str, Any], field: str) -> None:
    with pytest.raises(ServiceError) as caught:
        await model(live, **({"provider": "openai", "model": "gpt-4o"} | fields))
    assert (caught.value.reason, caught.value.field) == (Reason.INVALID_FIELD, field)


async def test_a_provider_of_the_operators_own(live: Running) -> None:
    made = await provider(
        live, "CreateProvider", id="mine", base_url="http://10.0.0.5:8000/v1/", provider_class="local"
    )
    assert (made.name, made.custom, made.enabled, made.base_url) == ("mine", True, True, "http://10.0.0.5:8000/v1")
    assert made.dialect == "openai"
    await model(live, provider="mine", model="m1", context_window=4_000)
    connection = pb.Connection(id="x1", provider="mine")
    await live.call("ConnectionService", "CreateConnection", pb.CreateConnectionRequest(connection=connection))
    snapshot = live.source.snapshot
    assert [c.id for c in snapshot.roster.pool if c.provider == "mine"] == ["mine/m1@x1"]
    assert snapshot.endpoints["x1"].base_url == "http://10.0.0.5:8000/v1"
    assert snapshot.roster.connections["mine", "x1"].usable
    with pytest.raises(ServiceError, match="'x1'") as caught:
        await call(live, "DeleteProvider", pb.DeleteProviderRequest(id="mine"))
    assert caught.value.reason is Reason.CONFLICT
    await live.call("ConnectionService", "DeleteConnection", pb.DeleteConnectionRequest(id="x1"))
    listed = await call(live, "ListProviders", pb.ListProvidersRequest(custom_only=True))
    assert [each.id for each in listed.providers] == ["mine"]
    await call(live, "DeleteProvider", pb.DeleteProviderRequest(id="mine", etag=made.etag))
    with pytest.raises(ServiceError) as caught:
        await call(live, "GetProvider", pb.GetProviderRequest(id="mine"))
    assert caught.value.reason is Reason.NOT_FOUND


async def test_a_catalogue_provider_can_be_changed_and_put_back(live: Running) -> None:
    changed = await provider(live, "UpdateProvider", ["enabled", "base_url"], id="openai", base_url="http://proxy/v1")
    assert (changed.base_url, changed.enabled, changed.name) == ("http://proxy/v1", True, "OpenAI")
    assert live.source.snapshot.endpoints["c1"].base_url == "http://proxy/v1"
    off = await provider(live, "UpdateProvider", ["enabled"], id="openai", enabled=False, etag=changed.etag)
    assert not providers(live)["openai"].enabled
    with pytest.raises(ServiceError) as caught:
        await provider(live, "UpdateProvider", ["enabled"], id="openai", etag=changed.etag)
    assert caught.value.reason is Reason.CONFLICT
    await call(live, "DeleteProvider", pb.DeleteProviderRequest(id="openai", etag=off.etag))
    assert providers(live)["openai"].enabled
    assert live.source.snapshot.endpoints["c1"].base_url == "https://api.openai.com/v1"


@pytest.mark.parametrize(
    ("fields", "reason", "field"),
    [
        ({}, Reason.INVALID_FIELD, "id"),
        ({"id": "a/b", "base_url": "http://x"}, Reason.INVALID_FIELD, "id"),
        ({"id": "auto", "base_url": "http://x"}, Reason.INVALID_FIELD, "id"),
        ({"id": "mine"}, Reason.INVALID_FIELD, "base_url"),
        ({"id": "mine", "base_url": "x"}, Reason.INVALID_FIELD, "base_url"),
        ({"id": "mine", "base_url": "http://x", "dialect": "cohere"}, Reason.INVALID_FIELD, "dialect"),
        ({"id": "mine", "base_url": "http://x", "provider_class": "free"}, Reason.INVALID_FIELD, "provider_class"),
        ({"id": "openai", "base_url": "http://x"}, Reason.ALREADY_EXISTS, "id"),
        ({"id": "demo", "base_url": "http://x"}, Reason.ALREADY_EXISTS, "id"),
    ],
)
async def test_bad_providers_are_refused(live: Running, fields: dict[str, Any], reason: Reason, field: str) -> None:
    with pytest.raises(ServiceError) as caught:
        await provider(live, "CreateProvider", **fields)
    assert (caught.value.reason, caught.value.field) == (reason, field)


async def test_a_simulated_provider_stays_as_it_is(live: Running) -> None:
    with pytest.raises(ServiceError) as caught:
        await provider(live, "UpdateProvider", ["enabled"], id="demo")
    assert caught.value.reason is Reason.CONFLICT


async def test_what_routing_answers_is_passed_on(live: Running) -> None:
    models = await call(live, "ListAdvertisedModels", pb.ListAdvertisedModelsRequest(api_key_id="-k"))
    assert [each.owned_by for each in models.models] == ["omniroute-k"]
    channels = await call(live, "ListChannels", pb.ListChannelsRequest(api_key_id="-k"))
    assert [each.weight_pack for each in channels.channels] == ["balanced-k"]
