"""The kinds of things, a row each, and the operations that a row becomes."""

from __future__ import annotations

from collections.abc import Iterator

from edge_gateway.admin import standard
from edge_gateway.admin.asks import Operation
from edge_gateway.admin.examples import AT, BODIES, CHANGES
from edge_gateway.admin.resource import Resource

MODELS = Resource(
    name="Model",
    words="model",
    member="model",
    service="CatalogService",
    path="/api/models",
    key=("provider", "model"),
    at="/{provider}/{model:path}",
    can=("list", "replace", "get", "change"),
)
OVERRIDES = Resource(
    name="Override",
    words="override",
    member="override",
    service="OverrideService",
    path="/api/overrides",
    key=("api_key_id", "channel"),
    at="/{api_key_id}/{channel:path}",
    can=("list", "replace", "get", "remove"),
)
RESOURCES = (
    Resource("Provider", "provider", "provider", "CatalogService", "/api/providers"),
    MODELS,
    Resource("Connection", "connection", "connection", "ConnectionService", "/api/connections"),
    Resource("Combo", "combo", "combo", "ComboService", "/api/combos"),
    Resource("ModelMapping", "model mapping", "mapping", "ModelMappingService", "/api/model-combo-mappings"),
    Resource("ApiKey", "API key", "key", "ApiKeyService", "/api/keys"),
    OVERRIDES,
)


def operations(kind: Resource) -> Iterator[Operation]:
    """The rows of the table of operations that a resource is."""
    return (ROWS[verb](kind) for verb in kind.can)


def _list(kind: Resource) -> Operation:
    listing = kind.method("List")
    gives, query = listing.answer.DESCRIPTOR.full_name, listing.request
    return Operation("GET", kind.path, f"A page of {kind.words}s", standard.list_of(kind), gives, query=query)


def _create(kind: Resource) -> Operation:
    return Operation(
        "POST",
        kind.path,
        f"Store a new {kind.words}",
        standard.create_of(kind),
        _named(kind),
        _named(kind),
        status=201,
        example=BODIES[kind.name],
    )


def _get(kind: Resource) -> Operation:
    path, summary = kind.path + kind.at, f"One {kind.words}"
    return Operation("GET", path, summary, standard.get_of(kind), _named(kind), at=AT[kind.name])


def _replace(kind: Resource) -> Operation:
    return Operation(
        "PUT",
        kind.path + kind.at,
        f"Replace {_one(kind)}",
        standard.update_of(kind, whole=True),
        _named(kind),
        _named(kind),
        matches=True,
        example=BODIES[kind.name],
        at=AT[kind.name],
    )


def _change(kind: Resource) -> Operation:
    return Operation(
        "PATCH",
        kind.path + kind.at,
        f"Change the given fields of {_one(kind)}",
        standard.update_of(kind, whole=False),
        _named(kind),
        _named(kind),
        matches=True,
        example=CHANGES[kind.name],
        at=AT[kind.name],
    )


def _remove(kind: Resource) -> Operation:
    path, summary, at = kind.path + kind.at, f"Remove {_one(kind)}", AT[kind.name]
    return Operation("DELETE", path, summary, standard.remove_of(kind), status=204, matches=True, at=at)


def _one(kind: Resource) -> str:
    return f"{'an' if kind.words[0] in 'AEIOaeio' else 'a'} {kind.words}"


def _named(kind: Resource) -> str:
    return f"omniroute.registry.v1.{kind.name}"


ROWS = {
    "list": _list,
    "create": _create,
    "get": _get,
    "replace": _replace,
    "change": _change,
    "remove": _remove,
}
