"""Which value is in force, and which layer sets it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from decision_service.kernel.model import ComboConfig, Settings
from decision_service.kernel.weights import PACKS, normalised
from decision_service.policy.config import CANONICAL, INCLUDE_SESSION, SECRET_FIELD
from decision_service.policy.settings import SETTINGS

DEFAULT_STICKY_ROUND_ROBIN = 3


@dataclass(frozen=True, slots=True)
class Effective:
    """One value in force. ``layer`` is combo, global (a setting for all combos), settings or default."""

    key: str
    value: Any
    layer: str


def effective_config(config: ComboConfig, given: Mapping[str, Any], settings: Settings) -> tuple[Effective, ...]:
    """The values that rule a combo, in the order of the documentation. ``given`` is what its config names."""
    return tuple(_config_values(config, given, settings))


def effective_settings(settings: Settings, given: Mapping[str, Any]) -> tuple[Effective, ...]:
    """Every setting with its value. ``given`` is what is stored."""
    return tuple(
        Effective(name, getattr(settings, field), "default" if given.get(name) is None else "settings")
        for name, (field, _) in SETTINGS.items()
    )


def _config_values(config: ComboConfig, given: Mapping[str, Any], settings: Settings) -> Iterator[Effective]:
    for field, key in CANONICAL.items():
        if field in INHERITED and field not in given:
            value, layer = INHERITED[field](settings)
            yield Effective(key, value, layer)
        elif field == "weights":
            yield _weights(config, given, key)
        elif field not in (SECRET_FIELD, INCLUDE_SESSION):
            yield Effective(key, _plain(_field(config, field)), "combo" if field in given else "default")


def _weights(config: ComboConfig, given: Mapping[str, Any], key: str) -> Effective:
    """A pack replaces the whole map; else the combo's own weights; else balanced."""
    if config.mode_pack is not None:
        return Effective(key, dict(PACKS[config.mode_pack]), "combo")
    layer = "combo" if "weights" in given else "default"
    return Effective(key, dict(normalised(config.weights or {})), layer)


def _sticky_round_robin(settings: Settings) -> tuple[Any, str]:
    if settings.combo_sticky_round_robin_limit is not None:
        return settings.combo_sticky_round_robin_limit, "global"
    if settings.sticky_round_robin_limit is not None:
        return settings.sticky_round_robin_limit, "settings"
    return DEFAULT_STICKY_ROUND_ROBIN, "default"


def _switch(value: bool) -> tuple[Any, str]:
    return value, "settings" if value else "default"


INHERITED: Mapping[str, Callable[[Settings], tuple[Any, str]]] = {
    "sticky_round_robin_limit": _sticky_round_robin,
    "connection_aware_expansion": lambda settings: _switch(settings.connection_aware_expansion),
    "disable_session_stickiness": lambda settings: _switch(settings.disable_session_stickiness),
}


def _field(config: ComboConfig, field: str) -> Any:
    group, dot, inner = field.partition(".")
    return getattr(getattr(config, group), inner) if dot else getattr(config, group)


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else list(value) if isinstance(value, tuple) else value
