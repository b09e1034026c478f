"""The roster: everything that is configured, in one immutable value, with what is derived from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from decision_service.kernel.knowledge.fitness import fitness_table
from decision_service.kernel.knowledge.synced import NOTHING_SYNCED, Synced
from decision_service.kernel.knowledge.tiers import economic_tier
from decision_service.kernel.model import (
    UNKNOWN_FACTS,
    Candidate,
    Combo,
    Connection,
    KeyPolicy,
    ModelFacts,
    ModelMapping,
    Override,
    Provider,
    Settings,
)

EMPTY: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Roster:
    """What routing works on.

    Keys: providers by id; connections by (provider, id); facts by (provider, model), or by
    (provider, model, connection) where an account knows better; combos by name; overrides by
    (api key id, resolved channel); keys by id. Mappings stand in the order in which they are tried. ``synced`` is what
    outside sources tell of models. Derived: connections by provider, providers that serve a bare model id, and the
    whole pool of the `auto` channels in its total order.
    """

    providers: Mapping[str, Provider]
    connections: Mapping[tuple[str, str], Connection]
    facts: Mapping[tuple[str, ...], ModelFacts] = field(default_factory=dict)
    combos: Mapping[str, Combo] = field(default_factory=dict)
    mappings: tuple[ModelMapping, ...] = ()
    overrides: Mapping[tuple[str, str], Override] = field(default_factory=dict)
    keys: Mapping[str, KeyPolicy] = field(default_factory=dict)
    settings: Settings = Settings()
    synced: Synced = NOTHING_SYNCED
    version: int = 1
    accounts: Mapping[str, tuple[Connection, ...]] = field(init=False)
    serving: Mapping[str, tuple[str, ...]] = field(init=False)
    pool: tuple[Candidate, ...] = field(init=False)

    def __post_init__(self) -> None:
        closed = {
            key: replace(connection, enabled=False)
            for key, connection in self.connections.items()
            if not self.providers[connection.provider].enabled
        }
        if closed:  # a disabled provider's connections are disabled with it
            object.__setattr__(self, "connections", {**self.connections, **closed})
        accounts: dict[str, list[Connection]] = {}
        for connection in self.connections.values():
            accounts.setdefault(connection.provider, []).append(connection)
        object.__setattr__(self, "accounts", {name: tuple(group) for name, group in accounts.items()})
        object.__setattr__(self, "serving", self._serving())
        ordered = sorted(self.mappings, key=lambda m: (-m.priority, -len(m.pattern), m.pattern))
        object.__setattr__(self, "mappings", tuple(ordered))
        object.__setattr__(self, "pool", tuple(sorted(self._pool(), key=lambda c: (c.provider, c.model, c.connection))))

    def _pool(self) -> Iterable[Candidate]:
        for connection in self.connections.values():
            for model in connection.models or self.providers[connection.provider].models[:1]:
                yield self.candidate(connection, model)

    def _serving(self) -> dict[str, tuple[str, ...]]:
        serving: dict[str, dict[str, None]] = {}
        for provider in sorted(self.accounts):
            listed = [model for connection in self.accounts[provider] for model in connection.models]
            for model in (*self.providers[provider].models, *listed):
                serving.setdefault(model, {})[provider] = None
        return {model: tuple(providers) for model, providers in serving.items()}

    def candidate(self, connection: Connection, model: str) -> Candidate:
        """The candidate of one model on one connection, with what the catalogue knows of it."""
        provider = self.providers[connection.provider]
        own = self.facts.get((provider.id, model, connection.id))
        facts = own or self.facts.get((provider.id, model), UNKNOWN_FACTS)
        return Candidate(
            provider=provider.id,
            model=model,
            connection=connection.id,
            provider_class=provider.provider_class,
            account_tier=connection.account_tier,
            facts=facts,
            economic_tier=economic_tier(facts, model),
            fitness=fitness_table(model, facts, self.synced),
        )
