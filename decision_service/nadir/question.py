"""What Nadir is asked and what it answers, without the asking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from decision_service.kernel.decide import Decision
from decision_service.kernel.model import Advice

STRATEGY = "nadir"
MOST_MODELS = 100
MOST_PROMPT_CHARS = 16_000
MOST_BUCKET_CHARS = 64


@dataclass(frozen=True, slots=True)
class Question:
    """What a decision asks. ``menu`` holds model ids; ``base_url`` is the combo's own, empty: the service's."""

    combo: str
    prompt: str = field(repr=False)
    menu: Sequence[str]
    base_url: str
    timeout_ms: int


def question_of(decision: Decision) -> Question | None:
    """What a decision that was made without advice should have asked; None: nothing.

    The menu is what its router strategy had to pick from: who is eligible, within the budget and not excluded; of more
    than a hundred models those with the best scores. It stands in pool order.
    """
    config = decision.combo.config
    if config.router_strategy != STRATEGY or decision.strategy != "auto" or not decision.draft.router_strategy:
        return None
    best = set(list(dict.fromkeys(member.candidate.model for member in decision.chain))[:MOST_MODELS])
    members = sorted(decision.chain, key=lambda member: member.place)
    menu = tuple(dict.fromkeys(m.candidate.model for m in members if m.candidate.model in best))
    prompt = decision.request.last_user_text[:MOST_PROMPT_CHARS]
    return Question(decision.combo.name, prompt, menu, config.nadir_base_url, config.nadir_timeout_ms)


def bucket_url(base_url: str) -> str:
    """Where to ask, whether or not the base ends in ``/v1``."""
    return f"{base_url.rstrip('/').removesuffix('/v1').rstrip('/')}/v1/bucket"


def body_of(question: Question) -> bytes:
    """The question as JSON."""
    return orjson.dumps({"prompt": question.prompt, "menu": question.menu, "source": "omniroute"})


def advice_of(body: bytes, menu: Sequence[str]) -> Advice:
    """The choice in an answer; what cannot be read of bucket and confidence is left out."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return Advice(failure="malformed")
    named = [answer.get("model"), answer.get("selected_model")] if isinstance(answer, dict) else []
    model = next((name for name in named if isinstance(name, str) and name), None)
    if model is None:
        return Advice(failure="malformed")
    if model not in menu:
        return Advice(failure="choice outside the pool")
    return Advice(model, bucket=_bucket(answer.get("bucket")), confidence=_confidence(answer.get("confidence")))


def _bucket(value: object) -> str:
    sound = isinstance(value, str) and len(value) <= MOST_BUCKET_CHARS and value.isprintable()
    return str(value) if sound else ""


def _confidence(value: object) -> float | None:
    sound = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
    return float(value) if sound else None  # type: ignore[arg-type]
