"""A body's bytes -> a JSON object, with limits on size, time and depth."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.types import Receive

from edge_gateway.problems import Refused, too_large, too_slow
from service_kit.errors import invalid

MAX_DEPTH = 128
# Parsing a body of nothing but empty arrays would hold the loop for seconds.
MAX_CONTAINERS = 1_000_000

Json = dict[str, Any]


class Hangup(Exception):
    """The client closed the connection."""


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """``idle_s`` is the longest wait for the next part of a body, ``total_s`` that for the whole."""

    max_bytes: int
    idle_s: float
    total_s: float


async def read(receive: Receive, headers: Mapping[str, str], limits: BodyLimits) -> bytes:
    """The whole body. Raises Refused (413, 408) and Hangup; never holds more than the limit and one part."""
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > limits.max_bytes:
        raise Refused(too_large(limits.max_bytes))
    try:
        async with asyncio.timeout(limits.total_s):
            return await _collect(receive, limits)
    except TimeoutError:
        raise Refused(too_slow()) from None


async def _collect(receive: Receive, limits: BodyLimits) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        async with asyncio.timeout(limits.idle_s):
            message = await receive()
        if message["type"] == "http.disconnect":
            raise Hangup
        part = message.get("body", b"")
        size += len(part)
        if size > limits.max_bytes:
            raise Refused(too_large(limits.max_bytes))
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def parse(body: bytes) -> Json:
    """The object that the body is. Raises ServiceError naming what is wrong and where."""
    openers = body.count(b"{") + body.count(b"[")
    if openers > MAX_CONTAINERS:
        raise invalid("body", f"{openers} brackets", f"at most {MAX_CONTAINERS}")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise invalid("body", _fault(body, error), "one JSON object in UTF-8") from None
    if not isinstance(value, dict):
        raise invalid("body", shape(value), "one JSON object")
    if openers > MAX_DEPTH and _deeper_than(value, MAX_DEPTH):
        raise invalid("body", f"nesting deeper than {MAX_DEPTH}", f"at most {MAX_DEPTH} levels")
    return value


def shape(value: object) -> str:
    """What a value is, for an error text; never the text that it holds."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return f"the number {value}"[:60]
        case str():
            return f"a string of {len(value)} characters"
        case list():
            return f"an array of {len(value)}"
        case dict():
            return f"an object of {len(value)} fields"
        case _:
            return type(value).__name__


def _fault(body: bytes, error: orjson.JSONDecodeError) -> str:
    if not body.strip():
        return "nothing"
    try:
        body.decode()
    except UnicodeDecodeError as wrong:
        return f"bytes that are not UTF-8 (at byte {wrong.start})"
    return f"malformed JSON ({error.msg}, line {error.lineno} column {error.colno})"


def _deeper_than(value: object, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)  # type: ignore[attr-defined]
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
