"""What the rows hold, as values. Field names are column names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from decision_service.store import tables
from decision_service.store.sql import Shelf


class Stamped(Protocol):
    """What every stored thing carries."""

    @property
    def version(self) -> int: ...
    @property
    def created_at(self) -> int: ...
    @property
    def updated_at(self) -> int: ...


def etag(record: Stamped) -> str:
    """Differs after every change, and between a thing and a later one of the same name."""
    return f"{record.version:x}-{record.created_at:x}-{record.updated_at:x}" if record.version else ""


@dataclass(frozen=True, slots=True)
class ProviderRecord:
    """A provider that an operator stored, or what an operator changed of a catalogue provider."""

    id: str
    name: str
    provider_class: str
    dialect: str
    base_url: str
    enabled: bool = True
    version: int = 0
    created_at: int = 0
    updated_at: int = 0


@dataclass(frozen=True, slots=True)
class ConnectionRecord:
    """One account. ``sealed`` is the encrypted credential of kinds api_key and oauth.

    ``expires_at`` is the end of an OAuth access token, ``renewable`` says that there is a refresh token.
    """

    id: str
    provider: str
    label: str = ""
    enabled: bool = True
    default_model: str = ""
    models: tuple[str, ...] = ()
    base_url: str = ""
    account_tier: str = "standard"
    max_concurrent: int = 0
    origin: str = "operator"
    credential_kind: str = "none"
    reference: str = ""
    sealed: bytes | None = field(default=None, repr=False)
    fingerprint: str = ""
    expires_at: int | None = None
    renewable: bool = False
    version: int = 0
    created_at: int = 0
    updated_at: int = 0


@dataclass(frozen=True, slots=True)
class ComboRecord:
    """A combo as written; ``steps`` in the form of ``policy.steps.write_step``, ``sealed`` the secret of its config."""

    id: str
    name: str
    strategy: str
    steps: Sequence[Mapping[str, Any]] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""
    sealed: bytes | None = field(default=None, repr=False)
    version: int = 0
    created_at: int = 0
    updated_at: int = 0


@dataclass(frozen=True, slots=True)
class MappingRecord:
    """A glob that leads to a combo."""

    id: str
    pattern: str
    combo: str
    priority: int = 0
    version: int = 0
    created_at: int = 0
    updated_at: int = 0


@dataclass(frozen=True, slots=True)
class ApiKeyRecord:
    """A key; of its text only the keyed digest and the first characters are kept."""

    id: str
    name: str
    digest: bytes = field(default=b"", repr=False)
    prefix: str = ""
    enabled: bool = True
    scopes: tuple[str, ...] = ("inference",)
    allowed_models: tuple[str, ...] = ()
    allowed_connections: tuple[str, ...] = ()
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    usd_per_day: float = 0.0
    usd_per_month: float = 0.0
    expires_at: int | None = None
    version: int = 0
    created_at: int = 0
    updated_at: int = 0


@dataclass(frozen=True, slots=True)
class OverrideRecord:
    """What a key changes in a channel; ``candidates`` maps a candidate id to ``{excluded, multiplier}``."""

    api_key_id: str
    channel: str
    candidates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    strategy: str = ""
    version: int = 0
    created_at: int = 0
    updated_at: int = 0


@dataclass(frozen=True, slots=True)
class SettingsRecord:
    """The settings that are set."""

    id: str = "settings"
    settings: Mapping[str, Any] = field(default_factory=dict)
    version: int = 0
    created_at: int = 0
    updated_at: int = 0


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """What an operator knows better of a model; ``facts`` holds only what is overridden."""

    provider: str
    model: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    version: int = 0
    created_at: int = 0
    updated_at: int = 0


@dataclass(frozen=True, slots=True)
class KnowledgeRecord:
    """What one outside source last told of models: a value by model."""

    source: str
    known: Mapping[str, Any] = field(default_factory=dict)
    fetched_at: int = 0


PROVIDERS = Shelf("provider", tables.providers, ProviderRecord)
CONNECTIONS = Shelf("connection", tables.connections, ConnectionRecord)
COMBOS = Shelf("combo", tables.combos, ComboRecord)
MAPPINGS = Shelf("model mapping", tables.mappings, MappingRecord)
API_KEYS = Shelf("API key", tables.api_keys, ApiKeyRecord)
OVERRIDES = Shelf("override", tables.overrides, OverrideRecord, ("api_key_id", "channel"))
SETTINGS = Shelf("settings", tables.settings, SettingsRecord)
MODELS = Shelf("model", tables.model_overrides, ModelRecord, ("provider", "model"))
KNOWLEDGE = Shelf("synced knowledge", tables.synced_knowledge, KnowledgeRecord, ("source",))
