"""What the client gets when no target answered: status, headers and what went wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from executor.failover import Why
from executor.model import Attempt, Failure, OutcomeClass, Target

C = OutcomeClass

UNKNOWN_LONG_MS = 8 * 86_400_000
UNKNOWN_LONG_READS_MS = 3_600_000

CODES: Mapping[OutcomeClass, str] = MappingProxyType(
    {
        C.RATE_LIMITED: "rate_limit_exceeded",
        C.QUOTA_EXHAUSTED: "insufficient_quota",
        C.AUTH_FAILED: "upstream_auth_failed",
        C.MODEL_NOT_FOUND: "model_not_found",
        C.INVALID_REQUEST: "invalid_request",
        C.CONTEXT_TOO_LONG: "context_length_exceeded",
        C.CONTENT_POLICY: "content_policy_violation",
        C.UPSTREAM_ERROR: "upstream_error",
        C.OVERLOADED: "upstream_overloaded",
        C.TIMEOUT: "upstream_timeout",
        C.NETWORK: "upstream_unreachable",
        C.MALFORMED: "upstream_malformed",
        C.EMPTY: "upstream_empty",
        C.INTERRUPTED: "upstream_interrupted",
        C.LOCAL_CANCELLED: "not_attempted",
    }
)
ALL_FAILED = "all_targets_failed"
DEADLINE_EXCEEDED = "deadline_exceeded"


@dataclass(frozen=True, slots=True)
class Problem:
    """A whole error answer. ``error`` is OpenAI's error object, with ``code`` in it.

    ``returned``: the request itself is at fault, by what an upstream says of it.
    """

    status: int
    code: str
    headers: tuple[tuple[str, str], ...]
    error: Mapping[str, Any]
    returned: bool = False

    @property
    def message(self) -> str:
        return str(self.error["message"])


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one member of a panel has no answer."""

    provider: str
    model: str
    text: str


def failed(attempts: Sequence[Attempt], why: Why, made: Sequence[Attempt], role: str = "") -> Problem:
    """The answer after the last of ``attempts`` failed, or after none could start.

    ``made`` are all of the request, ``role`` is what the failed call is in a plan of several.
    """
    failures = _failures(attempts)
    last = failures[-1] if failures else None
    if last is not None and why is Why.RETURNED:
        return _returned(last, made)
    status, code = _verdict(failures, why)
    message = _summary(attempts, why)
    return _problem(status, code, f"{role}: {message}" if role else message, made, failures)


def last_failed(attempts: Sequence[Attempt], why: Why, made: Sequence[Attempt], role: str) -> Problem:
    """The answer where the last failure speaks for all of them."""
    return failed(attempts, Why.RETURNED if why is Why.EXHAUSTED else why, made, role)


def without_text(target: Target, made: Sequence[Attempt], role: str) -> Problem:
    """The answer where a call of a plan came to nothing that the next one could go on with."""
    message = f"{role}: {target.provider}/{target.model} answered without a text"
    return _problem(502, CODES[C.EMPTY], message, made, [])


def none_answered(reasons: Sequence[Reason], made: Sequence[Attempt], status: int) -> Problem:
    """The answer where a panel has none."""
    told = "; ".join(f"{reason.provider}/{reason.model}: {reason.text}" for reason in reasons)
    problem = _problem(status, ALL_FAILED, f"No member of the panel answered: {told}", made, _failures(made))
    members = [{"provider": reason.provider, "model": reason.model, "message": reason.text} for reason in reasons]
    return replace(problem, error={**problem.error, "members": members})


def _returned(last: Failure, made: Sequence[Attempt]) -> Problem:
    code = last.code or CODES[last.outcome_class]
    problem = _problem(last.client_status, code, last.message, made, _failures(made))
    return replace(problem, error={**problem.error, "param": last.param or None}, returned=last.client_status < 500)


def _problem(status: int, code: str, message: str, made: Sequence[Attempt], hinting: Sequence[Failure]) -> Problem:
    error = {
        "message": message,
        "type": _type_of(status),
        "param": None,
        "code": code,
        "attempts": [_listed(attempt) for attempt in made],
    }
    headers = [("content-type", "application/json")]
    hint_ms = _earliest_hint_ms(hinting)
    if hint_ms is not None:
        headers.append(("retry-after", str(math.ceil(hint_ms / 1000))))
    return Problem(status, code, tuple(headers), error)


def _failures(attempts: Sequence[Attempt]) -> list[Failure]:
    return [attempt.failure for attempt in attempts if attempt.failure is not None]


def stream_problem(failure: Failure) -> dict[str, Any]:
    """OpenAI's error object for a stream that broke after its first content."""
    return {
        "message": failure.message,
        "type": _type_of(502),
        "param": None,
        "code": failure.code or CODES[failure.outcome_class],
    }


def _verdict(failures: Sequence[Failure], why: Why) -> tuple[int, str]:
    """The last status if all are of one class; else 504 if one timed out, else 502."""
    if why is Why.DEADLINE:
        return 504, DEADLINE_EXCEEDED
    if not failures:
        return 502, ALL_FAILED
    last = failures[-1]
    if len({failure.outcome_class for failure in failures}) == 1:
        return last.client_status, CODES[last.outcome_class]
    timed_out = any(failure.client_status == 504 for failure in failures)
    return (504 if timed_out else 502), ALL_FAILED


def _summary(attempts: Sequence[Attempt], why: Why) -> str:
    opening = {
        Why.DEADLINE: "The request's deadline passed",
        Why.ATTEMPTS: "The limit of attempts was reached",
    }.get(why, "No target could answer")
    if not attempts:
        return f"{opening} before a target could be tried."
    last = attempts[-1]
    text = last.failure.message if last.failure else ""
    count = f"{len(attempts)} attempt{'s' if len(attempts) > 1 else ''}"
    return f"{opening} after {count}; last: {last.target.provider}/{last.target.model}: {text}"


def _listed(attempt: Attempt) -> dict[str, Any]:
    failure = attempt.failure
    return {
        "provider": attempt.target.provider,
        "model": attempt.target.model,
        "class": attempt.outcome_class.value,
        "status": attempt.http_status or None,
        "message": failure.message if failure else "",
    }


def _earliest_hint_ms(failures: Sequence[Failure]) -> int | None:
    hints = [failure.retry_after_ms for failure in failures if failure.retry_after_ms is not None]
    return min((UNKNOWN_LONG_READS_MS if hint > UNKNOWN_LONG_MS else hint for hint in hints), default=None)


def _type_of(status: int) -> str:
    if status == 429:
        return "rate_limit_error"
    return "invalid_request_error" if status < 500 else "server_error"
