"""The registry's services on a server."""

from __future__ import annotations

import grpc.aio

from decision_service.registry import Registry
from decision_service.registry.oauth import Renewals
from decision_service.servicers.registry_catalog import Advertised, CatalogServicer, Channels
from decision_service.servicers.registry_combos import ComboServicer
from decision_service.servicers.registry_connections import ConnectionServicer
from decision_service.servicers.registry_credentials import CredentialServicer
from decision_service.servicers.registry_desk import Desk
from decision_service.servicers.registry_keys import ApiKeyServicer
from decision_service.servicers.registry_mappings import ModelMappingServicer
from decision_service.servicers.registry_overrides import OverrideServicer, SettingsServicer
from omniroute.registry.v1 import registry_pb2_grpc as services


class RegistryServicers:
    """Everything of ``omniroute.registry.v1`` but StateService."""

    def __init__(
        self, registry: Registry, desk: Desk, renewals: Renewals, *, advertised: Advertised, channels: Channels
    ) -> None:
        """``advertised`` and ``channels`` are called on the event loop with an API key id (empty: none)."""
        self._connections = ConnectionServicer(registry, desk)
        self._combos = ComboServicer(registry, desk)
        self._mappings = ModelMappingServicer(registry, desk)
        self._keys = ApiKeyServicer(registry, desk)
        self._overrides = OverrideServicer(registry, desk)
        self._settings = SettingsServicer(registry, desk)
        self._catalog = CatalogServicer(registry, desk, advertised, channels)
        self._credentials = CredentialServicer(registry, desk, renewals)

    def register(self, server: grpc.aio.Server) -> None:
        """Add all of them to a server that has not started."""
        services.add_ConnectionServiceServicer_to_server(self._connections, server)
        services.add_ComboServiceServicer_to_server(self._combos, server)
        services.add_ModelMappingServiceServicer_to_server(self._mappings, server)
        services.add_ApiKeyServiceServicer_to_server(self._keys, server)
        services.add_OverrideServiceServicer_to_server(self._overrides, server)
        services.add_SettingsServiceServicer_to_server(self._settings, server)
        services.add_CatalogServiceServicer_to_server(self._catalog, server)
        services.add_CredentialServiceServicer_to_server(self._credentials, server)
