"""The one classifier: transport faults, statuses and texts of upstreams into an outcome class."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from executor import failure_texts as texts
from executor.faults import Fault
from executor.model import Failure, OutcomeClass
from executor.redaction import shown
from executor.transport.port import FaultKind, TransportFault

C = OutcomeClass

TRANSPORT_CLASSES: Mapping[FaultKind, OutcomeClass] = MappingProxyType(
    {
        FaultKind.CONNECT: C.NETWORK,
        FaultKind.TLS: C.NETWORK,
        FaultKind.DISCONNECTED: C.NETWORK,
        FaultKind.PROTOCOL: C.NETWORK,
    }
)

CLIENT_STATUSES: Mapping[OutcomeClass, int] = MappingProxyType(
    {
        C.RATE_LIMITED: 429,
        C.QUOTA_EXHAUSTED: 429,
        C.AUTH_FAILED: 502,
        C.MODEL_NOT_FOUND: 404,
        C.INVALID_REQUEST: 400,
        C.CONTEXT_TOO_LONG: 400,
        C.CONTENT_POLICY: 400,
        C.UPSTREAM_ERROR: 502,
        C.OVERLOADED: 503,
        C.TIMEOUT: 504,
        C.NETWORK: 502,
        C.MALFORMED: 502,
        C.EMPTY: 502,
        C.INTERRUPTED: 502,
        C.LOCAL_CANCELLED: 503,
    }
)
# Of these classes the upstream's own status goes to the client, since it says more. 401, 402, 403 and 407 never do.
KEEPS_STATUS = frozenset({C.INVALID_REQUEST, C.CONTENT_POLICY, C.UPSTREAM_ERROR, C.OVERLOADED})
WITHHELD = frozenset({401, 402, 403, 407})

RETURNED_STATUSES = frozenset({415, 422})
RETRYABLE = frozenset({C.RATE_LIMITED, C.UPSTREAM_ERROR, C.OVERLOADED})


def failure(
    outcome_class: OutcomeClass, message: str, *, http_status: int = 0, client_status: int | None = None
) -> Failure:
    """A failure that we saw ourselves, not one that the upstream told of."""
    status = CLIENT_STATUSES[outcome_class] if client_status is None else client_status
    return Failure(outcome_class, message, status, http_status)


def from_transport(fault: TransportFault, http_status: int = 0) -> Failure:
    """A failure below HTTP, or of an answer that broke off."""
    return failure(TRANSPORT_CLASSES[fault.kind], str(fault), http_status=http_status)


def from_fault(
    fault: Fault,
    *,
    status: int,
    model: str,
    secret: str = "",
    wait_ms: int | None = None,
    added: frozenset[str] = frozenset(),
    translated: bool = False,
) -> Failure:
    """The failure behind an error status, or behind an error that came with a success status.

    ``wait_ms`` is the wait that the headers name; it goes before the one in the text. ``added`` are the body fields
    that we put in ourselves: a refusal of one of them is no fault of the request. Nor is a refusal of a ``translated``
    body: another target may take the request in another form.
    """
    fault = replace(fault, message=texts.ADDRESS.sub("", fault.message))
    outcome_class = classify(status, fault)
    keeps = outcome_class in KEEPS_STATUS and status >= 400 and status not in WITHHELD
    return Failure(
        outcome_class=outcome_class,
        message=shown(fault.message, secret).strip() or f"the upstream answered {status} without a text",
        client_status=status if keeps else CLIENT_STATUSES[outcome_class],
        http_status=status,
        code=shown(fault.code, secret),
        type=shown(fault.type, secret),
        param=shown(fault.param, secret),
        retry_after_ms=fault.wait_ms if wait_ms is None else wait_ms,
        model_scoped=_is_model_scoped(outcome_class, fault.message, model),
        returned=_is_returned(outcome_class, status, fault, added)
        and not (translated and outcome_class is C.INVALID_REQUEST),
        retryable=outcome_class in RETRYABLE and not 300 <= status < 400,
    )


def classify(status: int, fault: Fault) -> OutcomeClass:
    """The class of an error with ``status`` (2xx: it came inside a success) and ``fault``."""
    if fault.code == texts.PER_MINUTE:
        return C.RATE_LIMITED
    for word in (fault.code.lower(), fault.type.lower()):
        if word in texts.CODES:
            return _tempered(status, texts.CODES[word], fault.message)
    reading = STATUS_READINGS.get(status)
    if reading is not None:
        return reading(fault.message)
    return _inside_success(fault) if 200 <= status < 300 else _other_status(status, fault.message)


def _tempered(status: int, by_code: OutcomeClass, text: str) -> OutcomeClass:
    """A code decides, but 402 and 529 are plain enough, and some say `rate_limit` of a quota that is used up."""
    if status == 529:
        return C.OVERLOADED
    if status == 402 or (by_code is C.RATE_LIMITED and _by_text(text) is C.QUOTA_EXHAUSTED):
        return C.QUOTA_EXHAUSTED
    return by_code


def _inside_success(fault: Fault) -> OutcomeClass:
    if fault.code.isascii() and fault.code.isdigit() and 400 <= int(fault.code) < 600:
        return classify(int(fault.code), Fault(fault.message, type=fault.type))
    is_request = {fault.code.lower(), fault.type.lower()} & texts.REQUEST_CODES
    return _by_text(fault.message) or (C.INVALID_REQUEST if is_request else C.UPSTREAM_ERROR)


def _by_text(text: str) -> OutcomeClass | None:
    return next((outcome_class for outcome_class, pattern in texts.TEXTS if pattern.search(text)), None)


def _among(allowed: frozenset[OutcomeClass], otherwise: OutcomeClass) -> Callable[[str], OutcomeClass]:
    """A reading of a status: the text's class if it is one of ``allowed``."""

    def reading(text: str) -> OutcomeClass:
        outcome_class = _by_text(text)
        return outcome_class if outcome_class is not None and outcome_class in allowed else otherwise

    return reading


STATUS_READINGS: Mapping[int, Callable[[str], OutcomeClass]] = MappingProxyType(
    {
        400: _among(frozenset(C), C.INVALID_REQUEST),
        401: _among(frozenset(), C.AUTH_FAILED),
        402: _among(frozenset(), C.QUOTA_EXHAUSTED),
        403: _among(frozenset({C.QUOTA_EXHAUSTED, C.CONTENT_POLICY, C.MODEL_NOT_FOUND}), C.AUTH_FAILED),
        404: _among(frozenset(), C.MODEL_NOT_FOUND),
        408: _among(frozenset(), C.UPSTREAM_ERROR),
        413: _among(frozenset({C.RATE_LIMITED, C.CONTEXT_TOO_LONG}), C.INVALID_REQUEST),
        422: _among(frozenset({C.CONTEXT_TOO_LONG, C.CONTENT_POLICY, C.MODEL_NOT_FOUND}), C.INVALID_REQUEST),
        429: _among(frozenset({C.QUOTA_EXHAUSTED, C.OVERLOADED}), C.RATE_LIMITED),
        501: _among(frozenset(), C.UPSTREAM_ERROR),
        529: _among(frozenset(), C.OVERLOADED),
    }
)
SERVER_ERROR = _among(frozenset({C.OVERLOADED, C.CONTEXT_TOO_LONG}), C.UPSTREAM_ERROR)


def _other_status(status: int, text: str) -> OutcomeClass:
    """Redirects too: they are not followed, so an address that redirects is a provider that does not answer."""
    if status >= 500:
        return SERVER_ERROR(text)
    return C.INVALID_REQUEST if status >= 400 else C.UPSTREAM_ERROR


def _is_returned(outcome_class: OutcomeClass, status: int, fault: Fault, added: frozenset[str]) -> bool:
    """The request itself is wrong or refused, so that it would fail everywhere."""
    if outcome_class is not C.INVALID_REQUEST:
        return outcome_class is C.CONTENT_POLICY
    if any(name in fault.message or name in fault.param for name in added):
        return False
    if status in RETURNED_STATUSES:
        return True
    if not (status == 400 or 200 <= status < 300):
        return False
    if texts.FEATURE.search(fault.message) or "unsupported" in fault.code.lower():
        return False
    named = {fault.code.lower(), fault.type.lower()} & texts.REQUEST_CODES
    return bool(named or fault.param or texts.SHAPE.search(fault.message))


def _is_model_scoped(outcome_class: OutcomeClass, text: str, model: str) -> bool:
    if outcome_class in (C.OVERLOADED, C.MODEL_NOT_FOUND):
        return True
    if outcome_class not in (C.RATE_LIMITED, C.QUOTA_EXHAUSTED):
        return False
    names_it = model and re.search(rf"(?i)(?<![\w.-]){re.escape(model)}(?![\w-])", text)
    return bool(names_it or texts.NAMES_MODEL.search(text))
