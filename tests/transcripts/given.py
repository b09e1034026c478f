"""What the commands of a transcript take: options by name, configs and steps, as a scenario has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.transcripts.words import Reader, duration, options, percent, windows

Options = Mapping[str, tuple[str, Reader | Any]]

CANDIDATE: Options = {
    "price": ("prices", lambda word: [float(price) for price in word.split("/")]),
    "window": ("context_window", int),
    "output": ("max_output", int),
    "tier": ("account_tier", str),
    "can": ("capabilities", lambda word: word.split(",")),
}
SIGNALS: Options = {
    "p95": ("p95_ms", duration),
    "std": ("latency_std_ms", duration),
    "samples": ("samples", int),
    "errors": ("error_rate", percent),
    "failures": ("failure_rate", percent),
    "quality": ("quality", float),
    "flight": ("in_flight", int),
    "recent": ("recent_requests", int),
    "sessions": ("sessions", int),
    "breaker": ("breaker", str),
    "fit": ("fitness", lambda word: {(pair := p.split("="))[0]: float(pair[1]) for p in word.split(",")}),
    "quota": ("quota", windows),
}
STEP: Options = {
    "weight": ("weight", float),
    "limit": ("maxConcurrent", int),
    "prompt": ("prompt", str),
    "id": ("id", str),
}
DECIDE: Options = {
    "key": ("api_key_id", str),
    "session": ("session_id", str),
    "named": ("session_explicit", True),
    "in": ("input_tokens", int),
    "out": ("max_output_tokens", int),
    "tools": ("has_tools", True),
    "schema": ("needs_structured_output", True),
    "vision": ("needs_vision", True),
    "task": ("task_type", str),
    "cache": ("prompt_cache_key", str),
    "specificity": ("specificity", float),
    "mode": ("mode", str),
    "budget": ("budget_usd", float),
    "strict": ("budget_fallback", "strict"),
    "min-context": ("min_context_tokens", int),
    "seed": ("seed", int),
}
REPORT: Options = {
    "status": ("http_status", int),
    "latency": ("latency_ms", duration),
    "retry": ("retry_after_ms", duration),
    "model-scoped": ("model_scoped", True),
    "attempt": ("attempt", int),
    "of": ("target", str),
    "next": ("next_target", str),
    "final": ("final", True),
    "tokens": ("input_tokens", int),
    "output": ("output_tokens", int),
    "cost": ("cost_usd", float),
    "quota": ("quota", windows),
    "summary": ("hand_off_summary", str),
}
KEY: Options = {
    "requests": ("requests_per_minute", int),
    "tokens": ("tokens_per_minute", int),
    "day": ("usd_per_day", float),
    "month": ("usd_per_month", float),
}


def setting(word: str) -> Any:
    """A value of a config: true, false, a number, a list in brackets, or a text."""
    if word.startswith("["):
        return [setting(item) for item in word[1:-1].split(",")]
    if word in ("true", "false"):
        return word == "true"
    try:
        return float(word)
    except ValueError:
        return word


def step(line: Sequence[str]) -> dict[str, Any]:
    """A step of a combo: a model, or ``combo NAME``."""
    given = options(line[2:] if line[0] == "combo" else line[1:], STEP)
    if line[0] == "combo":
        return {"kind": "combo-ref", "comboName": line[1], **given}
    model, _, connection = line[0].partition("@")
    return {"model": model, **({"connectionId": connection} if connection else {}), **given}
