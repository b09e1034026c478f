"""All dialects through a running executor: upstreams of the test, requests and answers over real sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from executor.model import ClientDialect
from omniroute.decision.v1 import decision_pb2
from omniroute.executor.v1 import executor_pb2
from tests.executor.conftest import SECRET, Answer, House, key, target
from tests.executor.dialects.recorded import ANTHROPIC, ANTHROPIC_WHOLE, GEMINI, OPENAI, RECORDED, WHOLE
from tests.executor.dialects.streams import BODIES, heard, payloads
from tests.executor.upstream import Script, Upstream, answer, completion, stream

CHAT, RESPONSES, MESSAGES = ClientDialect
MODELS = {"openai": "gpt-4.1", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-flash"}


async def asked(
    house: House,
    client: ClientDialect,
    targets: list[decision_pb2.Target],
    body: dict[str, Any] | None = None,
    **fields: Any,
) -> Answer:
    dialect = executor_pb2.ClientDialect.Value(f"CLIENT_DIALECT_{client}")
    raw = orjson.dumps({**BODIES[client], **(body or {})})
    return await house.execute(targets, body=raw, client_dialect=dialect, **fields)


def speaking(upstream: Upstream, dialect: str, name: str = "t0", **fields: Any) -> decision_pb2.Target:
    return target(upstream, name, dialect=dialect, model=MODELS[dialect], **fields)


PATHS = {
    ("openai", True): "/v1/chat/completions",
    ("openai", False): "/v1/chat/completions",
    ("anthropic", True): "/v1/messages",
    ("anthropic", False): "/v1/messages",
    ("gemini", True): "/v1/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
    ("gemini", False): "/v1/models/gemini-2.5-flash:generateContent",
}


@pytest.mark.parametrize("client", ClientDialect)
@pytest.mark.parametrize("dialect", RECORDED)
async def test_streams(house: House, client: ClientDialect, dialect: str) -> None:
    upstream = await house.upstream(stream(RECORDED[dialect]["text"]))
    got = await asked(house, client, [speaking(upstream, dialect, input_price=1.0)], {"stream": True})
    assert heard(client, payloads(got.data)).text == "Hello, wörld 😀"
    assert upstream.requests[0].path == PATHS[dialect, True]
    assert (got.classes, got.outcomes[0].output_tokens, got.outcomes[0].finish_reason) == (["SUCCESS"], 15, "stop")
    assert got.outcomes[0].cached_tokens == (10 if dialect == "gemini" else 40)
    assert got.outcomes[0].cost_usd > 0
    assert (b"[DONE]" in got.data) == (client is CHAT)
    assert got.headers["content-type"].startswith("text/event-stream")
    assert got.kinds[-3:] == ["outcome", "chunk", "done"], "the stream's end follows its outcome"


@pytest.mark.parametrize("client", ClientDialect)
@pytest.mark.parametrize("dialect", WHOLE)
async def test_plain_answers(house: House, client: ClientDialect, dialect: str) -> None:
    upstream = await house.upstream(answer(200, WHOLE[dialect]))
    got = await asked(house, client, [speaking(upstream, dialect)])
    assert upstream.requests[0].path == PATHS[dialect, False]
    kinds = {CHAT: "chat.completion", RESPONSES: "response", MESSAGES: "message"}
    assert got.json["type" if client is MESSAGES else "object"] == kinds[client]
    assert (got.classes, got.outcomes[0].input_tokens, got.outcomes[0].output_tokens) == (["SUCCESS"], 55, 89)


@pytest.mark.parametrize("client", ClientDialect)
@pytest.mark.parametrize("dialect", WHOLE)
async def test_a_plain_answer_to_a_stream(house: House, client: ClientDialect, dialect: str) -> None:
    upstream = await house.upstream(answer(200, WHOLE[dialect]))
    got = await asked(house, client, [speaking(upstream, dialect)], {"stream": True})
    told = heard(client, payloads(got.data))
    assert (told.text, told.thinking) == ("I'll check.", "Let me see.")
    assert [orjson.loads(arguments) for _, _, arguments in told.tools] == [{"location": "Paris"}]
    assert told.usage == (55, 89, 40)


SENT: dict[tuple[str, str], dict[str, str | None]] = {
    ("openai", SECRET): {"authorization": f"Bearer {SECRET}", "x-api-key": None},
    ("anthropic", SECRET): {
        "x-api-key": SECRET,
        "authorization": None,
        "anthropic-version": "2023-06-01",
        "anthropic-beta": None,
    },
    ("anthropic", "sk-ant-oat01-abcdefgh"): {
        "authorization": "Bearer sk-ant-oat01-abcdefgh",
        "x-api-key": None,
        "anthropic-beta": "oauth-2025-04-20",
    },
    ("gemini", SECRET): {"x-goog-api-key": SECRET, "authorization": None},
    ("gemini", "ya29.abcdefgh"): {"authorization": "Bearer ya29.abcdefgh", "x-goog-api-key": None},
}


@pytest.mark.parametrize(("dialect", "secret"), SENT)
async def test_keys_go_out_as_each_vendor_wants_them(house: House, dialect: str, secret: str) -> None:
    house.credentials.answers["c-t0"] = key(secret)
    upstream = await house.upstream(answer(200, WHOLE[dialect]))
    await asked(house, CHAT, [speaking(upstream, dialect)])
    headers = upstream.requests[0].headers
    assert {name: headers.get(name) for name in SENT[dialect, secret]} == SENT[dialect, secret]
    assert secret.encode() not in upstream.requests[0].raw_body
    assert secret not in upstream.requests[0].path


BETA = [
    executor_pb2.Header(name="Anthropic-Beta", value="context-1m-2025-08-07"),
    executor_pb2.Header(name="anthropic-version", value="2026-10-21"),
    executor_pb2.Header(name="cookie", value="session=1"),
    executor_pb2.Header(name="anthropic-beta", value="a\r\nx-evil: 1"),
]


async def test_a_request_of_the_vendors_own_dialect_passes_with_its_headers(house: House) -> None:
    house.credentials.answers["c-t0"] = key("sk-ant-oat01-abcdefgh")
    upstream = await house.upstream(answer(200, ANTHROPIC_WHOLE))
    body = {"tools": [{"type": "bash_20250124", "name": "bash"}], "some_new_field": [1]}
    got = await asked(house, MESSAGES, [speaking(upstream, "anthropic")], body, client_headers=BETA)
    (received,) = upstream.requests
    assert received.body == {**BODIES[MESSAGES], **body, "model": "claude-sonnet-4-5"}
    assert received.headers["anthropic-beta"] == "oauth-2025-04-20,context-1m-2025-08-07"
    assert received.headers["anthropic-version"] == "2026-10-21"
    assert not {"cookie", "x-evil"} & set(received.headers)
    assert got.json == ANTHROPIC_WHOLE


async def test_the_clients_headers_stay_behind_where_the_body_does(house: House) -> None:
    first, second = await house.upstream(answer(500, {})), await house.upstream(answer(200, completion()))
    targets = [speaking(first, "gemini"), speaking(second, "openai", "t1")]
    await asked(house, MESSAGES, targets, client_headers=BETA)
    for upstream in (first, second):
        assert not [name for name in upstream.requests[0].headers if name.startswith("anthropic")]


async def test_a_target_that_cannot_be_asked_is_passed_over(house: House) -> None:
    first, second = await house.upstream(answer(200, ANTHROPIC_WHOLE)), await house.upstream(answer(200, completion()))
    targets = [speaking(first, "anthropic"), speaking(second, "openai", "t1")]
    got = await asked(house, CHAT, targets, {"logit_bias": {"50256": -100}})
    assert (got.classes, got.head.status, first.requests) == (["INVALID_REQUEST", "SUCCESS"], 200, [])
    assert second.requests[0].body["logit_bias"] == {"50256": -100}


async def test_where_nobody_can_be_asked_the_client_is_told_why(house: House) -> None:
    upstream = await house.upstream(answer(200, WHOLE["gemini"]))
    tools = [{"type": "bash_20250124", "name": "bash"}]
    got = await asked(house, MESSAGES, [speaking(upstream, "gemini")], {"tools": tools})
    assert (got.head.status, got.json["type"], got.json["error"]["type"]) == (400, "error", "invalid_request_error")
    assert "tools[0]" in got.json["error"]["message"]
    assert upstream.requests == []


def failure(kind: str, message: str = "no") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def google(code: int, status: str, message: str, *details: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": [*details]}}


def quota(limit: str) -> dict[str, Any]:
    text = (
        "You exceeded your current quota, please check your plan and billing details. For more information on "
        "this error, head over to: https://ai.google.dev/gemini-api/docs/rate-limits."
    )
    violation = {
        "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
        "quotaId": limit,
    }
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "32s"}
    failed = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}
    return google(429, "RESOURCE_EXHAUSTED", text, failed, retry)


ERRORS: dict[str, tuple[str, Script, str]] = {
    "overloaded": ("anthropic", answer(529, failure("overloaded_error", "Overloaded")), "OVERLOADED"),
    "rate limit": ("anthropic", answer(429, failure("rate_limit_error"), {"retry-after": "7"}), "RATE_LIMITED"),
    "no credit": (
        "anthropic",
        answer(400, failure("invalid_request_error", "Your credit balance is too low to access the Anthropic API.")),
        "QUOTA_EXHAUSTED",
    ),
    "billing": ("anthropic", answer(402, failure("billing_error")), "QUOTA_EXHAUSTED"),
    "too long": (
        "anthropic",
        answer(400, failure("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")),
        "CONTEXT_TOO_LONG",
    ),
    "too long with its answer": (
        "anthropic",
        answer(
            400,
            failure(
                "invalid_request_error", "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"
            ),
        ),
        "CONTEXT_TOO_LONG",
    ),
    "key": ("anthropic", answer(401, failure("authentication_error", "invalid x-api-key")), "AUTH_FAILED"),
    "model": ("anthropic", answer(404, failure("not_found_error", "model: claude-x")), "MODEL_NOT_FOUND"),
    "server": ("anthropic", answer(500, failure("api_error", "Internal server error")), "UPSTREAM_ERROR"),
    "inside a success": ("anthropic", answer(200, failure("overloaded_error", "Overloaded")), "OVERLOADED"),
    "inside a stream": ("anthropic", stream(ANTHROPIC["breaks before content"]), "OVERLOADED"),
    "google, minute": (
        "gemini",
        answer(429, quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier")),
        "RATE_LIMITED",
    ),
    "google, day": (
        "gemini",
        answer(429, quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier")),
        "QUOTA_EXHAUSTED",
    ),
    "google, key": (
        "gemini",
        answer(400, google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.")),
        "AUTH_FAILED",
    ),
    "google, overloaded": (
        "gemini",
        answer(503, google(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")),
        "OVERLOADED",
    ),
    "google, model": (
        "gemini",
        answer(404, google(404, "NOT_FOUND", "models/x is not found for API version v1beta")),
        "MODEL_NOT_FOUND",
    ),
    "google, country": (
        "gemini",
        answer(400, google(400, "FAILED_PRECONDITION", "User location is not supported for the API use.")),
        "INVALID_REQUEST",
    ),
    "google, too long": (
        "gemini",
        answer(
            400,
            google(
                400,
                "INVALID_ARGUMENT",
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            ),
        ),
        "CONTEXT_TOO_LONG",
    ),
    "google, inside a stream": ("gemini", stream(GEMINI["breaks before content"]), "OVERLOADED"),
    "google, in a list": (
        "gemini",
        answer(500, orjson.dumps([google(500, "INTERNAL", "An internal error has occurred.")])),
        "UPSTREAM_ERROR",
    ),
    "a translated shape that is refused": (
        "anthropic",
        answer(400, failure("invalid_request_error", "tools.0.custom.input_schema: JSON schema is invalid")),
        "INVALID_REQUEST",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
async def test_errors_are_read_and_the_next_target_is_asked(house: House, name: str) -> None:
    dialect, script, outcome_class = ERRORS[name]
    first, second = await house.upstream(script), await house.upstream(stream(OPENAI["text"]))
    targets = [speaking(first, dialect, context_window=1_000), speaking(second, "openai", "t1")]
    got = await asked(house, CHAT, targets, {"stream": True})
    assert got.classes == [outcome_class, "SUCCESS"]
    assert heard(CHAT, payloads(got.data)).text == "Hello, wörld 😀"
    hints = {"rate limit": 7_000, "google, minute": 32_000, "google, day": 32_000}
    assert got.outcomes[0].retry_after_ms == hints.get(name, 0)


async def test_a_refusal_of_the_clients_own_body_is_returned(house: House) -> None:
    text = "messages.0.content: Field required"
    first, second = (
        await house.upstream(answer(400, failure("invalid_request_error", text))),
        await house.upstream(answer(200, completion())),
    )
    got = await asked(house, MESSAGES, [speaking(first, "anthropic"), speaking(second, "openai", "t1")])
    assert (got.head.status, got.classes, second.requests) == (400, ["INVALID_REQUEST"], [])
    assert got.json["error"]["message"] == text


BREAKS = {"openai": OPENAI["breaks"], "anthropic": ANTHROPIC["breaks"], "gemini": GEMINI["breaks"]}
LAST_EVENTS: dict[ClientDialect, Callable[[dict[str, Any]], Any]] = {
    CHAT: lambda event: event["error"]["code"],
    RESPONSES: lambda event: (event["type"], event["response"]["status"], event["response"]["error"]["code"]),
    MESSAGES: lambda event: (event["type"], event["error"]["type"]),
}


@pytest.mark.parametrize("client", ClientDialect)
@pytest.mark.parametrize("dialect", BREAKS)
async def test_a_stream_that_breaks_ends_with_an_error_in_the_clients_dialect(
    house: House, client: ClientDialect, dialect: str
) -> None:
    upstream = await house.upstream(stream(BREAKS[dialect]))
    got = await asked(house, client, [speaking(upstream, dialect)], {"stream": True})
    assert got.classes == ["INTERRUPTED"]
    *before, last = payloads(got.data)
    assert heard(client, before).text == "Hel"
    expected = {
        RESPONSES: ("response.failed", "failed", "server_error"),
        MESSAGES: ("error", "overloaded_error" if dialect != "openai" else "api_error"),
    }
    assert LAST_EVENTS[client](last) == expected.get(client, LAST_EVENTS[client](last))
    assert not {b"[DONE]", b"message_stop", b"response.completed"} & set(got.data.split())
    assert b"overloaded" in got.data.lower() or dialect == "openai"


async def test_effort_goes_to_openai_models_that_may_know_it(house: House) -> None:
    upstream = await house.upstream(answer(200, completion()))
    asks = {"reasoning": {"effort": "high"}}
    cases: tuple[tuple[dict[str, Any], dict[str, Any], str | None], ...] = (
        ({}, asks, "high"),
        ({"reasons": True}, asks, "high"),
        ({"reasons": False}, asks, None),
        ({}, {}, "low"),
        ({"reasons": False}, {}, None),
    )
    for fields, body, sent in cases:
        await asked(house, RESPONSES, [speaking(upstream, "openai", **fields)], body, effort="low")
        assert upstream.requests[-1].body.get("reasoning_effort") == sent


async def test_openais_newer_models_are_told_the_limit_by_its_newer_name(house: House) -> None:
    upstream = await house.upstream(answer(200, completion()))
    for model, field in (
        ("gpt-5.1", "max_completion_tokens"),
        ("o4-mini", "max_completion_tokens"),
        ("llama-3", "max_tokens"),
    ):
        await asked(house, MESSAGES, [target(upstream, model=model)], {"top_k": 5})
        body = upstream.requests[-1].body
        assert body[field] == 4_096
        assert len({"max_tokens", "max_completion_tokens"} & set(body)) == 1
        assert "top_k" not in body


async def test_so_are_they_when_the_client_speaks_openai_itself(house: House) -> None:
    upstream = await house.upstream(answer(200, completion()))
    cases: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
        ("openai/gpt-5.1", {"max_tokens": 7}, {"max_completion_tokens": 7}),
        ("gpt-5.1", {"max_tokens": 7, "max_completion_tokens": 8}, {"max_completion_tokens": 8}),
        ("gpt-4.1", {"max_tokens": 7}, {"max_tokens": 7}),
        ("llama-3", {"max_completion_tokens": 8}, {"max_completion_tokens": 8}),
    )
    for model, asked_for, sent in cases:
        await asked(house, CHAT, [target(upstream, model=model)], asked_for)
        body = upstream.requests[-1].body
        assert {name: body[name] for name in ("max_tokens", "max_completion_tokens") if name in body} == sent


async def test_a_prompt_of_the_plan_is_an_instruction_in_every_dialect(house: House) -> None:
    told = {}
    for dialect in WHOLE:
        upstream = await house.upstream(answer(200, WHOLE[dialect]))
        await asked(house, RESPONSES, [speaking(upstream, dialect, prompt="be true")])
        told[dialect] = upstream.requests[0].body
    assert told["openai"]["messages"][0] == {"role": "system", "content": "be true"}
    assert told["anthropic"]["system"] == [{"type": "text", "text": "be true"}]
    assert told["gemini"]["systemInstruction"] == {"parts": [{"text": "be true"}]}


EMBEDDINGS = {"model": "auto", "input": ["a", "b"], "dimensions": 2, "encoding_format": "base64"}


async def test_embeddings_of_google(house: House) -> None:
    upstream = await house.upstream(answer(200, {"embeddings": [{"values": [0.5, 1]}, {"values": [0, 2]}]}))
    got = await house.execute(
        [speaking(upstream, "gemini")], body=orjson.dumps(EMBEDDINGS), operation=decision_pb2.OPERATION_EMBEDDINGS
    )
    assert upstream.requests[0].path == "/v1/models/gemini-2.5-flash:batchEmbedContents"
    assert upstream.requests[0].body["requests"][1] == {
        "model": "models/gemini-2.5-flash",
        "content": {"parts": [{"text": "b"}]},
        "outputDimensionality": 2,
    }
    assert got.json["data"][1] == {"object": "embedding", "index": 1, "embedding": [0, 2]}
    assert (got.classes, got.json["model"]) == (["SUCCESS"], "auto")


@pytest.mark.parametrize(("dialect", "given"), [("anthropic", "a"), ("gemini", [1, 2])])
async def test_embeddings_that_a_dialect_cannot_ask_for(house: House, dialect: str, given: Any) -> None:
    upstream = await house.upstream(answer(200, {}))
    body = orjson.dumps({**EMBEDDINGS, "input": given})
    got = await house.execute([speaking(upstream, dialect)], body=body, operation=decision_pb2.OPERATION_EMBEDDINGS)
    assert (got.classes, upstream.requests) == (["INVALID_REQUEST"], [])
