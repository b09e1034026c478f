"""Reading a client's JSON: a field of the wrong kind is refused by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service_kit.errors import ServiceError, invalid


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object and the path to it. Fields that are missing or null read as nothing.

    Every method raises ServiceError INVALID_FIELD for a field of another kind than it reads.
    """

    value: Mapping[str, Any]
    path: str = ""

    def at(self, name: str) -> str:
        """The path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def wrong(self, name: str, allowed: str) -> ServiceError:
        """The refusal of a field."""
        given = shape(self.value[name]) if name in self.value else "nothing"
        return invalid(self.at(name), given, allowed)

    def text(self, name: str) -> str:
        value = self.value.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "a string")
        return value or ""

    def required_text(self, name: str) -> str:
        value = self.text(name)
        if not value:
            raise self.wrong(name, "a non-empty string")
        return value

    def kind(self, default: str = "") -> str:
        """The field ``type``."""
        return self.text("type") or default

    def fields(self, name: str) -> Fields:
        """An object; an empty one when there is none."""
        value = self.value.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(name, "an object")
        return Fields(value or {}, self.at(name))

    def items(self, name: str) -> list[Fields]:
        """The objects of an array."""
        value = self.value.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.wrong(name, "an array of objects")
        for place, item in enumerate(value):
            if not isinstance(item, dict):
                raise invalid(f"{self.at(name)}[{place}]", shape(item), "an object")
        return [Fields(item, f"{self.at(name)}[{place}]") for place, item in enumerate(value)]

    def numbers(self, *names: str) -> dict[str, Any]:
        """Those of the named fields that hold something: numbers."""
        told = self.passed(*names)
        for name, value in told.items():
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise self.wrong(name, "a number")
        return told

    def flags(self, *names: str) -> dict[str, Any]:
        """Those of the named fields that hold something: true or false."""
        told = self.passed(*names)
        for name, value in told.items():
            if not isinstance(value, bool):
                raise self.wrong(name, "true or false")
        return told

    def passed(self, *names: str) -> dict[str, Any]:
        """Those of the named fields that hold something, as they are."""
        return {name: self.value[name] for name in names if self.value.get(name) is not None}


def shape(value: Any) -> str:
    """What a value is, never the text that it holds."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return f"a string of {len(value)} characters"
        case list():
            return f"an array of {len(value)}"
        case _:
            return f"an object of {len(value)} fields"
