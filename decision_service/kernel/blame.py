"""Who is to blame for an outcome and what it moves: the one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from decision_service.kernel.health import (
    AUTH_BACKOFF,
    MISSING_MODEL_BACKOFF,
    OVERLOAD_BACKOFF,
    QUOTA_BACKOFF,
    RATE_LIMIT_BACKOFF,
    Backoff,
    Verdict,
    Wait,
)
from decision_service.kernel.model import OutcomeClass, ProviderClass


class Blame(StrEnum):
    """Whose fault an outcome is."""

    NOBODY = "nobody"
    REQUEST = "request"
    CALLER = "caller"
    CONNECTION = "connection"
    MODEL = "model"
    PROVIDER = "provider"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What one kind of outcome does.

    ``breaker`` is what the provider's breaker hears; ``wait`` names the rest that follows, of the model on the
    connection where ``locks``, else of the connection. ``hinted`` says that an upstream's hint sets its length.
    """

    blame: Blame
    breaker: Verdict
    wait: Wait | None = None
    locks: bool = False
    hinted: bool = False

    @property
    def sampled(self) -> bool:
        """It gives a sample to error rate, failure rate and quality."""
        return self.breaker is Verdict.SUCCESS or self.blamed

    @property
    def blamed(self) -> bool:
        """It is the target's fault."""
        return self.blame in _TARGETS


_TARGETS = frozenset({Blame.CONNECTION, Blame.MODEL, Blame.PROVIDER})
_COUNTED = Ruling(Blame.PROVIDER, Verdict.FAILURE)
_REQUEST = Ruling(Blame.REQUEST, Verdict.NEUTRAL)

RULINGS: Mapping[OutcomeClass, Ruling] = MappingProxyType(
    {
        OutcomeClass.SUCCESS: Ruling(Blame.NOBODY, Verdict.SUCCESS),
        OutcomeClass.RATE_LIMITED: Ruling(Blame.CONNECTION, Verdict.NEUTRAL, Wait.RATE_LIMITED, hinted=True),
        OutcomeClass.QUOTA_EXHAUSTED: Ruling(Blame.CONNECTION, Verdict.NEUTRAL, Wait.QUOTA_EXHAUSTED, hinted=True),
        OutcomeClass.AUTH_FAILED: Ruling(Blame.CONNECTION, Verdict.NEUTRAL, Wait.AUTH_FAILED),
        OutcomeClass.MODEL_NOT_FOUND: Ruling(Blame.MODEL, Verdict.NEUTRAL, Wait.MODEL_NOT_FOUND, locks=True),
        OutcomeClass.INVALID_REQUEST: _REQUEST,
        OutcomeClass.CONTEXT_TOO_LONG: _REQUEST,
        OutcomeClass.CONTENT_POLICY: _REQUEST,
        OutcomeClass.UPSTREAM_ERROR: _COUNTED,
        OutcomeClass.OVERLOADED: Ruling(Blame.MODEL, Verdict.NEUTRAL, Wait.OVERLOADED, locks=True, hinted=True),
        OutcomeClass.TIMEOUT: _COUNTED,
        OutcomeClass.NETWORK: _COUNTED,
        OutcomeClass.MALFORMED: _COUNTED,
        OutcomeClass.EMPTY: _COUNTED,
        OutcomeClass.INTERRUPTED: _COUNTED,
        OutcomeClass.CLIENT_CANCELLED: Ruling(Blame.CALLER, Verdict.NEUTRAL),
        OutcomeClass.LOCAL_CANCELLED: Ruling(Blame.NOBODY, Verdict.NEUTRAL),
    }
)

NOT_IMPLEMENTED_STATUS = 501
OVERLOADED_STATUS = 529
_NOT_IMPLEMENTED = Ruling(Blame.REQUEST, Verdict.NEUTRAL)
_MODEL_SCOPED: Mapping[OutcomeClass, Ruling] = MappingProxyType(
    {
        OutcomeClass.RATE_LIMITED: Ruling(Blame.MODEL, Verdict.NEUTRAL, Wait.RATE_LIMITED, locks=True, hinted=True),
        OutcomeClass.QUOTA_EXHAUSTED: Ruling(
            Blame.MODEL, Verdict.NEUTRAL, Wait.QUOTA_EXHAUSTED, locks=True, hinted=True
        ),
    }
)


def rule(outcome_class: OutcomeClass, http_status: int, model_scoped: bool) -> Ruling:
    """The ruling on an outcome. Only class, scope and the statuses 501 and 529 decide."""
    if outcome_class is OutcomeClass.UPSTREAM_ERROR and http_status == NOT_IMPLEMENTED_STATUS:
        return _NOT_IMPLEMENTED
    if outcome_class is OutcomeClass.UPSTREAM_ERROR and http_status == OVERLOADED_STATUS:
        return RULINGS[OutcomeClass.OVERLOADED]
    if model_scoped and outcome_class in _MODEL_SCOPED:
        return _MODEL_SCOPED[outcome_class]
    return RULINGS[outcome_class]


def backoff_of(ruling: Ruling, provider_class: ProviderClass) -> Backoff:
    """How the rest that a ruling asks for grows without a hint."""
    if ruling.wait is Wait.AUTH_FAILED:
        return AUTH_BACKOFF
    if ruling.wait is Wait.MODEL_NOT_FOUND:
        return MISSING_MODEL_BACKOFF
    if ruling.locks:
        return OVERLOAD_BACKOFF
    if ruling.wait is Wait.QUOTA_EXHAUSTED:
        return QUOTA_BACKOFF
    return RATE_LIMIT_BACKOFF[provider_class]
