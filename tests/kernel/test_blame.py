"""The one table of blame: every outcome class, and the statuses 501 and 529."""

from __future__ import annotations

import pytest

from decision_service.kernel.blame import RULINGS, Blame, rule
from decision_service.kernel.health import Verdict, Wait
from decision_service.kernel.model import OutcomeClass as Class

# class: blame, what the breaker hears, what rests, on the model alone, by the hint
TABLE = {
    Class.SUCCESS: (Blame.NOBODY, Verdict.SUCCESS, None, False, False),
    Class.RATE_LIMITED: (Blame.CONNECTION, Verdict.NEUTRAL, Wait.RATE_LIMITED, False, True),
    Class.QUOTA_EXHAUSTED: (Blame.CONNECTION, Verdict.NEUTRAL, Wait.QUOTA_EXHAUSTED, False, True),
    Class.AUTH_FAILED: (Blame.CONNECTION, Verdict.NEUTRAL, Wait.AUTH_FAILED, False, False),
    Class.MODEL_NOT_FOUND: (Blame.MODEL, Verdict.NEUTRAL, Wait.MODEL_NOT_FOUND, True, False),
    Class.INVALID_REQUEST: (Blame.REQUEST, Verdict.NEUTRAL, None, False, False),
    Class.CONTEXT_TOO_LONG: (Blame.REQUEST, Verdict.NEUTRAL, None, False, False),
    Class.CONTENT_POLICY: (Blame.REQUEST, Verdict.NEUTRAL, None, False, False),
    Class.UPSTREAM_ERROR: (Blame.PROVIDER, Verdict.FAILURE, None, False, False),
    Class.OVERLOADED: (Blame.MODEL, Verdict.NEUTRAL, Wait.OVERLOADED, True, True),
    Class.TIMEOUT: (Blame.PROVIDER, Verdict.FAILURE, None, False, False),
    Class.NETWORK: (Blame.PROVIDER, Verdict.FAILURE, None, False, False),
    Class.MALFORMED: (Blame.PROVIDER, Verdict.FAILURE, None, False, False),
    Class.EMPTY: (Blame.PROVIDER, Verdict.FAILURE, None, False, False),
    Class.INTERRUPTED: (Blame.PROVIDER, Verdict.FAILURE, None, False, False),
    Class.CLIENT_CANCELLED: (Blame.CALLER, Verdict.NEUTRAL, None, False, False),
    Class.LOCAL_CANCELLED: (Blame.NOBODY, Verdict.NEUTRAL, None, False, False),
}
SAMPLED = {c for c, row in TABLE.items() if row[0] in (Blame.CONNECTION, Blame.MODEL, Blame.PROVIDER)} | {Class.SUCCESS}


def test_the_table_names_every_class() -> None:
    assert set(TABLE) == set(Class) == set(RULINGS)


@pytest.mark.parametrize("outcome_class", Class)
def test_a_class_is_ruled(outcome_class: Class) -> None:
    ruling = rule(outcome_class, 0, model_scoped=False)
    assert (ruling.blame, ruling.breaker, ruling.wait, ruling.locks, ruling.hinted) == TABLE[outcome_class]
    assert ruling.sampled == (outcome_class in SAMPLED)
    assert ruling.blamed == (outcome_class in SAMPLED - {Class.SUCCESS})


@pytest.mark.parametrize("status", [0, 200, 400, 401, 404, 408, 429, 499, 500, 502, 503, 504])
def test_of_the_statuses_only_two_have_a_say(status: int) -> None:
    for outcome_class in Class:
        assert rule(outcome_class, status, model_scoped=False) == RULINGS[outcome_class]


def test_501_is_the_requests_fault_and_529_locks_the_model() -> None:
    not_implemented = rule(Class.UPSTREAM_ERROR, 501, model_scoped=False)
    assert (not_implemented.breaker, not_implemented.wait, not_implemented.sampled) == (Verdict.NEUTRAL, None, False)
    assert rule(Class.UPSTREAM_ERROR, 529, model_scoped=False) == RULINGS[Class.OVERLOADED]


@pytest.mark.parametrize("outcome_class", Class)
def test_a_model_scoped_limit_locks_the_model_instead_of_the_connection(outcome_class: Class) -> None:
    ruling = rule(outcome_class, 429, model_scoped=True)
    if outcome_class in (Class.RATE_LIMITED, Class.QUOTA_EXHAUSTED):
        assert (ruling.blame, ruling.locks, ruling.hinted) == (Blame.MODEL, True, True)
        assert (ruling.breaker, ruling.wait) == TABLE[outcome_class][1:3]
    else:
        assert ruling == RULINGS[outcome_class]
