"""What only the service sets, what is never shown, and the registry's refusals in the words of the JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from google.protobuf.descriptor import FieldDescriptor

from service_kit.errors import Reason, ServiceError

PACKAGE = "omniroute.registry.v1"
READ_ONLY: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        f"{PACKAGE}.Connection": frozenset({"credential_view", "origin", "created_at", "updated_at"}),
        f"{PACKAGE}.Combo": frozenset({"effective", "version", "created_at", "updated_at"}),
        f"{PACKAGE}.ApiKey": frozenset({"prefix", "created_at", "updated_at"}),
        f"{PACKAGE}.Settings": frozenset({"effective"}),
        f"{PACKAGE}.Provider": frozenset({"custom", "env_names"}),
        f"{PACKAGE}.Model": frozenset({"economic_tier", "source"}),
    }
)
WRITE_ONLY = frozenset({f"{PACKAGE}.Connection.credential"})
# Below these the names are the operator's own.
FREE = ("config", "values")
# Parameters of a query are named as in the contract.
QUERY = frozenset({"page_size", "page_token"})
NO_ADMIN = (
    "The decision service does not let this gateway administer. "
    "Give both the same OMNIROUTE_ADMIN_TOKEN, or use omnictl."
)


def is_read_only(field: FieldDescriptor) -> bool:
    """Whether only the service sets the field, so that it is passed over where it is sent."""
    holder = field.containing_type
    return holder is not None and field.name in READ_ONLY.get(holder.full_name, ())


def camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)


def in_json_words(error: ServiceError, renamed: Mapping[str, str]) -> ServiceError:
    """The refusal with its field as the client wrote it; ``renamed`` has first parts of a path that differ."""
    if error.reason is Reason.FORBIDDEN:
        return ServiceError(Reason.FORBIDDEN, NO_ADMIN)
    first = re.split(r"[.\[]", error.field, maxsplit=1)[0]
    rest = error.field[len(first) :]
    field = renamed.get(first, first if first in QUERY else camel(first)) + (rest if first in FREE else camel(rest))
    message = error.message
    if error.field and message.startswith(error.field):
        message = field + message[len(error.field) :]
    return ServiceError(
        error.reason,
        message,
        field=field,
        retry_after_ms=error.retry_after_ms,
        rate_limited=error.rate_limited,
    )
