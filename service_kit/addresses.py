"""Addresses of services, as settings write them, and what gRPC makes of them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from types import MappingProxyType

ALLOWED = (
    "host:port; dns:///name:port for every address behind a name; or several IP:port of one family, with commas between"
)

LAST_PORT = 65_535

_PORT = re.compile(r":\d{1,5}")


def is_address(text: str) -> bool:
    """Whether a client can be given this; one place alone may have any form that gRPC resolves."""
    return not is_list(text) or bool(_family(_parts(text)))


def is_list(text: str) -> bool:
    """Whether several places are named one by one, so that they have no common name."""
    return "," in text


def target(text: str) -> str:
    """The text as gRPC's resolvers take it; ``text`` is an address."""
    if not is_list(text):
        return text
    parts = _parts(text)
    return f"{_family(parts)}:{','.join(parts)}"


def _parts(text: str) -> Sequence[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _family(parts: Sequence[str]) -> str:
    """``ipv4`` or ``ipv6``; empty when they are no addresses of one family: gRPC resolves no list of names."""
    families = {_family_of(part) for part in parts}
    return families.pop() if len(families) == 1 else ""


def _family_of(part: str) -> str:
    host, colon, port = part.rpartition(":")
    if not _PORT.fullmatch(colon + port) or int(port) > LAST_PORT:
        return ""
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return ""
    if address.version == 6:
        return "ipv6" if host.startswith("[") else ""
    return "ipv4" if host[0] != "[" else ""


def is_place(text: str) -> bool:
    """Whether a server may try to listen there."""
    host, colon, port = text.rpartition(":")
    return bool(host) and bool(_PORT.fullmatch(colon + port)) and int(port) <= LAST_PORT


# Of a setting that holds an address, and of one that says where to listen.
ADDRESS = MappingProxyType({"form": (is_address, ALLOWED)})
PLACE = MappingProxyType({"form": (is_place, "host:port, port 0 for a free one")})
