"""What is asked of a gateway, and whether the answer is right: a row for each check."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from types import MappingProxyType
from typing import Any

import httpx
import openai

from tests.smoke.gateway import Gateway, Heard, Refused

OK, FAILED, SKIPPED = "ok", "FAILED", "skipped"
AUTO = "auto"
CHECK_LIMIT_S = 60.0
CHANNELS = ("auto/fast", "auto/cheap")
WORD = "Answer with the one word hello."
WEATHER = "What is the weather in Paris? Use the tool."
TOOL: Mapping[str, Any] = MappingProxyType(
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
)
# Low effort where the model takes one, and no candidate of a channel whose estimate is above a cent.
FRUGAL = {"x-omniroute-effort": "auto", "x-omniroute-budget": "0.01"}


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one check; seconds where they are known, ``note`` why it is not ok."""

    check: str
    model: str
    result: str
    seconds: float
    note: str = ""
    first_s: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """Who answered, as a step of a combo names it."""
        return f"{self.headers.get('provider', '')}/{self.headers.get('model', '')}"


@dataclass(frozen=True, slots=True)
class Checks:
    """Checks of one gateway. ``until`` is when all have to be over, by ``perf_counter``."""

    gateway: Gateway
    max_tokens: int
    until: float

    async def all(self, models: Sequence[str]) -> list[Row]:
        """Every kind of answer from each model and from ``auto``, and the channels; if there is a gateway at all."""
        reached = await self.tried("models", "", self.gateway.models)
        if reached.result != OK:
            return [reached]
        asked = [(check, model) for model in (*models, AUTO) for check in KINDS]
        asked += [("plain", channel) for channel in CHANNELS]
        return [reached, *[await self.one(check, model) for check, model in asked]]

    async def one(self, check: str, model: str) -> Row:
        ask, flaw = KINDS[check]
        return await self.tried(check, model, lambda: ask(self, model), flaw)

    async def tried(
        self, check: str, model: str, act: Callable[[], Awaitable[Heard]], flaw: Callable[[Heard], str] = lambda _: ""
    ) -> Row:
        """A row whatever happens; ``flaw`` says what is wrong with an answer, and what takes too long fails."""
        started = perf_counter()
        limit_s = min(CHECK_LIMIT_S, self.until - started)
        if limit_s <= 0:
            return Row(check, model, FAILED, 0.0, "not tried: the time for all checks is over")
        result, headers = FAILED, dict[str, str]()
        try:
            async with asyncio.timeout(limit_s):
                heard = await act()
            note = flaw(heard)
            return Row(check, model, FAILED if note else OK, heard.seconds, note, heard.first_s, heard.headers)
        except TimeoutError:
            note = f"not over after {limit_s:.0f} s"
        except Refused as refusal:
            result = SKIPPED if refusal.code == "capability_mismatch" else FAILED
            note, headers = str(refusal), dict(refusal.headers)
        except (openai.APIError, httpx.HTTPError) as error:
            note = str(error) or type(error).__name__
        return Row(check, model, result, perf_counter() - started, note, headers=headers)

    async def plain(self, model: str) -> Heard:
        return await self.gateway.ask(model, WORD, max_tokens=self.max_tokens, extra_headers=FRUGAL)

    async def stream(self, model: str) -> Heard:
        return await self.gateway.ask_for_stream(model, WORD, max_tokens=self.max_tokens, extra_headers=FRUGAL)

    async def tools(self, model: str) -> Heard:
        choice = {"type": "function", "function": {"name": "get_weather"}}
        given = {"tools": [TOOL], "tool_choice": choice, "max_tokens": self.max_tokens, "extra_headers": FRUGAL}
        return await self.gateway.ask(model, WEATHER, **given)


def no_text(heard: Heard) -> str:
    """What is wrong with an answer in words; empty: nothing."""
    if not heard.text.strip():
        return f"an answer without a text, finished by {heard.finish_reason or 'nothing'}"
    return "" if heard.finish_reason else "an answer without a reason to finish"


def no_stream(heard: Heard) -> str:
    """What is wrong with a stream; empty: nothing. Its usage was asked for."""
    return no_text(heard) or ("" if heard.has_usage else "a stream without usage")


def no_call(heard: Heard) -> str:
    """What is wrong with an answer that should call the tool; empty: nothing."""
    if [name for name, _ in heard.tools] != ["get_weather"]:
        return f"{len(heard.tools)} calls of {', '.join(name for name, _ in heard.tools) or 'nothing'}"
    try:
        given = json.loads(heard.tools[0][1])
    except ValueError:
        return f"arguments of {len(heard.tools[0][1])} characters that are no JSON"
    return "" if isinstance(given, dict) and "city" in given else "arguments without a city"


KINDS: Mapping[str, tuple[Callable[[Checks, str], Awaitable[Heard]], Callable[[Heard], str]]] = MappingProxyType(
    {"plain": (Checks.plain, no_text), "stream": (Checks.stream, no_stream), "tools": (Checks.tools, no_call)}
)
