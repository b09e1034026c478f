"""Every shape of a plan, set up for a request whose answer is known: well, refused, or cut off after its beginning."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import orjson

from tests.e2e.stack import Provided, Stack
from tests.executor.shapes.plans import says
from tests.executor.upstream import (
    DONE,
    ROLE,
    USAGE,
    Connection,
    Received,
    Script,
    answer,
    completion,
    delta,
    error_body,
    event,
    stream,
)

QUESTION = "Where do ants live?"
BEGUN = "Hel"
SUMMARY = "They spoke of ants."
ARGUMENTS = '{"q":"ants"}'
REFUSAL = "slow down, please"
REFUSES = answer(429, error_body(REFUSAL, type="rate_limit_error"), {"retry-after": "90"})
CUTS = stream(ROLE, event(delta(BEGUN)), end="cut")


class Fate(StrEnum):
    """What comes of the call that answers the client."""

    WELL = "well"
    REFUSED = "refused"
    CUT = "cut"


@dataclass(frozen=True)
class Ask:
    """What a client has to ask, and what it must then have heard: of a stream that is cut, ``text`` as far as it came.

    ``last`` is the provider whose call answers the client.
    """

    model: str
    last: Provided
    key: str
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)
    calls: tuple[str, ...] = ()
    status: int = 429

    def question(self, *, streamed: bool, **more: Any) -> dict[str, Any]:
        """As a client program reads it."""
        asked = {"model": self.model, "key": self.key, "headers": dict(self.headers), "prompt": QUESTION}
        return asked | {"stream": streamed, "tools": bool(self.calls)} | more


@dataclass(frozen=True)
class World:
    """A stack, and the key that clients have for it."""

    stack: Stack
    key: str

    async def is_closed(self) -> bool:
        """Whether the gateway knows by now that there are keys."""
        return (await self.stack.get("/v1/models")).status == 401

    async def ends(self, fate: Fate, text: str) -> Provided:
        """The provider that has the last word."""
        return await self.stack.provider("last", {Fate.WELL: says(text), Fate.REFUSED: REFUSES, Fate.CUT: CUTS}[fate])

    def ask(self, model: str, last: Provided, fate: Fate, text: str, **more: Any) -> Ask:
        heard = {Fate.WELL: text, Fate.REFUSED: "", Fate.CUT: BEGUN}[fate]
        return Ask(model, last, **{"key": self.key, "text": heard, **more})


async def single(world: World, fate: Fate) -> Ask:
    last = await world.ends(fate, "underground")
    return world.ask(last.model, last, fate, "underground")


async def fusion(world: World, fate: Fate) -> Ask:
    script = REFUSES if fate is Fate.REFUSED else says("in hills")
    panel = [await world.stack.provider("ant", script) for _ in range(2)]
    judge = await world.ends(fate, "everywhere")
    combo = await world.stack.combo(*panel, strategy="fusion", judgeModel=judge.model)
    return world.ask(combo, judge, fate, "everywhere", status=503)


async def pipeline(world: World, fate: Fate) -> Ask:
    first, last = await world.stack.provider("first", says("draft")), await world.ends(fate, "polished")
    return world.ask(await world.stack.combo(first, last, strategy="pipeline"), last, fate, "polished")


async def agentic(world: World, fate: Fate) -> Ask:
    """A tool is called, and its result told, where all is well; else the executor fails at the first request."""
    planner = await world.stack.provider("planner", says("TOOLS"), says("FINAL"), says("underground"))
    executor = await world.ends(fate, "")
    if fate is Fate.WELL:
        executor.plays(calling("look_up", ARGUMENTS))
    combo = await world.stack.combo(planner, executor, agenticOrchestration={"enabled": True})
    calls = (f"look_up{ARGUMENTS}",)
    return world.ask(combo, executor, fate, "underground", calls=calls)


def calling(name: str, arguments: str) -> Script:
    """An answer that is a call, in whichever form it is asked for."""
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}
    begun: dict[str, Any] = {**call, "function": {"name": name, "arguments": ""}}
    halves = ({"function": {"arguments": half}} for half in (arguments[:4], arguments[4:]))
    calls = [delta(tool_calls=[{"index": 0, **part}]) for part in (begun, *halves)]
    streamed = stream(ROLE, *(event(each) for each in (*calls, delta(finish="tool_calls"), USAGE)), DONE)
    whole = answer(200, completion("", "tool_calls", tool_calls=[call]))

    async def play(received: Received, connection: Connection) -> None:
        await (streamed if received.body.get("stream") else whole)(received, connection)

    return play


async def fanout(world: World, fate: Fate) -> Ask:
    """The key may use the panel alone. A member that is cut off is missing, and nothing is wrong for the client."""
    script = REFUSES if fate is Fate.REFUSED else says("in hills")
    primary, other = await world.stack.provider("ant", script), await world.ends(fate, "in soil")
    made = await world.stack.client.add_key(
        f"of-{other.name}", scopes=["inference"], allowed_connections=[primary.connection, other.connection]
    )
    text = "" if fate is Fate.REFUSED else "in hills"
    return Ask("auto/chaos", other, made.secret, text, status=502)


async def hand_off(world: World, fate: Fate) -> Ask:
    """A conversation whose account rests by now, so that it goes on elsewhere, with a summary in front."""
    low, spare = await world.stack.provider("low", low_on_quota), await world.ends(fate, "underground")
    combo = await world.stack.combo(low, spare, strategy="context-relay")
    headers = {"x-omniroute-session": f"of-{spare.name}"}
    key = {"authorization": f"Bearer {world.key}"}
    for _ in range(2):
        served = await world.stack.chat(combo, QUESTION, headers=headers | key)
        assert served.provider == low.name
        await world.stack.settled(served.decision_id)
    low.plays(REFUSES)
    rests = await world.stack.chat(low.model, QUESTION, headers=key)
    await world.stack.settled(rests.decision_id)
    return world.ask(combo, spare, fate, "underground", headers=headers)


async def low_on_quota(received: Received, connection: Connection) -> None:
    """Answers, and summaries, of an account that has used nine tenths of its requests."""
    left = {"x-ratelimit-limit-requests": "100", "x-ratelimit-remaining-requests": "10"}
    is_summary = "JSON object" in str(received.body["messages"][-1]["content"])
    summary = orjson.dumps({"summary": SUMMARY, "entities": ["ants"]}).decode()
    await answer(200, completion(summary if is_summary else "Hello"), left)(received, connection)


Shape = Callable[[World, Fate], Awaitable[Ask]]
SHAPES: Mapping[str, Shape] = MappingProxyType(
    {each.__name__: each for each in (single, fusion, pipeline, agentic, fanout, hand_off)}
)


async def keyed(stack: Stack) -> World:
    """The stack with a first key, from which on nobody comes in without one."""
    made = await stack.client.add_key("clients", scopes=["inference"])
    return World(stack, made.secret)
