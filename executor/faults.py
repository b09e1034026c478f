"""An upstream's error object, in whichever of its many forms, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from executor import hints
from executor.failure_texts import PER_MINUTE


@dataclass(frozen=True, slots=True)
class Fault:
    """What an upstream says went wrong. Texts are raw: they may hold secrets. ``wait_ms`` is a wait that it names."""

    message: str = ""
    code: str = ""
    type: str = ""
    param: str = ""
    wait_ms: int | None = None


def fault_of_body(body: bytes) -> Fault:
    """The fault that the body of an error status tells of; a body that is no JSON is its own message."""
    try:
        payload = orjson.loads(body)
    except orjson.JSONDecodeError:
        return Fault(message=" ".join(body.decode("utf-8", "replace").split()))
    return fault_in(payload) or _from_mapping(payload if isinstance(payload, dict) else {"message": str(payload)})


def fault_in(payload: Any) -> Fault | None:
    """The fault inside an answer that came as a success; None when there is none.

    A fault is a top-level ``error`` that is set, in an object or in the first item of a list, or an object with a code
    and a message where the choices should be.
    """
    if isinstance(payload, list):
        return fault_in(payload[0]) if payload else None
    if not isinstance(payload, dict):
        return None
    error = payload.get("error")
    if isinstance(error, dict) and error:
        return _from_mapping(error)
    if error:
        rest = {key: value for key, value in payload.items() if key != "error"}
        return _from_mapping({"message": error if isinstance(error, str) else "", **rest})
    inner = payload.get("base_resp")
    if isinstance(inner, dict) and inner.get("status_code"):
        return Fault(message=_word(inner.get("status_msg")))
    looks_like_one = "choices" not in payload and "data" not in payload and _text_of(payload) and payload.get("code")
    return _from_mapping(payload) if looks_like_one else None


def _from_mapping(error: Mapping[str, Any]) -> Fault:
    message = _text_of(error)
    wait_ms = _named_wait_ms(error)
    return Fault(
        message=message,
        code=_google_limit(error) or _word(error.get("code")),
        type=_word(error.get("type")) or _word(error.get("status")),
        param=_word(error.get("param")),
        wait_ms=hints.wait_in_text_ms(message) if wait_ms is None else wait_ms,
    )


def _text_of(error: Mapping[str, Any]) -> str:
    for key in ("message", "msg", "detail", "errors", "error_description", "error"):
        value = error.get(key)
        if value:
            return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    return ""


def _google_limit(error: Mapping[str, Any]) -> str:
    """Google's one wording for every limit, told apart by the limit's own name; empty where it gives none."""
    details = error.get("details")
    violations = [
        violation
        for detail in (details if isinstance(details, list) else [])
        if isinstance(detail, dict) and isinstance(detail.get("violations"), list)
        for violation in detail["violations"]
    ]
    names = " ".join(_word(violation.get("quotaId")) for violation in violations if isinstance(violation, dict))
    if "PerDay" in names:
        return "quota_exceeded"
    return PER_MINUTE if "PerMinute" in names else ""


def _named_wait_ms(error: Mapping[str, Any]) -> int | None:
    """``retry_after`` beside the message, or Google's RetryInfo among the details."""
    details = error.get("details")
    found = [error.get("retry_after"), error.get("retryDelay")]
    found += [item.get("retryDelay") for item in details if isinstance(item, dict)] if isinstance(details, list) else []
    for value in found:
        seconds = hints.wait_s(_word(value), 0.0)
        if seconds is not None:
            return min(hints.MAX_MS, round(seconds * 1000))
    return None


def _word(value: Any) -> str:
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
