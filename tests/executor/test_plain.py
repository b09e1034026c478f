"""Whole answers: what the upstream is sent, what the client gets, and which answers count."""

from __future__ import annotations

from typing import Any

import pytest

from omniroute.decision.v1 import decision_pb2
from tests.executor.conftest import SECRET, House, target
from tests.executor.upstream import answer, completion, error_body


async def test_an_answer_reaches_the_client_byte_for_byte(house: House) -> None:
    body = b'{ "choices" : [{"message":{"content":"h\xc3\xa9llo"},"finish_reason":"stop"}],"odd":1.50 }'
    got = await house.plain(answer(200, body))
    assert got.data == body
    assert got.kinds == ["outcome", "head", "chunk", "done"]
    assert (got.head.status, got.headers["content-type"]) == (200, "application/json")
    assert (got.head.provider, got.head.model, got.head.connection_id) == ("p-t0", "model-t0", "c-t0")


async def test_the_outcome_of_a_success_is_complete(house: House) -> None:
    upstream = await house.upstream(answer(200, completion(finish="length"), {"x-ratelimit-remaining-requests": "0"}))
    prices: dict[str, Any] = {"input_price": 2.0, "output_price": 8.0}
    got = await house.execute([target(upstream, **prices)])
    (outcome,) = got.outcomes
    assert (outcome.decision_id, outcome.attempt, outcome.target_id) == ("d1", 1, "t0")
    assert (outcome.provider, outcome.model, outcome.connection_id) == ("p-t0", "model-t0", "c-t0")
    assert got.classes == ["SUCCESS"]
    assert (outcome.http_status, outcome.finish_reason, outcome.final, outcome.next_target_id) == (
        200,
        "length",
        True,
        "",
    )
    assert (outcome.input_tokens, outcome.output_tokens, outcome.usage_estimated) == (10, 5, False)
    assert outcome.cost_usd == pytest.approx((10 * 2 + 5 * 8) / 1e6)
    assert outcome.at.seconds > 1_700_000_000
    assert [(window.name, window.limit_reached) for window in outcome.quota] == [("requests", True)]
    assert got.done.cost_usd == pytest.approx(outcome.cost_usd)
    assert (got.done.attempts, got.done.usage.output_tokens) == (1, 5)
    assert got.head.cost_usd == pytest.approx(outcome.cost_usd)


async def test_the_upstream_gets_the_clients_body_with_the_targets_model(house: House) -> None:
    upstream = await house.upstream(answer(200, completion()))
    await house.execute(
        [target(upstream)], body={"temperature": 0.25, "unknown": {"deep": [1, None]}}, request_id="r-1"
    )
    (received,) = upstream.requests
    assert received.path == "/v1/chat/completions"
    assert received.body == {
        "model": "model-t0",
        "messages": [{"role": "user", "content": "say hello"}],
        "temperature": 0.25,
        "unknown": {"deep": [1, None]},
    }
    assert received.headers["authorization"] == f"Bearer {SECRET}"
    assert received.headers["x-request-id"] == "r-1"
    assert "cookie" not in received.headers


async def test_prompt_effort_and_trace_context_are_added(house: House) -> None:
    upstream = await house.upstream(answer(200, completion()))
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await house.execute([target(upstream, prompt="Be brief.")], effort="low", metadata=(("traceparent", trace),))
    (received,) = upstream.requests
    assert received.body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert received.body["reasoning_effort"] == "low"
    assert received.headers["traceparent"] == trace


@pytest.mark.parametrize("field", ["reasoning_effort", "reasoning", "thinking"])
async def test_effort_leaves_the_clients_own_reasoning_fields_alone(house: House, field: str) -> None:
    upstream = await house.upstream(answer(200, completion()))
    await house.execute([target(upstream)], effort="low", body={field: "high"})
    assert upstream.requests[0].body[field] == "high"
    assert ("reasoning_effort" in upstream.requests[0].body) == (field == "reasoning_effort")


async def test_embeddings_go_to_their_own_path(house: House) -> None:
    body = {"object": "list", "data": [{"embedding": [0.5], "index": 0}], "usage": {"prompt_tokens": 3}}
    upstream = await house.upstream(answer(200, body))
    operation = decision_pb2.OPERATION_EMBEDDINGS
    got = await house.execute([target(upstream)], operation=operation, body={"input": "x", "stream": True})
    assert got.json == body
    assert upstream.requests[0].path == "/v1/embeddings"
    assert "stream_options" not in upstream.requests[0].body
    assert (got.outcomes[0].input_tokens, got.classes) == (3, ["SUCCESS"])


BAD_ANSWERS: dict[str, tuple[bytes | dict[str, Any], str]] = {
    "empty body": (b"", "EMPTY"),
    "white space": (b" \n\n ", "EMPTY"),
    "a web page": (b"<!doctype html><html>502</html>", "MALFORMED"),
    "truncated JSON": (b'{"choices":[{"message":{"content":"hel', "MALFORMED"),
    "a JSON text": (b'"hello"', "MALFORMED"),
    "null": (b"null", "MALFORMED"),
    "no choices": ({"id": "x"}, "MALFORMED"),
    "choices null": ({"choices": None}, "MALFORMED"),
    "empty choices": ({"choices": []}, "EMPTY"),
    "no content": (completion(""), "EMPTY"),
    "content null": ({"choices": [{"message": {"content": None}, "finish_reason": "stop"}]}, "EMPTY"),
    "error": (error_body("The server had an error"), "UPSTREAM_ERROR"),
    "error text": ({"error": "something broke"}, "UPSTREAM_ERROR"),
    "error with a null code": ({"error": {"code": None}}, "UPSTREAM_ERROR"),
    "error list": (
        b'[{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}]',
        "OVERLOADED",
    ),
    "code 1302": ({"error": {"code": "1302", "message": "并发数过高"}}, "RATE_LIMITED"),
    "code 1302 as a number": ({"code": 1302, "message": "too high"}, "RATE_LIMITED"),
    "rate_limit": ({"error": {"code": "rate_limit", "message": "slow down"}}, "RATE_LIMITED"),
    "rate_limit as text": ({"error": "rate_limit"}, "RATE_LIMITED"),
    "status inside": ({"error": {"code": 429, "message": "later"}}, "RATE_LIMITED"),
    "quota inside": ({"error": {"code": 402, "message": "no"}}, "QUOTA_EXHAUSTED"),
    "base_resp": ({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, "QUOTA_EXHAUSTED"),
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
async def test_a_success_without_an_answer_goes_on_to_the_next_target(house: House, name: str) -> None:
    body, outcome_class = BAD_ANSWERS[name]
    got = await house.plain(answer(200, body), answer(200, completion("from the next")))
    assert got.json["choices"][0]["message"]["content"] == "from the next"
    assert got.classes == [outcome_class, "SUCCESS"]
    first, second = got.outcomes
    assert (first.http_status, first.final, first.next_target_id) == (200, False, "t1")
    assert (second.attempt, second.final) == (2, True)
    assert (got.head.attempts, got.head.provider) == (2, "p-t1")


GOOD_ANSWERS: dict[str, dict[str, Any]] = {
    "tool calls": completion("", tool_calls=[{"id": "a", "type": "function", "function": {"name": "f"}}]),
    "reasoning": completion("", reasoning_content="hm"),
    "refusal": completion("", refusal="I cannot"),
    "error null": {**completion("x"), "error": None},
    "hidden reasoning": {
        **completion("", finish="length"),
        "usage": {"prompt_tokens": 1, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 9}},
    },
}


@pytest.mark.parametrize("name", GOOD_ANSWERS)
async def test_content_has_several_forms(house: House, name: str) -> None:
    got = await house.plain(answer(200, GOOD_ANSWERS[name]))
    assert (got.json, got.classes) == (GOOD_ANSWERS[name], ["SUCCESS"])


async def test_an_answer_that_a_content_filter_withheld_is_returned_as_it_is(house: House) -> None:
    withheld = completion("", finish="content_filter")
    got = await house.plain(answer(200, withheld), answer(200, completion()))
    assert (got.json, got.classes) == (withheld, ["CONTENT_POLICY"])


async def test_usage_is_estimated_when_the_upstream_tells_none(house: House) -> None:
    body = completion("x" * 40)
    del body["usage"]
    (outcome,) = (await house.plain(answer(200, body))).outcomes
    assert (outcome.output_tokens, outcome.usage_estimated) == (10, True)
    assert outcome.input_tokens > 0


async def test_invalid_utf8_is_repaired_before_the_client_sees_it(house: House) -> None:
    got = await house.plain(answer(200, b'{"choices":[{"message":{"content":"a\xff\xfeb"}}]}'))
    assert got.json["choices"][0]["message"]["content"] == "a\ufffd\ufffdb"


async def test_a_large_answer_travels_in_pieces(house: House) -> None:
    body = completion("y" * 3_000_000)
    got = await house.plain(answer(200, body))
    assert got.json == body
    assert len(got.chunks) > 1
