"""The asking: bounded in time, size and number, never repeated, and left alone for a while after a failure."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from http.cookiejar import DefaultCookiePolicy

import aiohttp
import httpx
import structlog
from httpx_aiohttp import AiohttpTransport
from prometheus_client import Counter, Histogram

from decision_service.kernel.model import Advice
from decision_service.nadir.question import Question, advice_of, body_of, bucket_url
from decision_service.vault import VaultError
from service_kit.metrics import REGISTRY

MOST_ANSWER_BYTES = 64 * 1024
MOST_CALLS = 256
MARGIN_S = 0.05
REST_S = 30.0
LONGEST_S = 60.0
# httpx over aiohttp lets some of aiohttp's own errors through.
UNREACHABLE = (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError, ValueError)
LOG = structlog.get_logger()

ANSWERS = Counter("omniroute_nadir_answers", "Questions to Nadir, by what came of them.", ["result"], registry=REGISTRY)
SECONDS = Histogram(
    "omniroute_nadir_seconds", "Calls of Nadir.", registry=REGISTRY, buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 30)
)


class StoredKeys:
    """The combos' own keys, each opened once a revision of the roster, off the event loop. Empty: it has none."""

    def __init__(self, revision: Callable[[], int], read: Callable[[str], str]) -> None:
        self._revision = revision
        self._read = read
        self._seen = -1
        self._opened: dict[str, str] = {}

    async def of(self, combo: str) -> str:
        """Raises VaultError."""
        revision = self._revision()
        if revision != self._seen:
            self._seen, self._opened = revision, {}
        key = self._opened.get(combo)
        if key is None:
            key = await asyncio.to_thread(self._read, combo)
            if revision == self._seen:
                self._opened[combo] = key
        return key


class Nadir:
    """Asks Nadir, within bounds. After a failed call an address is left alone for 30 s.

    ``base_url`` and ``api_key`` are for combos that have none of their own; without a key the call is anonymous.
    ``now`` is a clock for durations, in seconds.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        base_url: str,
        api_key: str,
        key_of: Callable[[str], Awaitable[str]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._base_url = base_url
        self._api_key = api_key
        self._key_of = key_of
        self._now = now
        self._rests: dict[str, float] = {}
        self._under_way = 0

    async def advise(self, question: Question, remaining_s: float | None) -> Advice:
        """A model of the menu, or why there is none. ``remaining_s`` is what the caller has left; None: no limit."""
        advice = await self._advise(question, remaining_s)
        ANSWERS.labels("http" if advice.failure.startswith("http ") else advice.failure or "chosen").inc()
        return advice

    async def _advise(self, question: Question, remaining_s: float | None) -> Advice:
        url = bucket_url(question.base_url or self._base_url)
        limit_s = question.timeout_ms / 1000
        if remaining_s is not None:
            limit_s = min(limit_s, remaining_s - MARGIN_S)
        if limit_s <= 0:
            return Advice(failure="no time left")
        if self._now() < self._rests.get(url, 0.0):
            return Advice(failure="skipped after a failure")
        if self._under_way >= MOST_CALLS:
            return Advice(failure="too many calls at once")
        self._under_way += 1
        try:
            return await self._within(limit_s, url, question)
        except VaultError as error:
            LOG.error("nadir_key_unreadable", combo=question.combo, reason=str(error))
            return Advice(failure="its key cannot be read")
        finally:
            self._under_way -= 1

    async def _within(self, limit_s: float, url: str, question: Question) -> Advice:
        began = self._now()
        try:
            async with asyncio.timeout(limit_s):
                advice = await self._asked(url, question)
        except TimeoutError:
            advice = Advice(failure="timeout")
        except UNREACHABLE:
            advice = Advice(failure="unreachable")
        SECONDS.observe(self._now() - began)
        if advice.failure:
            self._rest(url, advice.failure)
        return advice

    async def _asked(self, url: str, question: Question) -> Advice:
        key = await self._key_of(question.combo) or self._api_key
        headers = {"content-type": "application/json", "accept": "application/json", "accept-encoding": "identity"}
        if key:
            headers["x-api-key"] = key
        async with self._client.stream("POST", url, content=body_of(question), headers=headers) as response:
            if not response.is_success:
                return Advice(failure=f"http {response.status_code}")
            return advice_of(await _bounded(response), question.menu)

    def _rest(self, url: str, why: str) -> None:
        now = self._now()
        self._rests = {each: until for each, until in self._rests.items() if until > now}
        if url not in self._rests:
            LOG.warning("nadir_failed", host=url.partition("://")[2].partition("/")[0], why=why, rest_s=REST_S)
        self._rests[url] = now + REST_S


async def _bounded(response: httpx.Response) -> bytes:
    """The body; empty when it is larger than any answer."""
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MOST_ANSWER_BYTES:
            return b""
    return bytes(body)


def open_client() -> httpx.AsyncClient:
    """A client for Nadir, made inside a running loop; it keeps no cookies and follows no redirects."""
    context = httpx.create_ssl_context(trust_env=False)
    connector = aiohttp.TCPConnector(limit=MOST_CALLS, ssl=context)
    session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False)
    transport = AiohttpTransport(verify=context, client=session)
    client = httpx.AsyncClient(transport=transport, timeout=LONGEST_S, trust_env=False)
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return client
