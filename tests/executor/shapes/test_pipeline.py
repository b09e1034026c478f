"""PIPELINE over the wire: what each step is sent, and what a step that fails comes to."""

from __future__ import annotations

from typing import Any

import pytest

from tests.executor.conftest import House, target
from tests.executor.shapes.plans import (
    STREAMED,
    TOOL,
    links,
    messages_of,
    pipeline,
    priced,
    run,
    says,
    says_what,
    with_fallbacks,
)
from tests.executor.upstream import answer, completion, error_body, hang

BROKEN = answer(500, error_body("broken"))
BOTH = pytest.mark.parametrize("mode", [{}, STREAMED], ids=["plain", "stream"])


@BOTH
async def test_each_step_goes_on_with_the_text_before(house: House, mode: dict[str, Any]) -> None:
    ups = [await house.upstream(says(text)) for text in ("draft", "better", "best")]
    steps = [priced(up, str(n), prompt=f"Step {n}.") for n, up in enumerate(ups, 1)]
    got = await run(house, pipeline(*steps), mode)
    assert says_what(got) == "best"
    user = {"role": "user", "content": "say hello"}
    turns = [user, {"role": "user", "content": "draft"}, {"role": "user", "content": "better"}]
    for n, (up, turn) in enumerate(zip(ups, turns, strict=True), 1):
        assert messages_of(up) == [{"role": "system", "content": f"Step {n}."}, turn]
    assert links(got) == {
        "1 1": ("SUCCESS", "2", False),
        "2 2": ("SUCCESS", "3", False),
        "3 3": ("SUCCESS", "", True),
    }
    last = 120 if mode else 15
    assert (got.done.cost_usd, got.done.attempts, got.head.attempts) == (2 * 15 + last, 3, 3)
    assert got.done.usage.input_tokens == (100 if mode else 10)
    assert got.head.cost_usd == (2 * 15 + (0.25 if mode else last))


async def test_only_the_last_step_gets_what_is_for_the_client(house: House) -> None:
    first, last = await house.upstream(says("draft")), await house.upstream(says("best"))
    asked = {**STREAMED, "tools": [TOOL], "n": 2, "response_format": {"type": "json_object"}, "temperature": 0.5}
    got = await run(house, pipeline(target(first, "1"), target(last, "2")), asked)
    assert got.headers["content-type"].startswith("text/event-stream")
    assert {key for key in first.requests[0].body if key not in ("model", "messages")} == {"temperature"}
    body = last.requests[0].body
    assert {key: body[key] for key in asked} == asked


async def test_a_pipeline_of_one_step_is_an_ordinary_call(house: House) -> None:
    up = await house.upstream(says("done"))
    got = await run(house, pipeline(target(up, "1")), {"tools": [TOOL]})
    assert (says_what(got), up.requests[0].body["tools"]) == ("done", [TOOL])


async def test_each_step_has_its_own_fallbacks_and_retries(house: House) -> None:
    limited = answer(429, error_body("slow"), {"retry-after": "0.1"})
    first, spare = await house.upstream(BROKEN), await house.upstream(says("draft"))
    last = await house.upstream(limited, says("best"))
    plan = pipeline(with_fallbacks(target(first, "1"), target(spare, "1.1")), target(last, "2"))
    plan.retry.max_retries = 1
    got = await run(house, plan)
    assert says_what(got) == "best"
    assert links(got) == {
        "1 1": ("UPSTREAM_ERROR", "1.1", False),
        "2 1.1": ("SUCCESS", "2", False),
        "3 2": ("RATE_LIMITED", "2", False),
        "4 2": ("SUCCESS", "", True),
    }


@BOTH
async def test_a_step_without_a_text_ends_it(house: House, mode: dict[str, Any]) -> None:
    thinking = await house.upstream(answer(200, completion("", reasoning_content="hm")))
    last = await house.upstream(says("best"))
    got = await run(house, pipeline(priced(thinking, "1"), target(last, "2")), mode)
    assert (got.head.status, got.head.error_code) == (502, "upstream_empty")
    assert "step 1 (p-1/model-1)" in got.json["error"]["message"]
    assert (links(got), last.requests) == ({"1 1": ("SUCCESS", "", True)}, [])
    assert (got.head.cost_usd, got.done.cost_usd) == (15, 15)


async def test_an_empty_step_is_tried_elsewhere_and_named_in_the_end(house: House) -> None:
    first, last = await house.upstream(says("draft")), await house.upstream(answer(200, completion("")))
    plan = pipeline(target(first, "1"), with_fallbacks(target(last, "2"), target(last, "2.1")), target(first, "3"))
    got = await run(house, plan)
    assert (got.head.status, got.classes) == (502, ["SUCCESS", "EMPTY", "EMPTY"])
    assert got.json["error"]["message"].startswith("step 2 (p-2/model-2): No target could answer after 2 attempts")
    assert len(got.json["error"]["attempts"]) == 3


async def test_a_withheld_step_is_returned_as_it_is(house: House) -> None:
    told = completion("", finish="content_filter")
    first, last = await house.upstream(answer(200, told)), await house.upstream(says("best"))
    got = await run(house, pipeline(target(first, "1"), target(last, "2")))
    assert (got.json, got.head.status, last.requests) == (told, 200, [])
    assert links(got) == {"1 1": ("CONTENT_POLICY", "", True)}


async def test_a_limited_step_tells_when_to_come_back(house: House) -> None:
    first = await house.upstream(says("draft"))
    last = await house.upstream(answer(429, error_body("slow"), {"retry-after": "40"}))
    got = await run(house, pipeline(target(first, "1"), target(last, "2")))
    assert (got.head.status, got.headers["retry-after"]) == (429, "40")
    assert "step 2 (p-2/model-2)" in got.json["error"]["message"]


async def test_the_deadline_is_the_whole_pipelines(house: House) -> None:
    first, last = await house.upstream(says("draft", pause_s=0.2)), await house.upstream(hang)
    got = await run(house, pipeline(target(first, "1"), target(last, "2")), deadline_ms=400)
    assert (got.head.status, got.json["error"]["code"]) == (504, "deadline_exceeded")
    assert links(got)["2 2"] == ("LOCAL_CANCELLED", "", True)


async def test_attempts_are_counted_over_all_steps(house: House) -> None:
    first, last = await house.upstream(says("draft")), await house.upstream(says("best"))
    plan = pipeline(target(first, "1"), target(last, "2"))
    plan.retry.max_attempts = 1
    got = await run(house, plan)
    assert (got.head.status, last.requests) == (502, [])
    assert "step 2 (p-2/model-2): The limit of attempts was reached" in got.json["error"]["message"]
    assert links(got) == {"1 1": ("SUCCESS", "2", False), "2 2": ("LOCAL_CANCELLED", "", True)}
