"""All that is configured at one revision of the store, in one immutable value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from decision_service import credentials
from decision_service.catalog import KnownProvider
from decision_service.kernel.roster import Roster
from decision_service.roster_source.kernel_values import roster_of
from decision_service.roster_source.knowledge import known_provider, provider_ids
from decision_service.roster_source.stored import Stored, Surroundings
from decision_service.store import records


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How a connection is spoken to."""

    dialect: str
    base_url: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The roster and what belongs to it outside the kernel.

    ``connections`` (by id) holds the stored ones and the simulated ones; ``endpoints`` are by connection id too.
    ``providers`` are those that are connected or stored, ``provider_ids`` all that a policy may name; ``keys`` are the
    API keys by digest.
    """

    stored: Stored
    roster: Roster
    providers: Mapping[str, KnownProvider]
    provider_ids: frozenset[str]
    connections: Mapping[str, records.ConnectionRecord]
    endpoints: Mapping[str, Endpoint]
    keys: Mapping[bytes, records.ApiKeyRecord] = field(repr=False)

    @property
    def revision(self) -> int:
        return self.stored.revision


def build(stored: Stored, around: Surroundings) -> Snapshot:
    """The snapshot of what is stored. Raises ServiceError when a stored combo cannot be read any more."""
    connections = _connections(stored, around)
    providers = _providers(stored, around, {record.provider for record in connections.values()})
    connected = {id_: record for id_, record in connections.items() if record.provider in providers}
    return Snapshot(
        stored=stored,
        roster=roster_of(stored, around, providers, connected),
        providers=providers,
        provider_ids=provider_ids(around.catalog, (key[0] for key in stored.of(records.PROVIDERS)), around.demo),
        connections=connections,
        endpoints={id_: _endpoint(record, providers[record.provider]) for id_, record in connected.items()},
        keys={record.digest: record for record in stored.of(records.API_KEYS).values()},
    )


def _connections(stored: Stored, around: Surroundings) -> dict[str, records.ConnectionRecord]:
    found = {record.id: record for record in stored.of(records.CONNECTIONS).values()}
    for provider in around.demo:
        name = f"demo-{provider.id}"
        found[name] = records.ConnectionRecord(
            id=name, provider=provider.id, label=provider.name, models=provider.models, origin=credentials.DEMO
        )
    return dict(sorted(found.items()))


def _providers(stored: Stored, around: Surroundings, connected: Iterable[str]) -> dict[str, KnownProvider]:
    """Those that are connected or stored; a provider that nobody knows any more is left out with its connections."""
    changed: dict[str, list[records.ModelRecord]] = {}
    for model in stored.of(records.MODELS).values():
        changed.setdefault(model.provider, []).append(model)
    demo = {provider.id: provider for provider in around.demo}
    rows = stored.of(records.PROVIDERS)
    found = {}
    for name in sorted({*connected, *(key[0] for key in rows)}):
        catalogued, row = demo.get(name) or around.catalog.provider(name), rows.get((name,))
        if catalogued or row:
            found[name] = known_provider(catalogued, row, changed.get(name, ()))
    return found


def _endpoint(record: records.ConnectionRecord, provider: KnownProvider) -> Endpoint:
    return Endpoint(provider.dialect, record.base_url or provider.base_url)


def provider_at(snapshot: Snapshot, around: Surroundings, name: str) -> KnownProvider | None:
    """A provider as known at a snapshot, also where it is not connected; None: nobody knows it."""
    if name in snapshot.providers or name not in snapshot.provider_ids:
        return snapshot.providers.get(name)
    changed = [row for row in snapshot.stored.of(records.MODELS).values() if row.provider == name]
    return known_provider(around.catalog.provider(name), None, changed)


def changed_credentials(before: Snapshot, after: Snapshot) -> frozenset[tuple[str, str]]:
    """The (provider, connection id) whose credential was set anew between two snapshots, to the same value too."""
    return frozenset(
        (record.provider, record.id)
        for record in after.connections.values()
        if (old := before.connections.get(record.id)) is not None
        and (old.credential_kind, old.reference, old.sealed)
        != (record.credential_kind, record.reference, record.sealed)
    )
