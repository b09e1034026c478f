"""Settings of the whole service, from plain values."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from decision_service.kernel.model import Settings
from decision_service.policy.fields import Reader, flag, read_object, whole
from decision_service.policy.known import TRUSTED

# Setting -> field of the kernel's Settings, and its reader.
SETTINGS: Mapping[str, tuple[str, Reader]] = MappingProxyType(
    {
        "hidePaidModels": ("hide_paid_models", flag),
        "comboStickyRoundRobinLimit": ("combo_sticky_round_robin_limit", whole(1, 1_000)),
        "stickyRoundRobinLimit": ("sticky_round_robin_limit", whole(1, 1_000)),
        "connectionAwareExpansion": ("connection_aware_expansion", flag),
        "disableSessionStickiness": ("disable_session_stickiness", flag),
        "promptCacheAffinityEnabled": ("prompt_cache_affinity_enabled", flag),
        "comboRefMaxDepth": ("combo_ref_max_depth", whole(1, 10)),
    }
)


def parse_settings(raw: Any, path: str = "settings") -> Settings:
    """The kernel's settings; null and absent read as the default. Raises INVALID_FIELD."""
    given = read_object({} if raw is None else raw, path, SETTINGS)
    values = {}
    for name, value in given.items():
        if value is not None:
            field, read = SETTINGS[name]
            values[field] = read(value, f"{path}.{name}", TRUSTED)
    return Settings(**values)
