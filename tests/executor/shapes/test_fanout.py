"""FANOUT over the wire: every answer is shown, the primary's is the message."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

import pytest

from tests.executor.conftest import Answer, House, target
from tests.executor.shapes.plans import (
    STREAMED,
    asking,
    check_leases,
    fanout,
    links,
    priced,
    run,
    says,
    with_fallbacks,
)
from tests.executor.upstream import DONE, Connection, Received, answer, completion, error_body, hang

SHAPE = import_module("executor.shapes.fanout")
BROKEN = answer(500, error_body("broken"))


async def test_a_plain_answer_is_the_primarys_with_the_whole_panel_in_it(house: House) -> None:
    ups = [await house.upstream(script) for script in (says("one", 0.5), BROKEN, says("three"))]
    got = await run(house, fanout(*(priced(up, str(n)) for n, up in enumerate(ups, 1))))
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    assert got.json == {
        **completion("one"),
        "omniroute": {
            "panel": [
                {"provider": "p-1", "model": "model-1", "ok": True, "primary": True, "content": "one", "usage": usage},
                {
                    "provider": "p-2",
                    "model": "model-2",
                    "ok": False,
                    "error": got.json["omniroute"]["panel"][1]["error"],
                },
                {
                    "provider": "p-3",
                    "model": "model-3",
                    "ok": True,
                    "primary": False,
                    "content": "three",
                    "usage": usage,
                },
            ]
        },
    }
    assert "broken" in got.json["omniroute"]["panel"][1]["error"]
    assert (got.head.model, got.head.cost_usd, got.done.cost_usd, got.done.attempts) == ("model-1", 30, 30, 3)
    assert links(got)["1 1"] == ("SUCCESS", "", True)
    assert {name for name, _, final in links(got).values() if not final} == {"UPSTREAM_ERROR", "SUCCESS"}


async def test_the_first_that_is_well_is_the_primary_when_the_leader_is_not(house: House) -> None:
    ups = [await house.upstream(script) for script in (BROKEN, says("two", 0.5), says("three"))]
    got = await run(house, fanout(*(target(up, str(n)) for n, up in enumerate(ups, 1))))
    assert got.json["choices"][0]["message"]["content"] == "two"


async def test_a_stream_shows_each_text_as_it_comes_and_ends_with_the_primarys(house: House) -> None:
    released = asyncio.Event()

    async def last(received: Received, connection: Connection) -> None:
        await released.wait()
        await says("one")(received, connection)

    ups = [await house.upstream(script) for script in (last, BROKEN, says("three"))]
    plan = fanout(*(priced(up, str(n)) for n, up in enumerate(ups, 1)))
    got = Answer()
    async for response in house.stub.Execute(asking(plan, STREAMED), timeout=20):
        got.events.append(response)
        if response.HasField("chunk"):
            released.set()  # the first text went out while the leader was still being waited for
    check_leases(plan, got.outcomes)
    contents = [c["delta"]["content"] for p in got.payloads for c in p["choices"] if c["delta"].get("content")]
    assert contents == ["**p-3/model-3**\n\nthree\n\n", "**p-1/model-1**\n\none\n\n", "one"]
    assert [p.get("omniroute", {}).get("member") for p in got.payloads[:3]] == ["p-3/model-3", "p-1/model-1", None]
    assert len({payload["id"] for payload in got.payloads}) == 1
    assert [c["finish_reason"] for p in got.payloads for c in p["choices"]] == [None, None, None, "stop"]
    assert got.payloads[-1]["usage"]["completion_tokens"] == 5
    assert got.payloads[-1]["omniroute"]["cost_usd"] == got.done.cost_usd == 30
    assert got.data.endswith(DONE)
    assert not any("stream" in up.requests[0].body for up in ups)


@pytest.mark.parametrize("mode", [{}, STREAMED], ids=["plain", "stream"])
async def test_none_is_well(house: House, mode: dict[str, Any]) -> None:
    limited = await house.upstream(answer(429, error_body("slow down"), {"retry-after": "40"}))
    broken = await house.upstream(BROKEN)
    got = await run(house, fanout(target(limited, "1"), target(broken, "2")), mode)
    assert (got.head.status, got.head.error_code, got.headers["retry-after"]) == (502, "all_targets_failed", "40")
    assert got.headers["content-type"] == "application/json"
    assert [member["provider"] for member in got.json["error"]["members"]] == ["p-1", "p-2"]


async def test_a_members_fallback_answers_for_it(house: House) -> None:
    broken, spare, other = [await house.upstream(script) for script in (BROKEN, says("spare"), says("other"))]
    got = await run(house, fanout(with_fallbacks(target(broken, "1"), target(spare, "1.1")), target(other, "2")))
    assert got.json["choices"][0]["message"]["content"] == "spare"
    assert got.json["omniroute"]["panel"][0]["model"] == "model-1.1"


async def test_the_panels_time_is_over(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SHAPE, "LIMIT_S", 0.3)
    late, lone = await house.upstream(hang), await house.upstream(says("lone"))
    got = await run(house, fanout(with_fallbacks(target(late, "1"), target(late, "1.1")), target(lone, "2")))
    assert got.json["choices"][0]["message"]["content"] == "lone"
    assert set(got.classes) == {"SUCCESS", "LOCAL_CANCELLED"}


async def test_a_targets_own_time_out_that_is_the_panels_limit_counts_as_its_own(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SHAPE, "LIMIT_S", 0.3)
    late, lone = await house.upstream(hang), await house.upstream(says("lone"))
    got = await run(house, fanout(target(late, "1", timeout_ms=300), target(lone, "2")))
    assert links(got)["1 1"][0] == "TIMEOUT"
