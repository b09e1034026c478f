"""JSON -> messages of the contract: camelCase names, short enum values, nothing unknown."""

from __future__ import annotations

from datetime import UTC, datetime
from math import isfinite
from typing import Any, cast

from google.protobuf import struct_pb2, timestamp_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from edge_gateway.admin.descriptors import WHOLE, fields_of, is_map, short_values
from edge_gateway.admin.words import is_read_only
from edge_gateway.json_body import Json, shape
from service_kit.errors import invalid

MOST_ITEMS = 10_000
# A message may be nested 100 deep on the wire, and every level of a struct is three of them.
MOST_LEVELS = 24
F = FieldDescriptor
INSTANT = "an instant such as 2030-01-31T12:00:00Z"


def read(message: Message, given: Json, path: str = "") -> None:
    """Fill a message. Null is as good as nothing; what only the service sets is passed over. Raises INVALID_FIELD."""
    fields = {field.json_name: field for field in fields_of(message)}
    for name, value in given.items():
        place = f"{path}{name}"
        field = fields.get(name)
        if field is None:
            raise invalid(place[:200], "an unknown field", ", ".join(fields))
        if value is not None and not is_read_only(field):
            _check_alone(message, field, path)
            _read_field(message, field, value, place)


def _check_alone(message: Message, field: FieldDescriptor, path: str) -> None:
    """Of a choice only one may be given."""
    choice = field.containing_oneof
    if choice is not None and (other := message.WhichOneof(choice.name)):
        both = f"both {message.DESCRIPTOR.fields_by_name[other].json_name} and {field.json_name}"
        raise invalid(path.rstrip(".") or choice.name, both, "one of " + ", ".join(f.json_name for f in choice.fields))


def _read_field(message: Message, field: FieldDescriptor, value: Any, place: str) -> None:
    target = getattr(message, field.name)
    if is_map(field):
        entry = cast(Any, field.message_type).fields_by_name["value"]
        for key, each in _of(dict, value, place, "an object").items():
            target[key] = _scalar(entry, each, f"{place}.{key}")
    elif field.is_repeated:
        for index, each in enumerate(_list(value, place)):
            if field.message_type:
                _read_message(target.add(), each, f"{place}[{index}]")
            else:
                target.append(_scalar(field, each, f"{place}[{index}]"))
    elif field.message_type:
        target.SetInParent()
        _read_message(target, value, place)
    else:
        setattr(message, field.name, _scalar(field, value, place))


def _read_message(message: Message, value: Any, place: str) -> None:
    match message:
        case struct_pb2.Struct():
            given = _of(dict, value, place, "an object")
            _check_levels(given, place)
            message.update(given)
        case timestamp_pb2.Timestamp():
            message.FromDatetime(_instant(value, place))
        case _:
            read(message, _of(dict, value, place, "an object"), f"{place}.")


def _check_levels(value: Json, place: str) -> None:
    level: list[Any] = [value]
    for _ in range(MOST_LEVELS):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise invalid(place, f"nesting deeper than {MOST_LEVELS}", f"at most {MOST_LEVELS} levels")


def _instant(value: Any, place: str) -> datetime:
    try:
        found = datetime.fromisoformat(_of(str, value, place, INSTANT))
    except ValueError:
        raise invalid(place, shape(value), INSTANT) from None
    if found.tzinfo is None:
        raise invalid(place, "an instant without its zone", INSTANT)
    try:
        return found.astimezone(UTC)
    except OverflowError:
        raise invalid(place, shape(value), INSTANT) from None


def _scalar(field: FieldDescriptor, value: Any, place: str) -> Any:
    if field.type == F.TYPE_STRING:
        return _of(str, value, place, "a string")
    if field.type == F.TYPE_BOOL:
        return _of(bool, value, place, "true or false")
    if field.enum_type:
        names = short_values(field.enum_type)
        if not isinstance(value, str) or value not in names:
            raise invalid(place, shape(value), ", ".join(names))
        return names[value]
    return _number(field, value, place)


def _number(field: FieldDescriptor, value: Any, place: str) -> int | float:
    bounds = WHOLE.get(field.type)
    if bounds is None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise invalid(place, shape(value), "a finite number")
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not bounds[0] <= value <= bounds[1]:
        raise invalid(place, shape(value), f"a whole number from {bounds[0]} to {bounds[1]}")
    return value


def _of(kind: type[Any], value: Any, place: str, allowed: str) -> Any:
    if not isinstance(value, kind):
        raise invalid(place, shape(value), allowed)
    return value


def _list(value: Any, place: str) -> list[Any]:
    found: list[Any] = _of(list, value, place, "an array")
    if len(found) > MOST_ITEMS:
        raise invalid(place, shape(value), f"an array of at most {MOST_ITEMS}")
    return found
