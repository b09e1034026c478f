"""Bodies that can be sent in the table's order to a service that stores nothing yet, and the paths they go to."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from edge_gateway.json_body import Json

AT: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "Provider": {"id": "example"},
        "Model": {"provider": "example", "model": "small"},
        "Connection": {"id": "example-1"},
        "Combo": {"id": "fast"},
        "ModelMapping": {"id": "old-name"},
        "ApiKey": {"id": "team"},
        "Override": {"api_key_id": "team", "channel": "auto"},
    }
)
BODIES: Mapping[str, Json] = MappingProxyType(
    {
        "Provider": {
            "id": "example",
            "name": "Example",
            "providerClass": "local",
            "dialect": "openai",
            "baseUrl": "http://127.0.0.1:9/v1",
        },
        "Model": {
            "name": "Small",
            "inputPrice": 0.1,
            "outputPrice": 0.4,
            "contextWindow": 32000,
            "capabilities": ["tools"],
        },
        "Connection": {
            "id": "example-1",
            "provider": "example",
            "models": ["small", "large"],
            "accountTier": "pro",
            "credential": {"none": {}},
        },
        "Combo": {
            "id": "fast",
            "name": "fast",
            "strategy": "priority",
            "steps": ["example/small", {"model": "example/large", "connectionId": "example-1"}],
        },
        "ModelMapping": {"id": "old-name", "pattern": "old-*", "combo": "fast", "priority": 1},
        "ApiKey": {
            "id": "team",
            "name": "Team",
            "scopes": ["inference", "admin"],
            "limits": {"requestsPerMinute": 60, "usdPerDay": 5},
        },
        "Override": {"candidates": [{"candidate": "example/large@example-1", "multiplier": 0.5}]},
    }
)
CHANGES: Mapping[str, Json] = MappingProxyType(
    {
        "Provider": {"name": "Example, renamed"},
        "Model": {"fitness": {"coding": 0.8}, "outputPrice": None},
        "Connection": {"label": "First account", "enabled": True},
        "Combo": {"models": ["example/large", "example/small"], "config": {"maxRetries": 1}},
        "ModelMapping": {"priority": 2},
        "ApiKey": {"allowedModels": ["auto", "fast", "example/*"]},
    }
)
