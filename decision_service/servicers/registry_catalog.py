"""CatalogService."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from decision_service.kernel.knowledge.tiers import economic_tier
from decision_service.kernel.model import ModelFacts
from decision_service.registry import Registry, models, providers
from decision_service.registry.models import ModelView
from decision_service.registry.paging import Page, page_of
from decision_service.registry.providers import ProviderView
from decision_service.servicers.registry_desk import Call, Desk
from decision_service.servicers.registry_wire import Readers, all_values, page_in, values_in
from decision_service.store.records import etag
from omniroute.registry.v1 import registry_pb2 as pb
from omniroute.registry.v1 import registry_pb2_grpc

Advertised = Callable[[str], Iterable[pb.AdvertisedModel]]
Channels = Callable[[str], Iterable[pb.Channel]]

PROVIDER_READERS: Readers[pb.Provider] = {
    "name": lambda message: message.name,
    "provider_class": lambda message: message.provider_class,
    "dialect": lambda message: message.dialect,
    "base_url": lambda message: message.base_url,
    "enabled": lambda message: message.enabled if message.HasField("enabled") else True,
}
MODEL_READERS: Readers[pb.Model] = {
    "name": lambda message: message.name or None,
    "input_price": lambda message: message.input_price if message.HasField("input_price") else None,
    "output_price": lambda message: message.output_price if message.HasField("output_price") else None,
    "cached_input_price": lambda message: (
        message.cached_input_price if message.HasField("cached_input_price") else None
    ),
    "context_window": lambda message: message.context_window if message.HasField("context_window") else None,
    "max_output_tokens": lambda message: message.max_output_tokens if message.HasField("max_output_tokens") else None,
    "capabilities": lambda message: list(message.capabilities) or None,
    "hidden": lambda message: message.hidden if message.HasField("hidden") else None,
    "fitness": lambda message: dict(message.fitness) or None,
}


class CatalogServicer(registry_pb2_grpc.CatalogServiceServicer):
    """Providers and models that are known. ``advertised`` and ``channels`` answer for an API key id (empty: none)."""

    def __init__(self, registry: Registry, desk: Desk, advertised: Advertised, channels: Channels) -> None:
        self._registry = registry
        self._desk = desk
        self._advertised = advertised
        self._channels = channels

    async def ListProviders(self, request: pb.ListProvidersRequest, context: Call) -> pb.ListProvidersResponse:
        page = page_in(request, f"providers/{request.custom_only}")
        return await self._desk.administer(context, self._provider_page, page, request.custom_only)

    async def GetProvider(self, request: pb.GetProviderRequest, context: Call) -> pb.GetProviderResponse:
        view = await self._desk.administer(context, providers.find, self._registry, request.id)
        return pb.GetProviderResponse(provider=provider_out(view))

    async def CreateProvider(self, request: pb.CreateProviderRequest, context: Call) -> pb.CreateProviderResponse:
        given = {name: value for name, value in all_values(request.provider, PROVIDER_READERS).items() if value != ""}
        values = given | {"id": request.provider.id}
        view = await self._desk.administer(context, providers.create, self._registry, values)
        return pb.CreateProviderResponse(provider=provider_out(view))

    async def UpdateProvider(self, request: pb.UpdateProviderRequest, context: Call) -> pb.UpdateProviderResponse:
        sent = request.provider
        values = values_in(sent, request.update_mask, PROVIDER_READERS)
        view = await self._desk.administer(context, providers.update, self._registry, sent.id, sent.etag, values)
        return pb.UpdateProviderResponse(provider=provider_out(view))

    async def DeleteProvider(self, request: pb.DeleteProviderRequest, context: Call) -> pb.DeleteProviderResponse:
        await self._desk.administer(context, providers.delete, self._registry, request.id, request.etag)
        return pb.DeleteProviderResponse()

    async def ListModels(self, request: pb.ListModelsRequest, context: Call) -> pb.ListModelsResponse:
        page = page_in(request, f"models/{request.provider}/{request.connected_only}")
        return await self._desk.administer(context, self._model_page, page, request.provider, request.connected_only)

    async def GetModel(self, request: pb.GetModelRequest, context: Call) -> pb.GetModelResponse:
        view = await self._desk.administer(context, models.find, self._registry, request.provider, request.model)
        return pb.GetModelResponse(model=model_out(view))

    async def UpdateModel(self, request: pb.UpdateModelRequest, context: Call) -> pb.UpdateModelResponse:
        sent, mask = request.model, request.update_mask
        values = values_in(sent, mask, MODEL_READERS)
        if not mask.paths:
            values = {name: value for name, value in values.items() if value is not None}
        place = sent.provider, sent.model, sent.etag
        view = await self._desk.administer(context, models.update, self._registry, *place, values)
        return pb.UpdateModelResponse(model=model_out(view))

    async def ListAdvertisedModels(
        self, request: pb.ListAdvertisedModelsRequest, context: Call
    ) -> pb.ListAdvertisedModelsResponse:
        self._desk.admit_reader(context)
        return pb.ListAdvertisedModelsResponse(models=self._advertised(request.api_key_id))

    async def ListChannels(self, request: pb.ListChannelsRequest, context: Call) -> pb.ListChannelsResponse:
        self._desk.admit_reader(context)
        return pb.ListChannelsResponse(channels=self._channels(request.api_key_id))

    def _provider_page(self, page: Page, custom_only: bool) -> pb.ListProvidersResponse:
        chosen, token = page_of(providers.listed(self._registry, custom_only=custom_only), page)
        return pb.ListProvidersResponse(providers=[provider_out(view) for view in chosen], next_page_token=token)

    def _model_page(self, page: Page, provider: str, connected_only: bool) -> pb.ListModelsResponse:
        chosen, token = page_of(models.listed(self._registry, provider, connected_only=connected_only), page)
        return pb.ListModelsResponse(models=[model_out(view) for view in chosen], next_page_token=token)


def provider_out(view: ProviderView) -> pb.Provider:
    known, record = view.known, view.record
    return pb.Provider(
        id=known.id,
        name=known.name,
        provider_class=known.provider_class.value,
        dialect=known.dialect,
        base_url=known.base_url,
        enabled=record is None or record.enabled,
        custom=record is not None,
        env_names=known.env_names,
        etag=etag(record) if record else "",
    )


def model_out(view: ModelView) -> pb.Model:
    facts, record = view.facts, view.record
    return pb.Model(
        provider=view.provider,
        model=view.model,
        name=view.name,
        input_price=facts.input_price,
        output_price=facts.output_price,
        cached_input_price=facts.cached_input_price,
        context_window=facts.context_window,
        max_output_tokens=facts.max_output,
        capabilities=capabilities_out(facts),
        hidden=facts.hidden,
        fitness=facts.fitness,
        economic_tier=economic_tier(facts, view.model).value,
        source="operator" if record and record.facts else "catalog",
        etag=etag(record) if record else "",
    )


def capabilities_out(facts: ModelFacts) -> list[str]:
    """What it has, then what it is known to lack."""
    return [*sorted(facts.has), *(f"-{name}" for name in sorted(facts.lacks))]
