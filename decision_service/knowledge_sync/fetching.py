"""One bounded GET of a JSON document."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import httpx
import orjson

from decision_service.knowledge_sync.documents import Unreadable

T = TypeVar("T")
MOST_BYTES = 32 * 1024 * 1024
DEADLINE_S = 30.0


class FetchFailed(Exception):
    """Nothing was learnt; ``kind`` is one of status, timeout, network, too_large, unreadable."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


async def fetch(
    client: httpx.AsyncClient,
    url: str,
    read: Callable[[Any], T],
    *,
    most_bytes: int = MOST_BYTES,
    deadline_s: float = DEADLINE_S,
) -> T:
    """What ``read`` makes of the document. Raises FetchFailed."""
    try:
        async with asyncio.timeout(deadline_s):
            body = await _body(client, url, most_bytes)
            return await asyncio.to_thread(_understood, body, read)
    except (TimeoutError, httpx.TimeoutException):
        raise FetchFailed("timeout", f"no whole answer within {deadline_s:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise FetchFailed("network", type(error).__name__) from None


async def _body(client: httpx.AsyncClient, url: str, most_bytes: int) -> bytes:
    async with client.stream("GET", url, headers={"accept": "application/json"}) as response:
        if response.status_code != httpx.codes.OK:
            raise FetchFailed("status", f"status {response.status_code}")
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > most_bytes:
                raise FetchFailed("too_large", f"more than {most_bytes} bytes")
        return bytes(body)


def _understood(body: bytes, read: Callable[[Any], T]) -> T:
    try:
        return read(orjson.loads(body))
    except orjson.JSONDecodeError:
        raise FetchFailed("unreadable", f"{len(body)} bytes that are no JSON") from None
    except Unreadable as error:
        raise FetchFailed("unreadable", str(error)) from None
