"""Providers and models that are known before anybody stores anything."""

from decision_service.catalog.bundled import Catalog, KnownProvider

__all__ = ["Catalog", "KnownProvider"]
