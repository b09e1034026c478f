"""Chat completions as the official client sees them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import openai
import orjson
import pytest

from edge_gateway.attempts import Attempts
from omniroute.decision.v1 import decision_pb2
from omniroute.executor.v1 import executor_pb2
from omniroute.registry.v1.registry_pb2 import ApiKey
from service_kit.errors import Reason, ServiceError, invalid
from tests.edge_gateway import fakes
from tests.edge_gateway.conftest import House, Open, chat
from tests.edge_gateway.fakes import FakeDecision, chunk, done, head, outcome, playing, stream_head


async def test_plain_answer(house: House) -> None:
    async with house.openai() as client:
        raw = await client.chat.completions.with_raw_response.create(**chat(model="auto/coding"))
    assert raw.parse().choices[0].message.content == "Hello"
    assert raw.headers["x-omniroute-decision-id"] == "d-1"
    assert raw.headers["x-omniroute-strategy"] == "auto"
    assert raw.headers["x-omniroute-provider"] == "p1"
    assert raw.headers["x-omniroute-model"] == "m1"
    assert raw.headers["x-omniroute-connection"] == "c1"
    assert raw.headers["x-omniroute-attempts"] == "1"
    assert raw.headers["x-omniroute-cost-usd"] == "0.0005", "the actual cost, known once the answer is complete"
    assert int(raw.headers["content-length"]) == len(fakes.COMPLETION)
    assert house.decision.asked[0].request_id == raw.headers["x-request-id"] == house.executor.asked[0].request_id
    assert house.decision.asked[0].model == "auto/coding"


async def test_stream(open_house: Open) -> None:
    house = await open_house(fakes.stream_answer(["Hel", "lo"]))
    async with house.openai() as client:
        stream = await client.chat.completions.create(**chat(), stream=True)
        words = [part.choices[0].delta.content async for part in stream]
        assert stream.response.headers["x-omniroute-cost-usd"] == "0.00025", "the estimate"
    assert words == ["Hel", "lo"]
    assert house.decision.asked[0].features.stream
    assert (await house.decision.wait_for_outcomes(1))[0].final


async def test_body_reaches_the_executor_byte_for_byte(house: House) -> None:
    body = b'{ "model": "auto",\n "messages":[{"role":"user","content":"h\\u00e9"}], "x_new": {"deep": [1e400e]} }'
    body = body.replace(b"1e400e", b"1.50, 10000000000000000000000000")
    answer = await house.post(body, {"content-type": "text/plain"})
    assert answer.status_code == 200
    assert house.executor.asked[0].body == body


async def test_plan_and_effort_go_to_the_executor(house: House) -> None:
    house.decision.answer = fakes.decision(effort="high")
    await house.post(chat())
    asked = house.executor.asked[0]
    assert asked.effort == "high"
    assert asked.decision_id == "d-1"
    assert asked.plan == fakes.plan(1, 2)
    assert 590_000 < asked.deadline_ms <= 600_000
    assert asked.client_dialect == executor_pb2.CLIENT_DIALECT_OPENAI_CHAT


async def test_long_plain_answer_is_relayed_in_parts(open_house: Open) -> None:
    parts = [b'{"choices":[', b'"' + b"x" * 200_000 + b'"', b"]}"]
    house = await open_house(playing(head(), *map(chunk, parts), outcome(), done()))
    answer = await house.post(chat())
    assert answer.content == b"".join(parts)
    assert "content-length" not in answer.headers


async def test_error_answer_of_the_executor_is_relayed(open_house: Open) -> None:
    body = b'{"error":{"message":"all failed","type":"upstream_error","param":null,"code":"upstream_failed"}}'
    house = await open_house(playing(head(502, retry_after="7"), chunk(body), done(attempts=2)))
    answer = await house.post(chat(stream=True))
    assert (answer.status_code, answer.content) == (502, body)
    assert answer.headers["retry-after"] == "7"
    assert answer.headers["x-omniroute-attempts"] == "2"


async def test_controls_session_and_task_reach_decide(house: House) -> None:
    house.decision.answer = fakes.decision(ignored_controls=["mode"], opened_filters=["category:vision"])
    answer = await house.post(
        chat(),
        {
            "X-OmniRoute-Mode": "nonsense",
            "X-OmniRoute-Budget": "0.25",
            "X-OmniRoute-Budget-Fallback": "strict",
            "X-OmniRoute-Min-Context": "many",
            "X-OmniRoute-Effort": "auto",
            "X-OmniRoute-Session": "conversation-7",
            "X-OmniRoute-Task": "Coding",
        },
    )
    asked = house.decision.asked[0]
    assert (asked.session_id, asked.session_explicit, asked.features.task_type) == ("conversation-7", True, "coding")
    assert asked.controls == decision_pb2.RequestControls(
        mode="nonsense", budget_usd=0.25, budget_fallback="strict", effort="auto"
    )
    assert answer.headers["x-omniroute-ignored-controls"] == "x-omniroute-min-context, x-omniroute-mode"
    assert answer.headers["x-omniroute-opened-filters"] == "category:vision"


async def test_session_is_derived_and_differs_by_conversation(house: House) -> None:
    for content in ("one", "two", "one"):
        await house.post(chat(content))
    first, second, third = (asked.session_id for asked in house.decision.asked)
    assert first == third != second
    assert not house.decision.asked[0].session_explicit


REFUSALS = [
    (ServiceError(Reason.MODEL_NOT_FOUND, "no such model"), 404, "model_not_found", None),
    (ServiceError(Reason.CONTEXT_LENGTH_EXCEEDED, "too long"), 400, "context_length_exceeded", None),
    (ServiceError(Reason.CAPABILITY_MISMATCH, "no vision"), 400, "capability_mismatch", None),
    (ServiceError(Reason.BUDGET_EXCEEDED, "cap 0.01"), 402, "budget_exceeded", None),
    (ServiceError(Reason.KEY_BUDGET_EXCEEDED, "used up"), 402, "insufficient_quota", None),
    (ServiceError(Reason.POLICY_EXCLUDES_ALL, "policy"), 403, "policy_excludes_all", None),
    (ServiceError(Reason.RATE_LIMIT_EXCEEDED, "slow", retry_after_ms=1), 429, "rate_limit_exceeded", "1"),
    (ServiceError(Reason.NO_AVAILABLE_TARGET, "none", retry_after_ms=2001), 503, "no_available_target", "3"),
    (ServiceError(Reason.NO_AVAILABLE_TARGET, "none", rate_limited=True), 429, "no_available_target", None),
    (invalid("features.input_tokens", "-1", ">= 0"), 400, "invalid_value", None),
    (ServiceError(Reason.UNAVAILABLE, "ipv4:10.0.0.7 is secret"), 503, "service_unavailable", "1"),
    (ServiceError(Reason.INTERNAL, "secret stack"), 500, "internal_error", None),
]


@pytest.mark.parametrize(("refusal", "status", "code", "retry"), REFUSALS, ids=lambda value: str(value)[:40])
async def test_refusals(house: House, refusal: ServiceError, status: int, code: str, retry: str | None) -> None:
    house.decision.refusal = refusal
    answer = await house.post(chat())
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert answer.headers.get("retry-after") == retry
    assert set(error) == {"message", "type", "param", "code"}
    assert "secret" not in answer.text
    assert answer.headers["x-request-id"]


async def test_the_client_raises_its_own_exceptions(house: House) -> None:
    house.decision.refusal = ServiceError(Reason.MODEL_NOT_FOUND, "no such model; near: auto")
    async with house.openai() as client:
        with pytest.raises(openai.NotFoundError, match="near: auto") as caught:
            await client.chat.completions.create(**chat())
    assert caught.value.code == "model_not_found"
    assert caught.value.param == "model"


async def test_decision_over_its_deadline(open_house: Open) -> None:
    house = await open_house(edge_decide_timeout_ms=50)
    assert (await house.post(chat())).status_code == 200
    house.decision.delay_s = 1.0
    answer = await house.post(chat())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.elapsed.total_seconds() < 0.5


async def test_services_that_are_away(open_house: Open) -> None:
    house = await open_house(decision_address="127.0.0.1:1")
    answer = await house.post(chat())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    house = await open_house(executor_address="127.0.0.1:1")
    answer = await house.post(chat())
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "service_unavailable")
    assert answer.headers["x-omniroute-decision-id"] == "d-1"
    assert "127.0.0.1" not in answer.text
    [closing] = await house.decision.wait_for_outcomes(1)
    assert closing.outcome_class == decision_pb2.OUTCOME_CLASS_LOCAL_CANCELLED
    assert (closing.attempt, closing.target_id, closing.final) == (1, "t1", True)


async def failing(request: executor_pb2.ExecuteRequest) -> AsyncIterator[fakes.Event]:
    for event in (stream_head(), *fakes.text_chunks(["Hel"])):
        yield event
    raise ServiceError(Reason.INTERNAL, "secret")


async def test_stream_that_breaks_ends_with_an_error_event(open_house: Open) -> None:
    house = await open_house(failing)
    answer = await house.post(chat(stream=True))
    assert answer.status_code == 200
    last = answer.content.split(b"\n\n")[-2]
    assert orjson.loads(last.removeprefix(b"data: "))["error"]["code"] == "internal_error"
    assert b"[DONE]" not in answer.content
    assert b"secret" not in answer.content
    [closing] = await house.decision.wait_for_outcomes(1)
    assert (closing.outcome_class, closing.final) == (decision_pb2.OUTCOME_CLASS_LOCAL_CANCELLED, True)


async def test_stream_that_just_ends_is_broken(open_house: Open) -> None:
    house = await open_house(playing(stream_head(), *fakes.text_chunks(["Hel"])))
    answer = await house.post(chat(stream=True))
    assert b"answer_interrupted" in answer.content


async def test_plain_answer_that_breaks_is_an_error_answer(open_house: Open) -> None:
    house = await open_house(playing(head(), chunk(b'{"half":')))
    answer = await house.post(chat())
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "answer_interrupted")
    house = await open_house(playing(head(), chunk(b'{"half":'), chunk(b"1")))
    with pytest.raises(httpx.RemoteProtocolError):
        await house.post(chat())


async def test_whole_request_deadline(open_house: Open) -> None:
    house = await open_house(fakes.then_hang(), edge_request_timeout_ms=200)
    answer = await house.post(chat())
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "timeout")
    assert 0 < house.executor.asked[0].deadline_ms <= 200
    await house.executor.wait_for_cancel()


async def test_deadline_inside_a_stream(open_house: Open) -> None:
    house = await open_house(fakes.then_hang(stream_head(), *fakes.text_chunks(["a"])), edge_request_timeout_ms=200)
    answer = await house.post(chat(stream=True))
    assert b'"code":"timeout"' in answer.content
    await house.executor.wait_for_cancel()


async def test_headers_from_upstream_cannot_forge_headers(open_house: Open) -> None:
    evil = head(200, x_evil="a\r\nset-cookie: b=c", set_cookie="a=b", content_length="3", x_omniroute_model="z")
    evil.head.model = "m\r\nx-forged: 1"
    house = await open_house(playing(evil, chunk(fakes.COMPLETION), outcome(), done()))
    answer = await house.post(chat())
    assert "x-forged" not in answer.headers
    assert "set-cookie" not in answer.headers
    assert answer.headers["x-evil"] == "a__set-cookie: b=c"
    assert answer.headers["x-omniroute-model"] == "m__x-forged: 1"
    assert answer.content == fakes.COMPLETION


async def test_concurrency_limit(open_house: Open) -> None:
    house = await open_house(fakes.then_hang(), edge_max_concurrent=2)
    stuck = [asyncio.create_task(house.post(chat())) for _ in range(2)]
    async with asyncio.timeout(5):
        while house.executor.running < 2:
            await asyncio.sleep(0.01)
    answer = await house.post(chat())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["error"]["code"] == "overloaded"
    assert (await house.get("/healthz")).status_code == 200
    for task in stuck:
        task.cancel()
    await asyncio.wait(stuck)


async def test_a_key_has_only_so_many_requests_at_once(open_house: Open) -> None:
    keys = {name: ApiKey(id=name) for name in ("busy", "calm")}
    decision = FakeDecision(keys=keys)
    house = await open_house(fakes.then_hang(), decision, edge_max_concurrent_per_key=2)

    def post(key: str) -> asyncio.Task[httpx.Response]:
        return asyncio.create_task(house.post(chat(), {"authorization": f"Bearer {key}"}))

    stuck = [post("busy"), post("busy")]
    async with asyncio.timeout(5):
        while house.executor.running < 2:
            await asyncio.sleep(0.01)
    answer = await post("busy")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert answer.json()["error"]["code"] == "rate_limit_exceeded"
    assert "2 requests under way" in answer.json()["error"]["message"]
    stuck.append(post("calm"))
    async with asyncio.timeout(5):
        while house.executor.running < 3:
            await asyncio.sleep(0.01)
    stuck[0].cancel()
    async with asyncio.timeout(5):
        while house.executor.running > 2:
            await asyncio.sleep(0.01)
    stuck.append(post("busy"))
    async with asyncio.timeout(5):
        while house.executor.running < 3:
            await asyncio.sleep(0.01)
    for task in stuck:
        task.cancel()
    await asyncio.wait(stuck)


async def test_slow_reader_holds_the_executor_back(open_house: Open) -> None:
    sent = 0

    async def flood(request: executor_pb2.ExecuteRequest) -> AsyncIterator[fakes.Event]:
        nonlocal sent
        yield stream_head()
        for _ in range(400):
            yield chunk(b"data: " + b"x" * 65_536 + b"\n\n")
            sent += 1
        yield fakes.DONE_LINE
        yield outcome()
        yield done()

    house = await open_house(flood)
    async with httpx.AsyncClient(timeout=20) as client:
        url = f"{house.url}/v1/chat/completions"
        async with client.stream("POST", url, json=chat(stream=True)) as answer:
            await asyncio.sleep(0.7)
            held_at = sent
            await asyncio.sleep(0.3)
            assert sent == held_at < 400, "a client that does not read stops the flow"
            size = sum([len(part) async for part in answer.aiter_raw()])
    assert size > 400 * 65_536
    assert sent == 400


def test_closing_outcome_follows_the_named_target() -> None:
    attempts = Attempts(fakes.decision(plan=fakes.plan(1, 2, 3)), "key", lambda: 0.0)
    failed = outcome(1, decision_pb2.OUTCOME_CLASS_TIMEOUT, final=False, next_target_id="t3").outcome
    assert attempts.take(failed)[0].api_key_id == "key"
    [closing] = attempts.close(decision_pb2.OUTCOME_CLASS_CLIENT_CANCELLED)
    assert (closing.attempt, closing.target_id, closing.provider, closing.final) == (2, "t3", "p3", True)
    assert attempts.close(decision_pb2.OUTCOME_CLASS_CLIENT_CANCELLED) == []


def test_closing_outcome_without_a_named_target_takes_the_next() -> None:
    attempts = Attempts(fakes.decision(plan=fakes.plan(1, 2)), "", lambda: 0.0)
    attempts.take(outcome(1, decision_pb2.OUTCOME_CLASS_TIMEOUT, final=False).outcome)
    [closing] = attempts.close(decision_pb2.OUTCOME_CLASS_CLIENT_CANCELLED)
    assert (closing.attempt, closing.target_id) == (2, "t2")


def test_closing_outcome_of_other_shapes() -> None:
    pipeline = decision_pb2.Plan(steps=[decision_pb2.PipelineStep(target=fakes.target(n)) for n in (1, 2)])
    nested = decision_pb2.Plan(targets=[decision_pb2.Target(nested=fakes.plan(4, 5))], judge=fakes.target(6))
    for plan, first in ((pipeline, "t1"), (nested, "t4"), (decision_pb2.Plan(), "")):
        attempts = Attempts(fakes.decision(plan=plan), "", lambda: 0.0)
        [closing] = attempts.close(decision_pb2.OUTCOME_CLASS_LOCAL_CANCELLED)
        assert closing.target_id == first


def test_summary_travels_on_an_outcome_whichever_comes_first() -> None:
    plan = fakes.plan(1)
    plan.hand_off.summarize = True
    early = Attempts(fakes.decision(plan=plan), "", lambda: 0.0)
    assert early.take_summary("s") == []
    assert early.take(outcome().outcome)[0].hand_off_summary == "s"
    late = Attempts(fakes.decision(plan=plan), "", lambda: 0.0)
    assert late.take(outcome().outcome) == []
    assert late.take_summary("s")[0].hand_off_summary == "s"
    never = Attempts(fakes.decision(plan=plan), "", lambda: 0.0)
    assert never.take(outcome().outcome) == []
    [released] = never.close(decision_pb2.OUTCOME_CLASS_LOCAL_CANCELLED)
    assert released.outcome_class == decision_pb2.OUTCOME_CLASS_SUCCESS


async def test_outcomes_carry_the_key(open_house: Open) -> None:
    decision = FakeDecision(keys={"sk": ApiKey(id="key-1")})
    house = await open_house(decision=decision)
    assert (await house.post(chat(), {"authorization": "Bearer sk"})).status_code == 200
    [reported] = await decision.wait_for_outcomes(1)
    assert reported.api_key_id == decision.asked[0].api_key_id == "key-1"
