"""Messages of the contract -> JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from edge_gateway.admin.descriptors import STRUCT, TIMESTAMP, VALUE, fields_of, is_map, short_values
from edge_gateway.admin.words import WRITE_ONLY
from edge_gateway.json_body import Json


def write(message: Message) -> Json:
    """A message as JSON. Fields that know whether they are set are left out when they are not."""
    return {
        field.json_name: _written(field, getattr(message, field.name))
        for field in fields_of(message)
        if field.full_name not in WRITE_ONLY and not (field.has_presence and not message.HasField(field.name))
    }


def _written(field: FieldDescriptor, value: Any) -> Any:
    if is_map(field):
        return dict(sorted(value.items()))
    return [_one(field, each) for each in value] if field.is_repeated else _one(field, value)


def _one(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type:
        names = {number: name for name, number in short_values(field.enum_type).items()}
        return names.get(value, "UNSPECIFIED")
    if field.message_type:
        return MESSAGES.get(field.message_type.full_name, write)(value)
    return value


def _plain(value: Any) -> Any:
    """A value of a struct; whole numbers come as such."""
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
    if kind == "struct_value":
        return _plain_struct(value.struct_value)
    if kind == "list_value":
        return [_plain(item) for item in value.list_value.values]
    return None if kind in (None, "null_value") else getattr(value, kind)


def _plain_struct(struct: Any) -> Json:
    return {key: _plain(value) for key, value in sorted(struct.fields.items())}


MESSAGES: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {STRUCT: _plain_struct, VALUE: _plain, TIMESTAMP: lambda stamp: stamp.ToJsonString()}
)
