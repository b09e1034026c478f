"""Parts of the page on state machines: the numbers of self-healing, and what each outcome moves."""

from __future__ import annotations

from collections.abc import Iterator

from decision_service.kernel.blame import RULINGS, Ruling
from decision_service.kernel.health import (
    AUTH_BACKOFF,
    BREAKER_LIMITS,
    CHECK_SUSPENDED,
    DOUBLING_FORGOTTEN,
    EXCLUDE_BELOW,
    FIRST_EXCLUSION,
    LONGEST_EXCLUSION,
    MISSING_MODEL_BACKOFF,
    OVERLOAD_BACKOFF,
    QUOTA_BACKOFF,
    RATE_LIMIT_BACKOFF,
    READMIT_FROM,
    Backoff,
    Verdict,
    rest_multiplier,
)
from decision_service.kernel.model import OutcomeClass
from docs_build.durations import spoken
from docs_build.pages import code, table

OPENINGS = range(1, 8)


def breaker_numbers() -> str:
    return table(
        ("provider", "opens after", *(f"opening {n}" for n in OPENINGS)),
        (
            (
                code(kind),
                f"{limits.failures} failures",
                *(spoken(limits.reset_ms * rest_multiplier(n)) for n in OPENINGS),
            )
            for kind, limits in BREAKER_LIMITS.items()
        ),
    )


def rest_numbers() -> str:
    return table(("what", "rests", "first", "then", "at most"), _rests())


def _rests() -> Iterator[tuple[str, ...]]:
    for kind, backoff in RATE_LIMIT_BACKOFF.items():
        yield f"rate limit, provider of class {code(kind)}", "the connection", *_growth(backoff)
    yield "used-up quota, no reset known", "the connection", *_growth(QUOTA_BACKOFF)
    yield "refused credential", "the connection", *_growth(AUTH_BACKOFF)
    yield "model not found", "the model on the connection", *_growth(MISSING_MODEL_BACKOFF)
    yield "overload, or a limit of one model", "the model on the connection", *_growth(OVERLOAD_BACKOFF)


def _growth(backoff: Backoff) -> tuple[str, str, str]:
    grows = backoff.cap > backoff.base
    return spoken(backoff.base), "doubled each time" if grows else "the same", spoken(backoff.cap)


def exclusion_numbers() -> str:
    rows = (
        ("a score under", f"{EXCLUDE_BELOW:g}", "excludes"),
        ("a score from", f"{READMIT_FROM:g}", "re-admits when its time is over"),
        ("the first time", spoken(FIRST_EXCLUSION), "out"),
        ("again within", spoken(DOUBLING_FORGOTTEN), "out for twice as long as before"),
        ("at most", spoken(LONGEST_EXCLUSION), "out"),
        ("after a good probe", spoken(CHECK_SUSPENDED), "scores are not checked"),
    )
    return table(("", "", "what it does"), rows)


def outcomes() -> str:
    return table(
        ("outcome", "blamed on", "breaker", "rests", "a sample"),
        ((code(kind), *_ruling(kind, ruling)) for kind, ruling in RULINGS.items()),
    )


VERDICTS = {Verdict.SUCCESS: "success", Verdict.FAILURE: "counts", Verdict.NEUTRAL: ""}


def _ruling(kind: OutcomeClass, ruling: Ruling) -> tuple[str, str, str, str]:
    place = "the model on the connection" if ruling.locks else "the connection"
    hint = ", as long as a hint says" if ruling.hinted else ""
    rests = "" if ruling.wait is None else place + hint
    return ruling.blame.value, VERDICTS[ruling.breaker], rests, "yes" if ruling.sampled else ""
