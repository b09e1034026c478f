"""Readers of single values: each turns what was given into what it means, or refuses it by field, shape and range.

A reader is ``(value, path, known) -> meaning``; ``path`` is the field as the operator wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import SequenceMatcher
from math import inf, isfinite
from typing import Any
from urllib.parse import urlsplit

from decision_service.policy.known import Known
from service_kit.errors import ServiceError, invalid

Reader = Callable[[Any, str, Known], Any]

SHOWN_CHARS = 60
MOST_WHOLE = 2**31 - 1
LARGEST = 2**64


def shape(value: Any) -> str:
    """What a value looks like, short enough for an error text."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) >= LARGEST:
        return "a number past all bounds"
    if isinstance(value, int | float):
        return f"the number {value:.12g}"
    if isinstance(value, str):
        return f"the text {value!r}" if len(value) <= SHOWN_CHARS else f"a text of {len(value)} characters"
    if isinstance(value, Mapping):
        return f"an object with {len(value)} keys"
    return f"a list of {len(value)}" if isinstance(value, list | tuple) else f"a {type(value).__name__}"


def nearest(word: str, words: Iterable[str]) -> str:
    """The known word that is most like ``word``."""
    return max(words, key=lambda known: SequenceMatcher(None, word.lower(), known.lower()).ratio())


def unknown_key(path: str, key: str, keys: Iterable[str]) -> ServiceError:
    """The refusal of a key that nobody knows; it names the nearest one."""
    names = tuple(keys)
    field = f"{path}.{key}" if path else key
    return invalid(field, f"an unknown key; the nearest known one is {nearest(key, names)!r}", ", ".join(names))


def read_object(value: Any, path: str, keys: Iterable[str]) -> Mapping[str, Any]:
    """An object that has none but these keys."""
    if not isinstance(value, Mapping):
        raise invalid(path, shape(value), "an object")
    names = tuple(keys)
    for key in value:
        if key not in names:
            raise unknown_key(path, str(key), names)
    return value


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < LARGEST if isinstance(value, int) else isfinite(value)


def number(least: float, most: float = inf, *, above: bool = False) -> Reader:
    """A finite number from ``least`` (``above``: greater than it) to ``most``."""
    low = f"{'>' if above else '>='} {least:g}"
    allowed = f"a number {low}" if most == inf else f"a number {low} and <= {most:g}"

    def read(value: Any, path: str, _known: Known) -> float:
        if not _is_number(value) or value > most or value < least or (above and value == least):
            raise invalid(path, shape(value), allowed)
        return float(value)

    return read


def whole(least: int, most: int = MOST_WHOLE) -> Reader:
    """A whole number; 3.0 is one."""
    allowed = f"a whole number from {least} to {most}"

    def read(value: Any, path: str, _known: Known) -> int:
        if not _is_number(value) or value != int(value) or not least <= value <= most:
            raise invalid(path, shape(value), allowed)
        return int(value)

    return read


def flag(value: Any, path: str, _known: Known) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise invalid(path, shape(value), "true or false")
    return value


def choice(meanings: Mapping[str, str] | Iterable[str]) -> Reader:
    """One of these words; a mapping gives the meaning of each."""
    table = dict(meanings) if isinstance(meanings, Mapping) else {word: word for word in meanings}
    allowed = ", ".join(table)

    def read(value: Any, path: str, _known: Known) -> str:
        if not isinstance(value, str) or value not in table:
            raise invalid(path, shape(value), allowed)
        return table[value]

    return read


def text(most: int, *, least: int = 0) -> Reader:
    """A text of ``least`` to ``most`` characters."""
    allowed = f"a text of {least} to {most} characters"

    def read(value: Any, path: str, _known: Known) -> str:
        if not isinstance(value, str) or not least <= len(value) <= most:
            raise invalid(path, shape(value), allowed)
        return value

    return read


def plain_text(most: int, *, least: int = 0) -> Reader:
    """A text of one line: printable, no blank at its ends."""
    sized = text(most, least=least)

    def read(value: Any, path: str, known: Known) -> str:
        line: str = sized(value, path, known)
        if line != line.strip() or not line.isprintable():
            raise invalid(path, shape(value), f"{least} to {most} printable characters without a blank at either end")
        return line

    return read


def secret(value: Any, path: str, _known: Known) -> str:
    """A key as an HTTP header carries it, or an empty text; no error shows its value."""
    if (
        not isinstance(value, str)
        or len(value) > 4_096
        or not (value.isascii() and value.isprintable())
        or " " in value
    ):
        got = f"a secret of {len(value)} characters" if isinstance(value, str) else shape(value)
        raise invalid(path, got, "at most 4096 printable ASCII characters without a blank")
    return value


def each(reader: Reader, most: int) -> Reader:
    """A list of at most ``most`` values, without repeats, each read alike."""

    def read(value: Any, path: str, known: Known) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or len(value) > most:
            raise invalid(path, shape(value), f"a list of at most {most}")
        return tuple(dict.fromkeys(reader(item, f"{path}[{index}]", known) for index, item in enumerate(value)))

    return read


def http_url(value: Any, path: str, _known: Known) -> str:
    """An absolute http or https URL without credentials."""
    scheme, _, rest = value.partition("://") if isinstance(value, str) else ("", "", "")
    host = rest.partition("/")[0]
    sound = scheme in ("http", "https") and host and "@" not in host and value.isprintable() and " " not in value
    if not sound or len(value) > 2_048 or not _parses(value):
        got = "a URL with credentials" if "@" in host else shape(value)
        raise invalid(path, got, "an absolute http or https URL without credentials")
    return str(value)


def _parses(url: str) -> bool:
    """Its host and its port can be told apart."""
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def optional_url(value: Any, path: str, known: Known) -> str:
    """A URL like ``http_url``, or an empty text."""
    return "" if value == "" else http_url(value, path, known).rstrip("/")


def provider_name(value: Any, path: str, known: Known) -> str:
    """The id of a known provider."""
    if not isinstance(value, str) or not value:
        raise invalid(path, shape(value), "a provider's id")
    if known.providers is not None and value not in known.providers:
        raise invalid(path, f"the unknown provider {value[:SHOWN_CHARS]!r}", "the id of a known provider")
    return value


def model_name(value: Any, path: str, known: Known) -> str:
    """``provider/model`` with a known provider."""
    provider, slash, model = value.partition("/") if isinstance(value, str) else ("", "", "")
    tidy = provider and slash and model and value == value.strip() and value.isprintable()
    if not tidy or len(value) > 256:
        raise invalid(path, shape(value), "provider/model, at most 256 characters")
    provider_name(provider, path, known)
    return str(value)


def read_fields(value: Any, path: str, readers: Mapping[str, Reader], known: Known) -> dict[str, Any]:
    """The fields of an object, each by its reader; nulls are left out and unknown keys refused."""
    given = read_object(value, path, readers)
    prefix = f"{path}." if path else ""
    return {key: readers[key](item, f"{prefix}{key}", known) for key, item in given.items() if item is not None}
