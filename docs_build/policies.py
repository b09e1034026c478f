"""Parts of the page on strategies: strategies, router strategies, config keys, settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from decision_service.kernel.model import ComboConfig, Settings
from decision_service.kernel.routers import ROUTER_ALIASES, ROUTER_STRATEGIES
from decision_service.policy import Known
from decision_service.policy.config import INCLUDE_SESSION, ROWS, SECRET_FIELD, Row
from decision_service.policy.effective import INHERITED
from decision_service.policy.fields import Reader
from decision_service.policy.settings import SETTINGS
from decision_service.policy.vocabulary import STRATEGIES
from docs_build import words
from docs_build.pages import code, table
from service_kit.errors import ServiceError

TRANSCRIPTS = "../tests/transcripts"
NOTHING_KNOWN = Known(routers=frozenset())


def strategies() -> str:
    return table(
        ("strategy", "order", "for", "config keys", "transcript"),
        (
            (code(name), words.STRATEGIES[name].does, words.STRATEGIES[name].good_for, _keys_of(name), shown(name))
            for name in STRATEGIES
        ),
    )


def shown(strategy: str) -> str:
    """The link to a strategy's transcript."""
    return f"[shown]({TRANSCRIPTS}/strategy-{strategy}.txt)"


def _keys_of(strategy: str) -> str:
    read = [row.path for row in present() if strategy in words.KEYS[row.field].read_by]
    return "[many](#config-keys-of-a-combo)" if strategy == "auto" else code(*read)


def others() -> str:
    return table(
        ("policy", "does", "for", "transcript"),
        ((name, does, use, f"[shown]({TRANSCRIPTS}/{script}.txt)") for name, does, use, script in words.OTHERS),
    )


def routers() -> str:
    return table(
        ("router strategy", "picks", "for", "other names"),
        (
            (
                code(name),
                words.ROUTERS[name].does,
                words.ROUTERS[name].good_for,
                code(*(alias for alias, real in ROUTER_ALIASES.items() if real == name)),
            )
            for name in ROUTER_STRATEGIES
        ),
    )


def present() -> Iterator[Row]:
    """The rows of the config in the order of the code, one a field, each by its present spelling."""
    latest = {row.field: row for row in ROWS}
    yield from latest.values()


def keys() -> str:
    return table(("key", "means", "value", "default", "read by"), map(_key, present()))


def _key(row: Row) -> tuple[str, ...]:
    key = words.KEYS[row.field]
    spellings = [row.path, *(other.path for other in ROWS if other.field == row.field and other is not row)]
    return code(*spellings), key.means, allowed(row.read), _default(row.field), _readers(key.read_by)


def _readers(names: tuple[str, ...]) -> str:
    return "all" if names == words.ALL else code(*names)


def allowed(read: Reader) -> str:
    """What a reader takes, in the words of its own refusal; of a list also what stands in it."""
    text = _refusal(read, object())
    return f"{text}: {_refusal(read, [object()])}" if text.startswith("a list") else text


def _refusal(read: Reader, value: Any) -> str:
    try:
        read(value, "value", NOTHING_KNOWN)
    except ServiceError as error:
        return error.message.rpartition("; allowed: ")[2].replace(" to 2147483647", " on")
    raise ValueError(f"{read} takes everything")


def _default(field: str) -> str:
    if field in INHERITED:
        value, _ = INHERITED[field](Settings())
        return f"the setting, else {_plain(value)}"
    if field in (SECRET_FIELD, INCLUDE_SESSION):
        return words.KEYS[field].unset
    group, dot, inner = field.partition(".")
    value = getattr(getattr(ComboConfig(), group), inner) if dot else getattr(ComboConfig(), field)
    return words.KEYS[field].unset if value is None or value == "" or value == frozenset() else _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return code(value)
    return code(*value) if isinstance(value, tuple) else f"{value:g}"


def settings() -> str:
    return table(
        ("setting", "means", "value", "default"),
        (
            (code(name), words.SETTINGS[name], allowed(read), _setting(getattr(Settings(), field)))
            for name, (field, read) in SETTINGS.items()
        ),
    )


def _setting(value: Any) -> str:
    return "unset" if value is None else _plain(value)
