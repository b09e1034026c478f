"""The one classifier, as a table of what upstreams really send."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.failures import CLIENT_STATUSES, WITHHELD, classify, from_fault, from_transport
from executor.faults import Fault, fault_in, fault_of_body
from executor.model import OutcomeClass
from executor.redaction import shown
from executor.transport.port import FaultKind, TransportFault

C = OutcomeClass


def openai(message: str, code: Any = None, kind: str | None = None, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


# status, body, class, model scoped, returned to the client at once
REAL: list[tuple[int, Any, OutcomeClass, bool, bool]] = [
    (429, openai("Rate limit reached for gpt-x in organization org-1 on tokens per min (TPM): Limit 3. You can raise "
                 "your limit at https://host/account/billing", "rate_limit_exceeded", "tokens"), C.RATE_LIMITED, True,
     False),
    (429, openai("Rate limit reached", "rate_limit_exceeded"), C.RATE_LIMITED, False, False),
    (429, openai("You exceeded your current quota, please check your plan and billing details.", "insufficient_quota",
                 "insufficient_quota"), C.QUOTA_EXHAUSTED, False, False),
    (429, b"Too Many Requests", C.RATE_LIMITED, False, False),
    (429, openai("Engine is overloaded", "engine_overloaded"), C.OVERLOADED, True, False),
    (429, {"error": {"code": 429, "message": "You exceeded your current quota. Please retry in 34s.",
                     "status": "RESOURCE_EXHAUSTED"}}, C.QUOTA_EXHAUSTED, False, False),
    (413, openai("Request too large for model `x` on tokens per minute (TPM)", "rate_limit_exceeded"), C.RATE_LIMITED,
     True, False),
    (413, b"Request Entity Too Large", C.INVALID_REQUEST, False, False),
    (401, openai("Incorrect API key", "invalid_api_key", "invalid_request_error"), C.AUTH_FAILED, False, False),
    (400, {"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.",
                     "status": "INVALID_ARGUMENT"}}, C.AUTH_FAILED, False, False),
    (402, {"error": {"message": "Insufficient Balance", "type": "unknown_error"}}, C.QUOTA_EXHAUSTED, False, False),
    (403, {"error": "Your team has run out of credits: insufficient credits"}, C.QUOTA_EXHAUSTED, False, False),
    (403, openai("Project does not have access to model `gpt-x`", "model_not_found"), C.MODEL_NOT_FOUND, True, False),
    (403, b"<html>Forbidden</html>", C.AUTH_FAILED, False, False),
    (404, openai("The model `gpt-x` does not exist", "model_not_found"), C.MODEL_NOT_FOUND, True, False),
    (404, b"<html>nginx</html>", C.MODEL_NOT_FOUND, True, False),
    (400, openai("Model gpt-x is not supported on this endpoint"), C.MODEL_NOT_FOUND, True, False),
    (400, openai("This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
                 "context_length_exceeded", "invalid_request_error", "messages"), C.CONTEXT_TOO_LONG, False, False),
    (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8 maximum"}},
     C.CONTEXT_TOO_LONG, False, False),
    (500, {"error": "the request exceeds the available context size"}, C.CONTEXT_TOO_LONG, False, False),
    (400, openai("Invalid prompt: your prompt was flagged as potentially violating our usage policy", "invalid_prompt",
                 "invalid_request_error"), C.CONTENT_POLICY, False, True),
    (400, openai("The response was filtered", "content_filter"), C.CONTENT_POLICY, False, True),
    (400, openai("Invalid type for 'messages'", "invalid_type", "invalid_request_error", "messages"), C.INVALID_REQUEST,
     False, True),
    (400, openai("We could not parse the JSON body of your request.", None, "invalid_request_error"), C.INVALID_REQUEST,
     False, True),
    (400, openai("Unsupported parameter: 'max_tokens' is not supported with this model.", "unsupported_parameter",
                 "invalid_request_error", "max_tokens"), C.INVALID_REQUEST, False, False),
    (400, openai("This model does not support image input", None, "invalid_request_error"), C.INVALID_REQUEST, False,
     False),
    (400, b"Bad Request", C.INVALID_REQUEST, False, False),
    (422, {"detail": [{"msg": "Field required"}]}, C.INVALID_REQUEST, False, True),
    (415, b"", C.INVALID_REQUEST, False, True),
    (409, openai("conflict"), C.INVALID_REQUEST, False, False),
    (408, b"", C.UPSTREAM_ERROR, False, False),
    (500, b"", C.UPSTREAM_ERROR, False, False),
    (501, openai("overloaded"), C.UPSTREAM_ERROR, False, False),
    (503, {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}, C.OVERLOADED, True,
     False),
    (504, b"<html>gateway timeout</html>", C.UPSTREAM_ERROR, False, False),
    (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, C.OVERLOADED, True, False),
    (529, openai("rate", "rate_limit_exceeded"), C.OVERLOADED, True, False),
    (302, b"", C.UPSTREAM_ERROR, False, False),
    (200, openai("x", "1302"), C.RATE_LIMITED, False, False),
    (200, openai("x", 1113), C.QUOTA_EXHAUSTED, False, False),
    (200, openai("x", None), C.UPSTREAM_ERROR, False, False),
    (200, openai("bad shape", None, "invalid_request_error"), C.INVALID_REQUEST, False, True),
    (200, openai("x", 400, "BadRequestError"), C.INVALID_REQUEST, False, False),
    (200, openai("x", 500), C.UPSTREAM_ERROR, False, False),
]  # fmt: skip


@pytest.mark.parametrize("row", REAL, ids=lambda row: f"{row[0]}-{str(row[1])[:40]}")
def test_real_errors(row: tuple[int, Any, OutcomeClass, bool, bool]) -> None:
    status, body, outcome_class, model_scoped, returned = row
    fault = fault_of_body(body if isinstance(body, bytes) else orjson.dumps(body))
    failure = from_fault(fault, status=status, model="gpt-x")
    assert (failure.outcome_class, failure.model_scoped, failure.returned) == (outcome_class, model_scoped, returned)
    assert failure.client_status not in WITHHELD
    assert failure.client_status >= 400
    assert failure.message


WAITS: list[tuple[dict[str, Any], int | None]] = [
    (openai("Please try again in 1.5s."), 1_500),
    (openai("Please try again in 20ms."), 20),
    (openai("Limit reached, retry after 6m2s"), 362_000),
    (openai("try again in 30 seconds"), 30_000),
    ({"error": {"message": "x", "details": [{"retryDelay": "34.5s"}]}}, 34_500),
    ({"error": {"message": "x", "retry_after": 7}}, 7_000),
    (openai("try again later"), None),
]


@pytest.mark.parametrize(("body", "wait_ms"), WAITS)
def test_waits_that_a_text_names(body: dict[str, Any], wait_ms: int | None) -> None:
    assert fault_of_body(orjson.dumps(body)).wait_ms == wait_ms


@pytest.mark.parametrize("kind", FaultKind)
def test_transport_faults(kind: FaultKind) -> None:
    failure = from_transport(TransportFault(kind, "text"))
    assert failure.outcome_class is C.NETWORK


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2000) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "message", "code", "type", "param", "detail", "choices", "details", "retry_after"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(st.integers(100, 999), json_values)
def test_no_error_object_makes_the_classifier_fall_over(status: int, payload: Any) -> None:
    fault = fault_of_body(orjson.dumps(payload))
    assert classify(status, fault) in CLIENT_STATUSES
    assert fault_in(payload) is None or isinstance(fault_in(payload), Fault)


SECRET_TEXTS = [
    "Incorrect API key provided: sk-proj-abcdefghijk. You can find",
    "Authorization: Bearer abcdefghijkl",
    "authorization=Basic dXNlcjpwYXNz",
    'headers {"x-api-key": "abcdefghijkl"}',
    "GET https://user:passw0rdpassw0rd@host/v1?key=AIzaSyA1234567890",
    "token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdef",
    "gsk_abcdefghijklmnop and xai-abcdefghijkl and hf_abcdefghijkl",
]


@pytest.mark.parametrize("text", SECRET_TEXTS)
def test_what_looks_like_a_credential_is_taken_out(text: str) -> None:
    cleaned = shown(text)
    assert "[redacted]" in cleaned
    for word in ("abcdefghij", "dXNlcjpwYXNz", "passw0rd", "AIzaSyA", "eyJhbGci"):
        assert word not in cleaned


def test_the_secret_in_use_is_taken_out_before_the_cut() -> None:
    cleaned = shown("x" * 495 + "plain-looking", "plain-looking")
    assert "plain" not in cleaned
    assert len(cleaned) <= 500


def test_ordinary_texts_stay_as_they_are() -> None:
    text = "This model's maximum context length is 8192 tokens. max_tokens: 12 is fine; key point: none"
    assert shown(text) == text
