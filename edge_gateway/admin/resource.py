"""A kind of thing that can be listed, stored and removed."""

from __future__ import annotations

from dataclasses import dataclass

from edge_gateway.admin.rpc import Method, method

EVERYTHING = ("list", "create", "get", "replace", "change", "remove")


@dataclass(frozen=True, slots=True)
class Resource:
    """``member`` is its field in requests and answers, ``key`` the fields that say which it is, ``words`` its name."""

    name: str
    words: str
    member: str
    service: str
    path: str
    key: tuple[str, ...] = ("id",)
    at: str = "/{id}"
    can: tuple[str, ...] = EVERYTHING

    def method(self, verb: str) -> Method:
        """The method for ``Get``, ``Create``, ``Update``, ``Delete`` or ``List``."""
        return method(self.service, f"{verb}{self.name}s" if verb == "List" else verb + self.name)
