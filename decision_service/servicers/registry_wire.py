"""What the registry's messages share: masks, instants, structs, pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from google.protobuf import field_mask_pb2, struct_pb2, timestamp_pb2

from decision_service.policy.effective import Effective
from decision_service.policy.fields import shape
from decision_service.registry.paging import Page
from decision_service.store.records import Stamped, etag
from omniroute.registry.v1 import registry_pb2 as pb
from service_kit.errors import invalid

M = TypeVar("M")
Readers = Mapping[str, Callable[[M], Any]]
MOST_MS = 253_402_300_799_999  # the last instant that a Timestamp can hold


class PageRequest(Protocol):
    """What every list request has."""

    @property
    def page_size(self) -> int: ...
    @property
    def page_token(self) -> str: ...


def page_in(request: PageRequest, scope: str) -> Page:
    return Page(scope, request.page_size, request.page_token)


def values_in(message: M, mask: field_mask_pb2.FieldMask, readers: Readers[M]) -> dict[str, Any]:
    """The masked fields of a message; an empty mask, or ``*``, is all. Raises INVALID_FIELD for an unknown path."""
    paths = list(mask.paths)
    for path in paths:
        if path != "*" and path not in readers:
            raise invalid("update_mask", shape(path), ", ".join(readers))
    chosen = readers if not paths or "*" in paths else paths
    return {path: readers[path](message) for path in chosen}


def all_values(message: M, readers: Readers[M]) -> dict[str, Any]:
    """Every field of a new resource."""
    return {path: read(message) for path, read in readers.items()}


def stamp_out(record: Stamped) -> dict[str, Any]:
    """The etag and the instants of a record; nothing for what is not stored."""
    if not record.version:
        return {}
    return {
        "etag": etag(record),
        "created_at": instant_out(record.created_at),
        "updated_at": instant_out(record.updated_at),
    }


def instant_in(stamp: timestamp_pb2.Timestamp, field: str) -> int:
    """Milliseconds since the epoch."""
    millis = stamp.seconds * 1000 + stamp.nanos // 1_000_000
    if not 0 < millis <= MOST_MS or not 0 <= stamp.nanos < 1_000_000_000:
        raise invalid(field, f"an instant {stamp.seconds} s from 1970", "an instant from 1970 to 9999")
    return millis


def instant_out(millis: int) -> timestamp_pb2.Timestamp:
    stamp = timestamp_pb2.Timestamp()
    stamp.FromMilliseconds(min(millis, MOST_MS))
    return stamp


def plain_struct(struct: struct_pb2.Struct) -> dict[str, Any]:
    """A struct as plain values; whole numbers come as int."""
    return {key: _plain(value) for key, value in struct.fields.items()}


def _plain(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
    if kind == "struct_value":
        return plain_struct(value.struct_value)
    if kind == "list_value":
        return [_plain(item) for item in value.list_value.values]
    return None if kind in (None, "null_value") else getattr(value, kind)


def struct_out(values: Mapping[str, Any]) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update(dict(values))
    return struct


def effective_out(values: Iterable[Effective]) -> list[pb.EffectiveValue]:
    return [pb.EffectiveValue(key=each.key, value=_value_out(each.value), layer=each.layer) for each in values]


def _value_out(value: Any) -> struct_pb2.Value:
    return struct_out({"": value}).fields[""]
