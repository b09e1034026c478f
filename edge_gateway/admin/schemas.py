"""Messages of the contract as JSON schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import Default

from edge_gateway.admin.descriptors import STRUCT, TIMESTAMP, VALUE, WHOLE, is_map, short_values
from edge_gateway.admin.reading import MOST_ITEMS
from edge_gateway.admin.words import WRITE_ONLY, is_read_only
from edge_gateway.json_body import Json

WELL_KNOWN: Mapping[str, Json] = MappingProxyType(
    {
        STRUCT: {"type": "object"},
        VALUE: {},
        TIMESTAMP: {"type": "string", "format": "date-time"},
    }
)
F = FieldDescriptor
SIMPLE: Mapping[int, Json] = MappingProxyType(
    {
        F.TYPE_STRING: {"type": "string"},
        F.TYPE_BOOL: {"type": "boolean"},
        F.TYPE_DOUBLE: {"type": "number"},
    }
)
# What answers tell beside the thing itself.
BESIDE: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        "omniroute.registry.v1.Combo": (("warning", "omniroute.registry.v1.Warning"),),
        "omniroute.registry.v1.ApiKey": (("secret", ""),),
    }
)
STEP_NAMES = ("steps", "targets", "models")


def short(full_name: str) -> str:
    return full_name.rsplit(".", 1)[-1]


def input_name(full_name: str) -> str:
    return f"{short(full_name).removesuffix('Input')}Input"


def answers(names: Iterable[str]) -> dict[str, Json]:
    """Schemas of these messages and of all that they hold, by short name."""
    return {short(each.full_name): _object(each, _shown, short) for each in _reached(names, _shown)}


def inputs(names: Iterable[str]) -> dict[str, Json]:
    """The same of what is sent; every name ends in Input."""
    found = {input_name(each.full_name): _object(each, _given, input_name) for each in _reached(names, _given)}
    if "ComboInput" in found:
        _widen(found["ComboInput"]["properties"], found["ComboStepInput"]["properties"])
    return found


def parameter(field: FieldDescriptor) -> Json:
    if field.cpp_type == F.CPPTYPE_INT32:
        return {"type": "integer", "minimum": 0, "maximum": 1000}
    return _type(field, short)


def _widen(combo: Json, step: Json) -> None:
    """Steps have three names, may be texts, and may say ``id`` for ``stepId``."""
    sent = combo["steps"]["anyOf"][0]
    sent["items"] = {"anyOf": [{"type": "string"}, sent["items"]]}
    for name in STEP_NAMES:
        combo[name] = combo["steps"]
    step["id"] = step["stepId"]


Taken = Callable[[FieldDescriptor], bool]


def _shown(field: FieldDescriptor) -> bool:
    return field.full_name not in WRITE_ONLY


def _given(field: FieldDescriptor) -> bool:
    return not is_read_only(field)


def _reached(names: Iterable[str], taken: Taken) -> Iterator[Descriptor]:
    waiting = [Default().FindMessageTypeByName(name) for name in names]
    seen = set()
    while waiting:
        found = waiting.pop()
        if found.full_name in seen or found.full_name in WELL_KNOWN:
            continue
        seen.add(found.full_name)
        if not found.GetOptions().map_entry:
            yield found
        waiting += [field.message_type for field in found.fields if field.message_type and taken(field)]
        if taken is _shown:
            beside = (name for _, name in BESIDE.get(found.full_name, ()) if name)
            waiting += [Default().FindMessageTypeByName(name) for name in beside]


def _object(message: Descriptor, taken: Taken, name_of: Callable[[str], str]) -> Json:
    fields: Json = {field.json_name: _field(field, name_of) for field in message.fields if taken(field)}
    if name_of is short:
        for name, held in BESIDE.get(message.full_name, ()):
            fields[name] = {"$ref": f"#/components/schemas/{short(held)}"} if held else {"type": "string"}
        required = [f.json_name for f in message.fields if taken(f) and not f.has_presence]
        return {"type": "object", "properties": fields, "required": required}
    fields = {name: {"anyOf": [each, {"type": "null"}]} for name, each in fields.items()}
    return {"type": "object", "properties": fields, "additionalProperties": False}


def _field(field: FieldDescriptor, name_of: Callable[[str], str]) -> Json:
    if is_map(field):
        entry = cast(Descriptor, field.message_type)
        return {"type": "object", "additionalProperties": _type(entry.fields_by_name["value"], name_of)}
    one = _type(field, name_of)
    return {"type": "array", "items": one, "maxItems": MOST_ITEMS} if field.is_repeated else one


def _type(field: FieldDescriptor, name_of: Callable[[str], str]) -> Json:
    if field.message_type:
        full_name = field.message_type.full_name
        known = WELL_KNOWN.get(full_name)
        return {"$ref": f"#/components/schemas/{name_of(full_name)}"} if known is None else dict(known)
    if field.enum_type:
        names = list(short_values(field.enum_type))
        return {"type": "string", "enum": names if name_of is input_name else [*names, "UNSPECIFIED"]}
    if field.type in WHOLE:
        low, high = WHOLE[field.type]
        return {"type": "integer", "minimum": low, "maximum": high}
    return dict(SIMPLE[field.type])
