"""Pages over records that stand in the order of their keys."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import orjson

from decision_service.policy.fields import shape
from decision_service.store.sql import Key
from service_kit.errors import invalid

R = TypeVar("R")
DEFAULT_SIZE, MOST_SIZE = 100, 1_000


@dataclass(frozen=True, slots=True)
class Page:
    """Which page is wanted. ``scope`` names the list and its filters: a token of another list is refused."""

    scope: str
    size: int = 0
    token: str = ""


def page_of(records: Mapping[Key, R], page: Page) -> tuple[list[R], str]:
    """The page's records, and the token of the next one (empty: there is none). Raises INVALID_FIELD."""
    if not 0 <= page.size <= MOST_SIZE:
        raise invalid("page_size", shape(page.size), f"0 to {MOST_SIZE}; 0 is {DEFAULT_SIZE}")
    keys = sorted(records)
    start = bisect_right(keys, _after(page)) if page.token else 0
    chosen = keys[start : start + (page.size or DEFAULT_SIZE)]
    more = start + len(chosen) < len(keys)
    return [records[key] for key in chosen], _token(page.scope, chosen[-1]) if more else ""


def _token(scope: str, last: Key) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([scope, *last])).decode().rstrip("=")


def _after(page: Page) -> Key:
    try:
        padded = page.token + "=" * (-len(page.token) % 4)
        scope, *last = orjson.loads(base64.urlsafe_b64decode(padded.encode()))
        if scope == page.scope and last and all(isinstance(part, str) for part in last):
            return tuple(last)
    except (ValueError, TypeError, binascii.Error):
        pass
    raise invalid("page_token", f"a text of {len(page.token)} characters", "a next_page_token of this list, unchanged")
