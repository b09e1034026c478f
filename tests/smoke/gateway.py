"""A gateway as others see it: a client with a question, an operator with a change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import httpx
import openai

from edge_gateway.settings import is_loopback

NO_KEY = "none"
PREFIX = "x-omniroute-"
CALL_LIMIT_S = 120.0
OPERATOR_LIMIT_S = 10.0


class Refused(Exception):
    """The gateway refused; ``code`` is the error's own."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str]) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.headers = headers


@dataclass(frozen=True, slots=True)
class Heard:
    """One answer. ``headers`` are the gateway's own, without their prefix; ``tools`` the calls' names and arguments.

    ``first_s`` and ``has_usage`` are for streams alone.
    """

    text: str
    finish_reason: str
    headers: Mapping[str, str]
    seconds: float
    first_s: float | None = None
    tools: tuple[tuple[str, str], ...] = ()
    has_usage: bool = False


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running gateway; ``url`` is without ``/v1``."""

    url: str
    client: openai.AsyncOpenAI
    http: httpx.AsyncClient

    async def ask(self, model: str, question: str, **fields: Any) -> Heard:
        """One plain answer. Raises Refused, openai.APIError."""
        started = perf_counter()
        with _refusals():
            raw = await self.client.chat.completions.with_raw_response.create(
                model=model, messages=[{"role": "user", "content": question}], **fields
            )
        [choice, *_] = raw.parse().choices
        calls = [call for call in choice.message.tool_calls or () if call.type == "function"]
        return Heard(
            text=choice.message.content or "",
            finish_reason=choice.finish_reason,
            headers=own(raw.headers),
            seconds=perf_counter() - started,
            tools=tuple((call.function.name, call.function.arguments) for call in calls),
        )

    async def ask_for_stream(self, model: str, question: str, **fields: Any) -> Heard:
        """The same, as a stream that is read to its end."""
        started = perf_counter()
        with _refusals():
            raw = await self.client.chat.completions.with_raw_response.create(
                model=model,
                messages=[{"role": "user", "content": question}],
                stream=True,
                stream_options={"include_usage": True},
                **fields,
            )
        text, finish_reason, has_usage, first_s = "", "", False, None
        async for chunk in raw.parse():
            has_usage = has_usage or chunk.usage is not None
            for choice in chunk.choices:
                finish_reason = choice.finish_reason or finish_reason
                text += choice.delta.content or ""
            if text and first_s is None:
                first_s = perf_counter() - started
        return Heard(text, finish_reason, own(raw.headers), perf_counter() - started, first_s, has_usage=has_usage)

    async def models(self) -> Heard:
        """What the caller may ask for. Raises Refused, httpx.HTTPError."""
        started = perf_counter()
        listed = (await self.operate("GET", "/v1/models"))["data"]
        return Heard(f"{len(listed)} models", "", {}, perf_counter() - started)

    async def operate(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of a success; None for 204. Raises Refused, httpx.HTTPError."""
        response = await self.http.request(method, self.url + path, json=body)
        if response.is_success:
            return response.json() if response.content else None
        raise _refused(response.status_code, response.headers, _error_in(response))


@asynccontextmanager
async def connected(url: str, key: str = "") -> AsyncIterator[Gateway]:
    """A gateway at a base URL, with or without ``/v1``. A proxy of the environment is used, but never on loopback."""
    base = url.rstrip("/").removesuffix("/v1")
    trust_env = not is_loopback(urlsplit(base).hostname or "")
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with (
        openai.AsyncOpenAI(
            base_url=f"{base}/v1",
            api_key=key or NO_KEY,
            max_retries=0,
            timeout=CALL_LIMIT_S,
            http_client=openai.DefaultAsyncHttpxClient(trust_env=trust_env),
        ) as client,
        httpx.AsyncClient(headers=headers, timeout=OPERATOR_LIMIT_S, trust_env=trust_env) as http,
    ):
        yield Gateway(base, client, http)


def own(headers: Mapping[str, str]) -> dict[str, str]:
    """The gateway's own headers, without their prefix."""
    return {name.removeprefix(PREFIX): value for name, value in headers.items() if name.startswith(PREFIX)}


@contextmanager
def _refusals() -> Iterator[None]:
    """Turns the client's error for a status into Refused."""
    try:
        yield
    except openai.APIStatusError as error:
        body = error.body if isinstance(error.body, dict) else {}
        raise _refused(error.status_code, error.response.headers, body) from None


def _error_in(response: httpx.Response) -> dict[str, Any]:
    try:
        found = response.json()["error"]
    except (ValueError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def _refused(status: int, headers: Mapping[str, str], error: Mapping[str, Any]) -> Refused:
    message = str(error.get("message") or "an answer that does not come from this gateway")
    return Refused(status, str(error.get("code") or "without a code"), message, own(headers))
