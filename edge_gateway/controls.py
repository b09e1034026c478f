"""Request headers -> routing controls, session and task. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from omniroute.decision.v1 import decision_pb2
from service_kit.errors import invalid

MODE = "x-omniroute-mode"
BUDGET = "x-omniroute-budget"
BUDGET_FALLBACK = "x-omniroute-budget-fallback"
MIN_CONTEXT = "x-omniroute-min-context"
EFFORT = "x-omniroute-effort"
SESSION = "x-omniroute-session"
TASK = "x-omniroute-task"

# Fields of RequestControls, as Decide names the ones that it ignored, by the header that carries them.
HEADER_OF: Mapping[str, str] = MappingProxyType(
    {
        "mode": MODE,
        "budget_usd": BUDGET,
        "budget_fallback": BUDGET_FALLBACK,
        "min_context_tokens": MIN_CONTEXT,
        "effort": EFFORT,
    }
)
TASKS = ("coding", "review", "planning", "analysis", "debugging", "documentation", "default")
MAX_SESSION = 256
MAX_WORD = 64
MAX_TOKENS = 2**32 - 1

_DECIMAL = re.compile(r"\+?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"\+?[0-9]{1,20}")
_PRINTABLE = re.compile(r"[ -~\x80-\xff]+")


@dataclass(frozen=True, slots=True)
class Controls:
    """What the client's headers ask for. ``ignored`` are fields whose values cannot be sent on."""

    routing: decision_pb2.RequestControls
    ignored: tuple[str, ...] = ()
    session: str = ""
    task: str = ""


def read(headers: Mapping[str, str]) -> Controls:
    """Controls from lower-case header names. Raises ServiceError for a session or task that cannot be meant."""
    budget, bad_budget = _number(headers.get(BUDGET, ""), _DECIMAL, math.inf)
    window, bad_window = _number(headers.get(MIN_CONTEXT, ""), _WHOLE, math.inf)
    words = {field: headers.get(HEADER_OF[field], "").strip() for field in ("mode", "budget_fallback", "effort")}
    long = [field for field, word in words.items() if len(word) > MAX_WORD]
    bad = [field for field, wrong in (("budget_usd", bad_budget), ("min_context_tokens", bad_window)) if wrong]
    routing = decision_pb2.RequestControls(
        budget_usd=budget,
        min_context_tokens=min(int(window), MAX_TOKENS),
        **{field: word for field, word in words.items() if field not in long},
    )
    return Controls(routing, (*bad, *long), _session(headers), _task(headers))


def _number(text: str, form: re.Pattern[str], below: float) -> tuple[float, bool]:
    """The value and whether it must be ignored; no text is 0 and fine."""
    text = text.strip()
    if not text:
        return 0.0, False
    value = float(text) if form.fullmatch(text) else 0.0
    return (value, False) if 0 < value < below else (0.0, True)


def _session(headers: Mapping[str, str]) -> str:
    session = headers.get(SESSION, "").strip()
    if session and (len(session) > MAX_SESSION or not _PRINTABLE.fullmatch(session)):
        raise invalid(SESSION, f"{len(session)} characters", f"1 to {MAX_SESSION} printable characters")
    return session


def _task(headers: Mapping[str, str]) -> str:
    task = headers.get(TASK, "").strip().lower()
    if task and task not in TASKS:
        raise invalid(TASK, f"an unknown word of {len(task)} characters", " | ".join(TASKS))
    return task
