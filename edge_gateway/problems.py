"""Refusals: reason -> HTTP status and error body, one table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import orjson

from service_kit.errors import Reason, ServiceError

INVALID_REQUEST = "invalid_request_error"
SERVER_ERROR = "server_error"
RATE_LIMIT = "rate_limit_error"

# Stands for the field that holds the conversation, which each dialect calls by its own name.
CONVERSATION = "messages"

# (type, code, param when the error names no field)
KINDS: Mapping[Reason, tuple[str, str, str | None]] = MappingProxyType(
    {
        Reason.INVALID_FIELD: (INVALID_REQUEST, "invalid_value", None),
        Reason.CAPABILITY_MISMATCH: (INVALID_REQUEST, "capability_mismatch", None),
        Reason.CONTEXT_LENGTH_EXCEEDED: (INVALID_REQUEST, "context_length_exceeded", CONVERSATION),
        Reason.BUDGET_EXCEEDED: ("insufficient_quota", "budget_exceeded", None),
        Reason.KEY_BUDGET_EXCEEDED: ("insufficient_quota", "insufficient_quota", None),
        Reason.MODEL_NOT_FOUND: (INVALID_REQUEST, "model_not_found", "model"),
        Reason.POLICY_EXCLUDES_ALL: ("permission_error", "policy_excludes_all", None),
        Reason.NO_AVAILABLE_TARGET: (SERVER_ERROR, "no_available_target", None),
        Reason.RATE_LIMIT_EXCEEDED: (RATE_LIMIT, "rate_limit_exceeded", None),
        Reason.UNAUTHENTICATED: (INVALID_REQUEST, "invalid_api_key", None),
        Reason.FORBIDDEN: ("permission_error", "forbidden", None),
        Reason.NOT_FOUND: (INVALID_REQUEST, "not_found", None),
        Reason.ALREADY_EXISTS: (INVALID_REQUEST, "already_exists", None),
        Reason.CONFLICT: (INVALID_REQUEST, "conflict", None),
        Reason.UNAVAILABLE: (SERVER_ERROR, "service_unavailable", None),
        Reason.INTERNAL: (SERVER_ERROR, "internal_error", None),
    }
)

# What these two carry comes from transports and bugs, and is for the log alone.
HIDDEN: Mapping[Reason, str] = MappingProxyType(
    {
        Reason.UNAVAILABLE: "The routing service cannot be reached or is overloaded. Try again.",
        Reason.INTERNAL: "Internal error.",
    }
)


ANTHROPIC_PATH, MODELS_PATH = "/v1/messages", "/v1/models"
INPUT_PATHS = frozenset({"/v1/responses", "/v1/embeddings"})
ANTHROPIC_TYPES: Mapping[int, str] = MappingProxyType(
    {
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        503: "overloaded_error",
        504: "timeout_error",
    }
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A refusal in HTTP terms. ``retry_after_s`` is in whole seconds, at least 1; ``closes`` ends the connection."""

    status: int
    type: str
    code: str
    message: str
    param: str | None = None
    retry_after_s: int | None = None
    allow: str = ""
    closes: bool = False


Render = Callable[[Problem], bytes]


class Refused(Exception):
    """Ends a request with a problem that only HTTP knows, such as 413."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def of_error(error: ServiceError) -> Problem:
    """The problem that a refusal of a service is to the client."""
    kind, code, param = KINDS[error.reason]
    retry_after_s = None if error.retry_after_ms is None else max(1, math.ceil(error.retry_after_ms / 1000))
    if error.reason is Reason.UNAVAILABLE:
        retry_after_s = retry_after_s or 1
    return Problem(
        status=error.http_status,
        type=RATE_LIMIT if error.rate_limited else kind,
        code=code,
        message=HIDDEN.get(error.reason, error.message),
        param=error.field or param,
        retry_after_s=retry_after_s,
    )


def openai_body(problem: Problem) -> bytes:
    """The problem as OpenAI's clients read it."""
    error = {"message": problem.message, "type": problem.type, "param": problem.param, "code": problem.code}
    return orjson.dumps({"error": error})


def with_input_body(problem: Problem) -> bytes:
    """The problem for OpenAI's clients where the conversation is the field `input`."""
    return openai_body(replace(problem, param="input") if problem.param == CONVERSATION else problem)


def anthropic_body(problem: Problem) -> bytes:
    """The problem as Anthropic's clients read it; the code and the field stand beside what these know."""
    beside = {"code": problem.code, **({"param": problem.param} if problem.param else {})}
    error = {"type": anthropic_type(problem.status), "message": problem.message, **beside}
    return orjson.dumps({"type": "error", "error": error})


def anthropic_type(status: int) -> str:
    """Anthropic's word for an error of this status."""
    return ANTHROPIC_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")


def render_for(path: str, incoming: Mapping[str, str]) -> Render:
    """How a request's problems are told, from the first look at it on. ``incoming`` has lower-case header names."""
    if path == ANTHROPIC_PATH or path.startswith(f"{ANTHROPIC_PATH}/") or speaks_anthropic(path, incoming):
        return anthropic_body
    return with_input_body if path in INPUT_PATHS else openai_body


def speaks_anthropic(path: str, incoming: Mapping[str, str]) -> bool:
    """Whether this asks for models in the way of Anthropic's clients, at a path that both dialects have."""
    return "anthropic-version" in incoming and (path == MODELS_PATH or path.startswith(f"{MODELS_PATH}/"))


def headers(problem: Problem) -> list[tuple[bytes, bytes]]:
    """Headers that go with the problem's body."""
    found = [(b"content-type", b"application/json")]
    if problem.retry_after_s is not None:
        found.append((b"retry-after", b"%d" % problem.retry_after_s))
    if problem.allow:
        found.append((b"allow", problem.allow.encode()))
    if problem.status == 401:
        found.append((b"www-authenticate", b"Bearer"))
    if problem.closes:
        found.append((b"connection", b"close"))
    return found


def no_route(path: str) -> Problem:
    return Problem(404, INVALID_REQUEST, "unknown_url", f"Unknown path: {path[:200]}")


def no_method(method: str, path: str, allow: str) -> Problem:
    message = f"{method} is not allowed on {path[:200]}; allowed: {allow}"
    return Problem(405, INVALID_REQUEST, "method_not_allowed", message, allow=allow)


def too_large(limit: int) -> Problem:
    return Problem(413, INVALID_REQUEST, "request_too_large", f"body: too large; allowed: at most {limit} bytes")


def too_slow() -> Problem:
    return Problem(408, INVALID_REQUEST, "request_timeout", "body: it took too long to arrive")


def too_busy() -> Problem:
    message = "Too many requests are in flight at this gateway. Try again."
    return Problem(503, SERVER_ERROR, "overloaded", message, retry_after_s=1)


def stopping() -> Problem:
    message = "This gateway is shutting down. Try again."
    return Problem(503, SERVER_ERROR, "shutting_down", message, retry_after_s=1, closes=True)


def timed_out(limit_ms: int) -> Problem:
    message = f"The request was not answered within {limit_ms} ms."
    return Problem(504, SERVER_ERROR, "timeout", message)


def broken_answer() -> Problem:
    message = "The answer broke off: the executor ended without completing it."
    return Problem(502, SERVER_ERROR, "answer_interrupted", message)


INTERNAL = of_error(ServiceError(Reason.INTERNAL, ""))
