"""What every client must have heard of every shape: all well, refused, and cut off after the beginning.

And once for each client, what else it can do: be awaited, read typed answers, show a picture, embed, count.
A test module takes these tests and names its ``CLIENTS``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import orjson
import pytest

from tests.clients.heard import Heard
from tests.clients.shapes import BEGUN, QUESTION, REFUSAL, SHAPES, SUMMARY, Ask, Fate, World, calling
from tests.clients.speakers import Speakers
from tests.e2e.stack import until
from tests.executor.shapes.plans import says
from tests.executor.upstream import answer

MODES = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])
EVERY = pytest.mark.parametrize("shape", SHAPES)
PLACE = {"city": "Oslo", "ants": 3}
# The smallest PNG there is: one pixel.
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
VECTORS = {
    "object": "list",
    "model": "served",
    "data": [
        {"object": "embedding", "index": 0, "embedding": [0.5, -1.0]},
        {"object": "embedding", "index": 1, "embedding": [1.0, 2.0]},
    ],
    "usage": {"prompt_tokens": 2, "total_tokens": 2},
}
WRITTEN = (5, 20)  # tokens, of a plain answer and of a stream


@dataclass(frozen=True)
class Client:
    """A program, and what is said beside each question to it.

    ``retold`` has the statuses that the client tells its caller as others. Where ``tells_breaks`` is false, its caller
    does not hear that a stream broke off.
    """

    program: str
    beside: Mapping[str, Any] = field(default_factory=dict)
    can: tuple[str, ...] = ()
    retold: Mapping[int, int] = field(default_factory=dict)
    tells_breaks: bool = True

    async def heard(self, speakers: Speakers, ask: Ask, *, streamed: bool, do: str = "talk", **more: Any) -> Heard:
        return await speakers.ask(self.program, do, **ask.question(streamed=streamed), **self.beside, **more)


@EVERY
@MODES
async def test_well(world: World, speakers: Speakers, client: Client, shape: str, streamed: bool) -> None:
    ask = await SHAPES[shape](world, Fate.WELL)
    told = await client.heard(speakers, ask, streamed=streamed)
    assert told.error == {}, told.error["message"]
    assert told.calls == list(ask.calls)
    if shape == "fanout" and streamed:
        assert told.text.endswith(ask.text)
        assert f"**{ask.last.model}**\n\nin soil\n\n" in told.text
    else:
        assert told.text == ask.text
    assert told.usage[1] in WRITTEN
    if shape == "hand_off":
        assert SUMMARY in str(ask.last.upstream.requests[-1].body["messages"][0])


@EVERY
@MODES
async def test_refused(world: World, speakers: Speakers, client: Client, shape: str, streamed: bool) -> None:
    ask = await SHAPES[shape](world, Fate.REFUSED)
    told = await client.heard(speakers, ask, streamed=streamed)
    assert told.text == ""
    assert told.error["status_code"] == client.retold.get(ask.status, ask.status)
    assert REFUSAL in told.error["message"]


@EVERY
async def test_cut_off(world: World, speakers: Speakers, client: Client, shape: str) -> None:
    ask = await SHAPES[shape](world, Fate.CUT)
    told = await client.heard(speakers, ask, streamed=True)
    if shape == "fanout":
        assert told.error == {}, told.error["message"]
        assert told.text.count(ask.text) == 2
    else:
        assert told.text == BEGUN
        assert bool(told.error) is client.tells_breaks


@pytest.mark.parametrize(("wrong", "status", "word"), [("key", 401, "API key"), ("model", 404, "nobody")])
async def test_turned_away(
    world: World, speakers: Speakers, client: Client, wrong: str, status: int, word: str
) -> None:
    given: dict[str, Any] = {wrong: "nobody/nothing"}
    ask = replace(await SHAPES["single"](world, Fate.WELL), **given)
    await until(world.is_closed)
    told = await client.heard(speakers, ask, streamed=True)
    assert told.error["status_code"] == status
    assert word in told.error["message"]
    assert ask.last.upstream.requests == []


# What else a client can do


async def is_awaited(world: World, speakers: Speakers, client: Client) -> None:
    ask = await SHAPES["single"](world, Fate.WELL)
    for streamed in (False, True):
        told = await client.heard(speakers, ask, streamed=streamed, is_async=True)
        assert (told.text, told.error) == (ask.text, {})


async def reads_a_typed_answer(world: World, speakers: Speakers, client: Client) -> None:
    """The schema reaches the provider, and its answer the client."""
    last = await world.stack.provider("last", says(orjson.dumps(PLACE).decode()))
    ask = world.ask(last.model, last, Fate.WELL, "")
    for streamed in (False, True):
        told = await client.heard(speakers, ask, streamed=streamed, do="parse", method="json_schema")
        assert told.value == PLACE
        asked = last.upstream.requests[-1].body["response_format"]["json_schema"]["schema"]
        assert asked["properties"].keys() == PLACE.keys()


async def reads_a_typed_call(world: World, speakers: Speakers, client: Client) -> None:
    last = await world.stack.provider("last", calling("Place", orjson.dumps(PLACE).decode()))
    ask = world.ask(last.model, last, Fate.WELL, "")
    for streamed in (False, True):
        told = await client.heard(speakers, ask, streamed=streamed, do="parse", method="function_calling")
        assert told.value == PLACE


async def shows_a_picture(world: World, speakers: Speakers, client: Client) -> None:
    last = await world.stack.provider("last", says("a dot"), capabilities=["vision"])
    ask = world.ask(last.model, last, Fate.WELL, "a dot")
    told = await client.heard(speakers, ask, streamed=False, do="see", image=DOT)
    assert told.text == "a dot"
    [text, image] = last.upstream.requests[-1].body["messages"][-1]["content"]
    assert (text["text"], image["image_url"]["url"]) == (QUESTION, f"data:image/png;base64,{DOT}")


async def embeds(world: World, speakers: Speakers, client: Client) -> None:
    last = await world.stack.provider("last", answer(200, VECTORS), capabilities=["embeddings"])
    ask = world.ask(last.model, last, Fate.WELL, "")
    told = await client.heard(speakers, ask, streamed=False, do="embed", texts=["one", "two"])
    assert told.value == [[0.5, -1.0], [1.0, 2.0]]
    assert last.upstream.requests[-1].body["input"] == ["one", "two"]


async def counts(world: World, speakers: Speakers, client: Client) -> None:
    ask = await SHAPES["single"](world, Fate.WELL)
    assert (await client.heard(speakers, ask, streamed=False, do="count")).usage[0] in range(3, 12)


TASKS: Mapping[str, Callable[[World, Speakers, Client], Awaitable[None]]] = MappingProxyType(
    {
        "async": is_awaited,
        "typed": reads_a_typed_answer,
        "typed call": reads_a_typed_call,
        "picture": shows_a_picture,
        "embeddings": embeds,
        "counting": counts,
    }
)


async def test_also(world: World, speakers: Speakers, client: Client, task: str) -> None:
    await TASKS[task](world, speakers, client)
