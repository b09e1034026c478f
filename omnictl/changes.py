"""What a command changes of a stored thing: only what was given."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import orjson
from google.protobuf import json_format, message, timestamp_pb2

from omnictl import documents
from omnictl.problems import CommandError, wrong_usage

M = TypeVar("M", bound=message.Message)
NEVER = "never"
UNKNOWN_FIELD = re.compile(r'has no field named "([^"]*)" at "([^"]*)".*Available Fields[^\[]*\[([^\]]*)\]', re.DOTALL)


def given(**fields: Any) -> dict[str, Any]:
    """The fields that were named on the command line. Raises CommandError when none was: an empty mask means all."""
    values = {name: value for name, value in fields.items() if value is not None}
    if not values:
        raise wrong_usage("nothing to change", "--help lists what can be given")
    return values


def listed(values: list[str] | None) -> list[str] | None:
    """The values of a repeated option; a single empty one means none at all."""
    return None if values is None else [value for value in values if value]


def switched(*, enable: bool, disable: bool) -> bool | None:
    """Raises CommandError for both at once."""
    if enable and disable:
        raise wrong_usage("--enable and --disable: both are given; allowed: one of them")
    return enable if enable or disable else None


def instant(text: str, option: str) -> timestamp_pb2.Timestamp | None:
    """An instant in RFC 3339, UTC where it names no zone; None for ``never``. Raises CommandError."""
    if text == NEVER:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        allowed = "a date or an instant such as 2030-01-31 or 2030-01-31T12:00:00Z, or never"
        raise wrong_usage(f"{option}: got {text!r}; allowed: {allowed}") from None
    stamp = timestamp_pb2.Timestamp()
    stamp.FromDatetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    return stamp


def from_file(path: str, empty: M, output_only: Iterable[str]) -> tuple[M, list[str]]:
    """A message from a YAML or JSON file, and the names of the fields that the file gives. Raises CommandError.

    Names may be as in the contract or in camel case. What is output only is left out, so that an answer can be edited
    and sent back.
    """
    raw, file = documents.read(path), documents.name(path)
    if not isinstance(raw, Mapping):
        raise wrong_usage(f"{file}: got a {type(raw).__name__}; allowed: an object")
    fields = empty.DESCRIPTOR.fields
    names = {alias: field.name for field in fields for alias in (field.name, field.json_name)}
    kept = {key: value for key, value in raw.items() if names.get(key) not in {*output_only}}
    try:
        json_format.Parse(orjson.dumps(kept, option=orjson.OPT_NON_STR_KEYS), empty)
    except (json_format.ParseError, orjson.JSONEncodeError) as error:
        raise wrong_usage(f"{file}: {_told(str(error))}") from None
    return empty, [names[key] for key in kept]


def _told(problem: str) -> str:
    """An unknown field in the words that the service uses; other problems as they are."""
    found = UNKNOWN_FIELD.search(problem)
    if found is None:
        return problem
    name, path, known = found.groups()
    return (
        f"{path.partition('.')[2]}.{name}".lstrip(".") + f": got an unknown key; allowed: {known.replace(chr(39), '')}"
    )


def by_id_or_name(rows: list[M], wanted: str, kind: str) -> M:
    """The row with this id, else the one with this name. Raises CommandError."""
    found = [row for row in rows if getattr(row, "id", "") == wanted]
    found = found or [row for row in rows if getattr(row, "name", "") == wanted]
    if len(found) != 1:
        several = ", ".join(getattr(row, "id", "") for row in found)
        problem = f"several have the name {wanted!r}: {several}" if found else f"there is no {kind} {wanted!r}"
        raise CommandError(problem, f"`omnictl {kind}s list` shows them")
    return found[0]
