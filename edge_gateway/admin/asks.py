"""An administrative request and its answer, apart from HTTP's mechanics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from edge_gateway.admin.descriptors import fields_of
from edge_gateway.admin.rpc import Remote
from edge_gateway.json_body import Json
from service_kit.errors import invalid

ADMIN = "admin"
MOST_ETAG = 128
BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Ask:
    """What was asked for. ``etag`` is from If-Match, empty when any will do."""

    path: Mapping[str, str]
    query: tuple[tuple[str, str], ...] = ()
    body: Json = field(default_factory=dict)
    etag: str = ""
    api_key_id: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """``body`` None: there is none. Headers by lower-case name."""

    body: Json | None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Act = Callable[[Ask, Remote], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the table. ``path`` is a Starlette path; ``query`` a message whose scalar fields may be parameters.

    ``takes`` and ``gives`` name schemas; ``example`` is a body that can be sent, ``at`` the path and query
    that go with it. ``matches``: an If-Match header counts.
    """

    method: str
    path: str
    summary: str
    act: Act
    gives: str = ""
    takes: str = ""
    query: type[Message] | None = None
    status: int = 200
    scope: str = ADMIN
    matches: bool = False
    example: Json | None = None
    at: Mapping[str, str] = field(default_factory=dict)


def read_query(message: Message, query: Iterable[tuple[str, str]]) -> None:
    """Fill a message's scalar fields from a query string. Raises INVALID_FIELD for what is unknown, twice or wrong."""
    fields = {each.name: each for each in fields_of(message) if is_parameter(each)}
    seen = set()
    for name, value in query:
        if name not in fields:
            raise invalid(name[:100], "an unknown parameter", ", ".join(fields) or "no parameters")
        if name in seen:
            raise invalid(name, "two values", "one value")
        seen.add(name)
        setattr(message, name, _parameter(fields[name], name, value))


def is_parameter(each: FieldDescriptor) -> bool:
    return each.message_type is None and not each.is_repeated


def _parameter(each: FieldDescriptor, name: str, value: str) -> str | int | bool:
    if each.type == FieldDescriptor.TYPE_STRING:
        return value
    if each.type == FieldDescriptor.TYPE_BOOL:
        if value not in BOOLEANS:
            raise invalid(name, f"a string of {len(value)} characters", "true or false")
        return BOOLEANS[value]
    if not value.isascii() or not value.isdecimal() or len(value) > 9:
        raise invalid(name, f"a string of {len(value)} characters", "a whole number from 0 to 999999999")
    return int(value)


def if_match(value: str) -> str:
    """The one entity tag of an If-Match header; empty for none and for ``*``. Raises INVALID_FIELD."""
    given = value.strip()
    if given in ("", "*"):
        return ""
    tag = given.removeprefix("W/")
    if len(tag) < 3 or len(tag) > MOST_ETAG or tag[0] != '"' or tag[-1] != '"' or '"' in tag[1:-1]:
        raise invalid("If-Match", f"a string of {len(value)} characters", 'one quoted entity tag, or "*"')
    return tag[1:-1]
