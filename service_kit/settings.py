"""Environment variables into one frozen dataclass, with errors that an operator can act on."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off"})


class Dataclass(Protocol):
    """Anything that ``@dataclass`` made."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


T = TypeVar("T", bound=Dataclass)


class SettingsError(Exception):
    """A variable that cannot be used: names it, the shape of its value and what is allowed."""


def read(cls: type[T], environ: Mapping[str, str], prefix: str = "OMNIROUTE_") -> T:
    """One ``cls`` from ``environ``: field ``data_dir`` is read from ``OMNIROUTE_DATA_DIR``.

    Fields are str, int, float, bool, Path, ``X | None`` or ``tuple[X, ...]`` (comma separated). An empty variable is an
    unset one. Field metadata: ``secret`` (its value is never shown), ``choices`` (a tuple of allowed texts), ``form``
    (a check of the text, and what it allows in words), ``least`` and ``most`` (bounds of a number, inclusive), ``also``
    (a second variable, read when the first is not set). Raises SettingsError.
    """
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        name, text = _variable(environ, prefix + field.name.upper(), field.metadata.get("also"))
        if text:
            values[field.name] = _value(name, text, hints[field.name], field.metadata)
        elif _is_required(field):
            raise SettingsError(f"{name}: not set; allowed: {_allowed(hints[field.name], field.metadata)}")
    return cls(**values)


def _variable(environ: Mapping[str, str], name: str, second: str | None) -> tuple[str, str]:
    """Name and text of the variable to read."""
    text = environ.get(name, "").strip()
    if not text and second and (other := environ.get(second, "").strip()):
        return second, other
    return name, text


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _value(name: str, text: str, hint: Any, metadata: Mapping[str, Any]) -> Any:
    try:
        value = _parsed(text, hint)
    except ValueError:
        value = None
    if value is None or not _within(text, value, metadata):
        shown = f"a secret of {len(text)} characters" if metadata.get("secret") else repr(text[:80])
        raise SettingsError(f"{name}: got {shown}; allowed: {_allowed(hint, metadata)}")
    return value


def _within(text: str, value: Any, metadata: Mapping[str, Any]) -> bool:
    if "choices" in metadata and text not in metadata["choices"]:
        return False
    if "form" in metadata and not metadata["form"][0](text):
        return False
    least, most = metadata.get("least", -math.inf), metadata.get("most", math.inf)
    return not isinstance(value, int | float) or least <= value <= most


def _parsed(text: str, hint: Any) -> Any:
    """Raises ValueError when the text does not read as the type."""
    if typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0]
        return tuple(_parsed(part.strip(), item) for part in text.split(",") if part.strip())
    return PARSERS[_without_none(hint)](text)


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return next(arg for arg in typing.get_args(hint) if arg is not types.NoneType)
    return hint


def _boolean(text: str) -> bool:
    if text.lower() in TRUE:
        return True
    if text.lower() in FALSE:
        return False
    raise ValueError(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


PARSERS: Mapping[Any, Callable[[str], Any]] = types.MappingProxyType(
    {str: str, int: int, float: _finite, bool: _boolean, Path: Path}
)
SHAPES: Mapping[Any, str] = types.MappingProxyType(
    {str: "a text", int: "a whole number", float: "a finite number", bool: "true or false", Path: "a path"}
)


def _allowed(hint: Any, metadata: Mapping[str, Any]) -> str:
    if "choices" in metadata:
        return " | ".join(metadata["choices"])
    if "form" in metadata:
        return str(metadata["form"][1])
    if typing.get_origin(hint) is tuple:
        return f"a comma-separated list, each item {SHAPES[typing.get_args(hint)[0]]}"
    shape = SHAPES[_without_none(hint)]
    bounds = [
        f"{word} {metadata[key]}" for key, word in (("least", "at least"), ("most", "at most")) if key in metadata
    ]
    return " ".join([shape, " and ".join(bounds)]).strip()
