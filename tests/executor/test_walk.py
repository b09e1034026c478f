"""Failover over the wire: what goes on, what is returned, retries, time, and the client's error."""

from __future__ import annotations

import asyncio
import email.utils
import time
from typing import Any

import orjson
import pytest

from omniroute.decision.v1 import decision_pb2
from tests.executor.conftest import SECRET, Build, House, key, target
from tests.executor.upstream import (
    Connection,
    Received,
    Script,
    answer,
    close_at_once,
    completion,
    error_body,
    hang,
    head,
)

GOOD = answer(200, completion("good"))
SHAPE_ERROR = error_body("Invalid type for 'messages'", type="invalid_request_error", param="messages")


async def half_a_body(_received: Received, connection: Connection) -> None:
    await connection.send(head(200, {"content-length": "1000"}) + b'{"choices":')
    connection.cut()
    raise ConnectionResetError


async def slow_loris(_received: Received, connection: Connection) -> None:
    await connection.send_slowly(head(200, {"content-length": "10"}), pause_s=0.2)


FAULTS: dict[str, tuple[Script, str]] = {
    "500": (answer(500, error_body()), "UPSTREAM_ERROR"),
    "503 text": (answer(503, b"Service Unavailable"), "UPSTREAM_ERROR"),
    "529": (answer(529, error_body()), "OVERLOADED"),
    "429 with Retry-After": (answer(429, error_body("slow down"), {"retry-after": "30"}), "RATE_LIMITED"),
    "429 quota": (answer(429, error_body("x", code="insufficient_quota")), "QUOTA_EXHAUSTED"),
    "401": (answer(401, error_body("bad key")), "AUTH_FAILED"),
    "402": (answer(402, error_body("pay")), "QUOTA_EXHAUSTED"),
    "403": (answer(403, error_body("no")), "AUTH_FAILED"),
    "404": (answer(404, error_body("no such model")), "MODEL_NOT_FOUND"),
    "408": (answer(408, error_body("slow")), "UPSTREAM_ERROR"),
    "413": (answer(413, b"too large"), "INVALID_REQUEST"),
    "418": (answer(418, b"teapot"), "INVALID_REQUEST"),
    "unrecognised 400": (answer(400, error_body("computer says no")), "INVALID_REQUEST"),
    "a redirect": (answer(301, b"", {"location": "http://127.0.0.1:9/"}), "UPSTREAM_ERROR"),
    "close": (close_at_once, "NETWORK"),
    "half a body": (half_a_body, "NETWORK"),
    "not HTTP": (lambda _r, c: c.send(b"SSH-2.0-OpenSSH\r\n\r\n"), "NETWORK"),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_failed_attempt_goes_on_to_the_next_target(house: House, name: str) -> None:
    script, outcome_class = FAULTS[name]
    got = await house.plain(script, GOOD)
    assert got.json["choices"][0]["message"]["content"] == "good"
    assert got.classes == [outcome_class, "SUCCESS"]


async def test_a_refused_connection_goes_on(house: House) -> None:
    got = await house.execute([target("http://127.0.0.1:9/v1"), target(await house.upstream(GOOD), "t1")])
    assert got.classes == ["NETWORK", "SUCCESS"]


async def slow_body(_received: Received, connection: Connection) -> None:
    data = orjson.dumps(completion("never whole in time"))
    await connection.send(head(200, {"content-length": str(len(data))}))
    await connection.send_slowly(data, pause_s=0.05)


@pytest.mark.parametrize(
    "script", [hang, slow_loris, slow_body], ids=["hang", "a head that drips", "a body that drips"]
)
async def test_a_target_without_an_answer_in_its_time_out_goes_on(house: House, script: Script) -> None:
    upstream = await house.upstream(script)
    spare = await house.upstream(GOOD)
    got = await house.execute([target(upstream, timeout_ms=300), target(spare, "t1")])
    assert got.classes == ["TIMEOUT", "SUCCESS"]
    assert 280 <= got.outcomes[0].latency_ms < 1_500
    await asyncio.wait_for(upstream.connections[0].gone.wait(), 1)


RETURNED: dict[str, tuple[Script, str, int]] = {
    "400 about the shape": (answer(400, SHAPE_ERROR), "INVALID_REQUEST", 400),
    "415": (answer(415, error_body("media")), "INVALID_REQUEST", 415),
    "422": (answer(422, {"detail": [{"loc": ["body", "messages"], "msg": "field required"}]}), "INVALID_REQUEST", 422),
    "content policy": (
        answer(400, error_body("flagged by our filter", code="content_policy_violation")),
        "CONTENT_POLICY",
        400,
    ),
    "content policy with 403": (answer(403, error_body("Your input was flagged by moderation")), "CONTENT_POLICY", 400),
}


@pytest.mark.parametrize("name", RETURNED)
async def test_a_failure_that_is_the_requests_own_is_returned_at_once(house: House, name: str) -> None:
    script, outcome_class, status = RETURNED[name]
    got = await house.plain(script, GOOD)
    assert (got.classes, got.head.status) == ([outcome_class], status)
    assert got.outcomes[0].final
    assert got.json["error"]["message"]
    assert got.json["error"]["type"] == "invalid_request_error"


async def test_a_returned_error_keeps_the_upstreams_words(house: House) -> None:
    got = await house.plain(answer(400, SHAPE_ERROR))
    error = got.json["error"]
    assert (error["message"], error["param"]) == ("Invalid type for 'messages'", "messages")
    assert got.head.error_code == error["code"]


async def test_a_refusal_of_a_field_that_was_added_here_is_not_the_clients(house: House) -> None:
    body = error_body("Unknown parameter: 'stream_options'", type="invalid_request_error", param="stream_options")
    assert (await house.stream(answer(400, body), GOOD)).classes == ["INVALID_REQUEST", "SUCCESS"]
    asked = {"stream_options": {"include_usage": True}}
    assert (await house.stream(answer(400, body), GOOD, body=asked)).classes == ["INVALID_REQUEST"]


OVERFLOW = answer(400, error_body("This model's maximum context length is 8192 tokens", code="context_length_exceeded"))


async def test_an_overflow_goes_to_the_next_larger_window(house: House) -> None:
    small, same, large = [await house.upstream(script) for script in (OVERFLOW, GOOD, GOOD)]
    got = await house.execute(
        [
            target(small, context_window=8192),
            target(same, "t1", context_window=8192),
            target(large, "t2", context_window=32768),
        ]
    )
    assert got.classes == ["CONTEXT_TOO_LONG", "SUCCESS"]
    assert (got.outcomes[0].next_target_id, same.requests) == ("t2", [])


async def test_an_overflow_without_a_larger_window_is_returned(house: House) -> None:
    small, same = await house.upstream(OVERFLOW), await house.upstream(GOOD)
    got = await house.execute([target(small, context_window=8192), target(same, "t1", context_window=8000)])
    assert (got.head.status, got.json["error"]["code"]) == (400, "context_length_exceeded")
    assert same.requests == []


async def test_a_short_hint_is_waited_out_on_the_same_target(house: House) -> None:
    limited = answer(429, error_body("slow down"), {"retry-after": "0.3"})
    upstream, spare = await house.upstream(limited, GOOD), await house.upstream(GOOD)
    started = time.monotonic()
    got = await house.execute([target(upstream), target(spare, "t1")])
    assert time.monotonic() - started >= 0.3
    assert got.classes == ["RATE_LIMITED", "SUCCESS"]
    first, second = got.outcomes
    assert (first.next_target_id, first.final, first.retry_after_ms) == ("t0", False, 300)
    assert (second.target_id, second.attempt) == ("t0", 2)
    assert spare.requests == []


async def test_the_last_target_is_retried_once_without_a_hint(house: House) -> None:
    upstream = await house.upstream(answer(500, error_body()), GOOD)
    started = time.monotonic()
    got = await house.execute([target(upstream)])
    assert time.monotonic() - started >= 0.5
    assert got.classes == ["UPSTREAM_ERROR", "SUCCESS"]
    assert got.outcomes[0].next_target_id == "t0"


async def test_a_long_hint_is_not_waited_for(house: House) -> None:
    got = await house.plain(answer(429, error_body("slow"), {"retry-after": "7"}))
    assert (got.classes, got.head.status) == (["RATE_LIMITED"], 429)
    assert got.headers["retry-after"] == "7"


async def test_no_retries_where_the_plan_forbids_them(house: House) -> None:
    rules = decision_pb2.RetryRules(max_attempts=30, max_retries=0)
    got = await house.plain(answer(500, error_body()), retry=rules)
    assert got.classes == ["UPSTREAM_ERROR"]


async def test_the_attempt_cap_ends_the_walk(house: House) -> None:
    rules = decision_pb2.RetryRules(max_attempts=2, max_retries=1)
    got = await house.plain(*[answer(500, error_body())] * 4, retry=rules)
    assert got.classes == ["UPSTREAM_ERROR"] * 2
    assert (got.outcomes[1].final, got.outcomes[1].next_target_id) == (True, "")
    assert len(got.json["error"]["attempts"]) == 2


async def test_a_wait_never_runs_past_the_deadline(house: House) -> None:
    started = time.monotonic()
    got = await house.plain(answer(429, error_body("slow"), {"retry-after": "1.5"}), deadline_ms=1_000)
    assert time.monotonic() - started < 0.9
    assert (got.classes, got.head.status) == (["RATE_LIMITED"], 429)


async def test_a_deadline_that_passes_is_504_and_blames_nobody(house: House) -> None:
    got = await house.plain(hang, deadline_ms=400)
    assert (got.classes, got.head.status) == (["LOCAL_CANCELLED"], 504)
    assert got.json["error"]["code"] == "deadline_exceeded"


async def test_the_calls_own_deadline_counts_too(house: House) -> None:
    got = await house.plain(hang, timeout=0.6)
    assert (got.classes, got.head.status, got.kinds[-1]) == (["LOCAL_CANCELLED"], 504, "done")


STATUSES: dict[str, tuple[list[Script], int]] = {
    "all 500 and 503": ([answer(500, error_body()), answer(503, error_body())], 503),
    "all rate limited": ([answer(429, error_body("slow"), {"retry-after": "9"})] * 2, 429),
    "all auth": ([answer(401, error_body("no")), answer(403, error_body("no"))], 502),
    "all quota": ([answer(402, error_body("no"))] * 2, 429),
    "all not found": ([answer(404, error_body("no"))] * 2, 404),
    "all other 4xx": ([answer(418, error_body("no")), answer(409, error_body("no"))], 409),
    "all closed": ([close_at_once] * 2, 502),
    "all empty": ([answer(200, b"")] * 2, 502),
    "mixed": ([answer(500, error_body()), close_at_once], 502),
}


@pytest.mark.parametrize("name", STATUSES)
async def test_the_clients_status_when_all_failed(house: House, name: str) -> None:
    scripts, status = STATUSES[name]
    rules = decision_pb2.RetryRules(max_attempts=30, max_retries=0)
    got = await house.plain(*scripts, retry=rules)
    assert got.head.status == status
    assert [listed["class"] for listed in got.json["error"]["attempts"]] == got.classes
    assert got.kinds[-3:] == ["head", "chunk", "done"]
    assert (got.head.provider, got.head.error_code) == ("", got.json["error"]["code"])


async def test_one_time_out_among_others_is_504(house: House) -> None:
    first, second = await house.upstream(hang), await house.upstream(close_at_once)
    got = await house.execute([target(first, timeout_ms=200), target(second, "t1")])
    assert (got.classes, got.head.status) == (["TIMEOUT", "NETWORK"], 504)


IN_AN_HOUR = "in an hour"  # a date, made as the test begins
HINTS: dict[str, tuple[dict[str, str], dict[str, Any], float | None]] = {
    "seconds": ({"retry-after": "7"}, {}, 7),
    "decimals": ({"retry-after": "7.25"}, {}, 7.25),
    "a date": ({"retry-after": IN_AN_HOUR}, {}, 3_600),
    "a date in the past": ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, {}, None),
    "milliseconds": ({"retry-after-ms": "7250", "retry-after": "9"}, {}, 7.25),
    "a duration": ({"retry-after": "1m7s"}, {}, 67),
    "a window that is used up": (
        {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"},
        {},
        360,
    ),
    "in the text": ({}, {"message": "Please try again in 7.25s."}, 7.25),
    "in a field": ({}, {"retry_after": 7}, 7),
    "in a detail": ({}, {"details": [{"retryDelay": "34.5s"}]}, 34.5),
    "nonsense": ({"retry-after": "soon"}, {}, None),
    "none": ({}, {}, None),
}


@pytest.mark.parametrize("name", HINTS)
async def test_a_wait_is_told_in_whichever_form_it_came(house: House, name: str) -> None:
    headers, fields, wait_s = HINTS[name]
    if IN_AN_HOUR in headers.values():
        headers = {"retry-after": email.utils.formatdate(time.time() + 3_600, usegmt=True)}
    got = await house.plain(answer(429, error_body(**{"message": "slow down", **fields}), headers), GOOD)
    assert got.classes == ["RATE_LIMITED", "SUCCESS"]
    outcome = got.outcomes[0]
    assert outcome.HasField("retry_after_ms") is (wait_s is not None)
    assert outcome.retry_after_ms == pytest.approx(1_000 * (wait_s or 0), abs=60_000 if wait_s == 3_600 else 0)


async def test_every_attempt_is_listed_with_the_earliest_hint(house: House) -> None:
    scripts = [
        answer(429, error_body("one"), {"retry-after": "40"}),
        answer(503, error_body("two"), {"retry-after": "8"}),
    ]
    got = await house.plain(*scripts)
    assert got.json["error"]["attempts"] == [
        {"provider": "p-t0", "model": "model-t0", "class": "RATE_LIMITED", "status": 429, "message": "one"},
        {"provider": "p-t1", "model": "model-t1", "class": "UPSTREAM_ERROR", "status": 503, "message": "two"},
    ]
    assert got.headers["retry-after"] == "8"


@pytest.mark.parametrize("status", [400, 401, 422, 500])
async def test_upstream_texts_are_cut_and_hold_no_secret(house: House, status: int) -> None:
    text = (
        f"Incorrect API key provided: {SECRET}. Authorization: Bearer {SECRET}; other sk-proj-aaaabbbbcccc " + "x" * 900
    )
    got = await house.plain(answer(status, error_body(text)))
    assert SECRET.encode() not in got.data
    assert b"sk-proj" not in got.data
    assert all(len(listed["message"]) <= 500 for listed in got.json["error"]["attempts"])
    assert b"".join(event.SerializeToString() for event in got.events).count(SECRET.encode()) == 0


async def test_a_target_of_an_unknown_dialect_is_passed_over(house: House) -> None:
    upstream = await house.upstream(GOOD)
    got = await house.execute([target(upstream, dialect="morse"), target(upstream, "t1")])
    assert got.classes == ["LOCAL_CANCELLED", "SUCCESS"]
    assert len(upstream.requests) == 1


async def test_a_huge_answer_is_cut_off(build: Build) -> None:
    house = await build(upstream_max_answer_mb=1, executor_grace_s=0.2)
    got = await house.plain(answer(200, completion("z" * 1_200_000)), GOOD)
    assert got.classes == ["MALFORMED", "SUCCESS"]


async def test_huge_headers_are_refused(house: House) -> None:
    got = await house.plain(answer(200, completion(), {"x-long": "h" * 40_000}), GOOD)
    assert got.classes == ["NETWORK", "SUCCESS"]


async def test_an_error_body_that_never_ends_does_not_hold_up_the_walk(house: House) -> None:
    async def endless(_received: Received, connection: Connection) -> None:
        await connection.send(head(500, {"content-type": "text/plain"}))
        while not connection.gone.is_set():
            await connection.send(b"x" * 10_000)

    started = time.monotonic()
    got = await house.plain(endless, GOOD)
    assert (got.classes, time.monotonic() - started < 2) == (["UPSTREAM_ERROR", "SUCCESS"], True)


async def test_an_error_body_that_does_not_come_takes_nothing_from_its_status(house: House) -> None:
    async def silent(_received: Received, connection: Connection) -> None:
        await connection.send(head(429, {"retry-after": "40", "content-length": "100"}) + b'{"error"')
        await connection.gone.wait()

    upstream, spare = await house.upstream(silent), await house.upstream(GOOD)
    got = await house.execute([target(upstream, timeout_ms=300), target(spare, "t1")])
    assert (got.classes, got.outcomes[0].retry_after_ms) == (["RATE_LIMITED", "SUCCESS"], 40_000)


async def test_connections_are_kept_and_used_again(house: House) -> None:
    upstream = await house.upstream(GOOD)
    for _ in range(5):
        await house.execute([target(upstream)])
    assert len(upstream.requests) == 5
    assert len(upstream.connections) == 1


async def test_calls_over_a_hosts_limit_wait_and_then_blame_nobody(build: Build) -> None:
    house = await build(upstream_calls_per_host=1, upstream_queue_timeout_s=0.2, executor_grace_s=0.2)
    upstream = await house.upstream(hang, GOOD)
    slow = asyncio.create_task(house.execute([target(upstream, timeout_ms=1_000)]))
    while not upstream.requests:
        await asyncio.sleep(0.01)
    got = await house.execute([target(upstream)])
    assert (got.classes, got.head.status) == (["LOCAL_CANCELLED"], 503)
    assert (await slow).classes[0] == "TIMEOUT"
    assert (await house.execute([target(upstream)])).classes == ["SUCCESS"]


async def test_calls_over_a_connections_limit_wait_their_turn(house: House) -> None:
    limited = key("one at a time")
    limited.max_concurrent = 1
    house.credentials.answers["c-t0"] = limited
    first, second = await house.upstream(_late(0.3)), await house.upstream(GOOD)
    slow = asyncio.create_task(house.execute([target(first)]))
    while not first.requests:
        await asyncio.sleep(0.01)
    waiting = asyncio.create_task(house.execute([target(second)]))
    other = await house.execute([target(second, connection_id="c-other")])
    assert (other.classes, len(second.requests)) == (["SUCCESS"], 1), "another connection does not wait"
    got = await waiting
    assert ((await slow).classes, got.classes) == (["SUCCESS"], ["SUCCESS"])
    assert got.outcomes[0].latency_ms < 200, "the wait is no time of the target's"


async def test_a_target_has_its_whole_time_out_after_a_wait_for_a_turn(house: House) -> None:
    limited = key("one at a time")
    limited.max_concurrent = 1
    house.credentials.answers["c-t0"] = limited
    first, second = await house.upstream(_late(0.7)), await house.upstream(_late(0.6))
    slow = asyncio.create_task(house.execute([target(first)]))
    while not first.requests:
        await asyncio.sleep(0.01)
    got = await house.execute([target(second, timeout_ms=1_000)])
    assert ((await slow).classes, got.classes) == (["SUCCESS"], ["SUCCESS"])


async def test_a_registry_that_takes_the_time_of_a_call_is_no_fault_of_the_target(house: House) -> None:
    house.credentials.delay_s = 1.0
    got = await house.execute([target(await house.upstream(GOOD), timeout_ms=300)])
    assert got.classes == ["LOCAL_CANCELLED"]


async def test_a_call_whose_turn_does_not_come_in_time_blames_nobody_and_the_next_target_is_tried(
    build: Build,
) -> None:
    house = await build(upstream_queue_per_connection=1, executor_grace_s=0.2)
    limited = key("one at a time")
    limited.max_concurrent = 1
    house.credentials.answers["c-t0"] = limited
    busy, spare = await house.upstream(hang), await house.upstream(GOOD)
    holder = house.call([target(busy)])
    while not busy.requests:
        await asyncio.sleep(0.01)
    late = house.execute([target(busy, timeout_ms=300), target(spare, "t1")])
    waiting = asyncio.create_task(late)
    await asyncio.sleep(0.1)
    full = await house.execute([target(busy), target(spare, "t1")])
    assert (full.classes, (await waiting).classes) == (["LOCAL_CANCELLED", "SUCCESS"],) * 2
    assert full.outcomes[0].latency_ms < 200, "a full queue refuses at once"
    holder.cancel()
    assert (await house.execute([target(spare)])).classes == ["SUCCESS"], "the turn of a call that left is free again"


def _late(pause_s: float) -> Any:
    async def play(received: Any, connection: Any) -> None:
        await asyncio.sleep(pause_s)
        await GOOD(received, connection)

    return play


@pytest.mark.parametrize("transport", ["aiohttp", "httpx"])
async def test_both_transports_serve_the_same_walk(build: Build, transport: str) -> None:
    house = await build(upstream_transport=transport, executor_grace_s=0.2)
    upstreams: list[Any] = [close_at_once, answer(301, b"", {"location": "/x"}), half_a_body, GOOD]
    got = await house.plain(*upstreams)
    assert got.classes == ["NETWORK", "UPSTREAM_ERROR", "NETWORK", "SUCCESS"]
