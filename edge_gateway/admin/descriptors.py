"""What the descriptors of the contract say, in the words of JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

F = FieldDescriptor
WHOLE: Mapping[int, tuple[int, int]] = MappingProxyType(
    {
        F.TYPE_INT32: (-(2**31), 2**31 - 1),
        F.TYPE_UINT32: (0, 2**32 - 1),
        F.TYPE_INT64: (-(2**63), 2**63 - 1),
        F.TYPE_UINT64: (0, 2**64 - 1),
    }
)
STRUCT, VALUE, TIMESTAMP = "google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.Timestamp"


def fields_of(message: Message | type[Message]) -> tuple[FieldDescriptor, ...]:
    """A message's fields, by the public class of descriptors whichever implementation they are of."""
    return cast(tuple[FieldDescriptor, ...], tuple(message.DESCRIPTOR.fields))


def is_map(field: FieldDescriptor) -> bool:
    return bool(field.message_type and field.message_type.GetOptions().map_entry)


def short_values(enum: EnumDescriptor) -> dict[str, int]:
    """Numbers by name, without the enum's own name before them; the unspecified one is left out."""
    prefix = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", enum.name).upper() + "_"
    return {value.name.removeprefix(prefix): value.number for value in enum.values if value.number}
