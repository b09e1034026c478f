"""Policies from plain values: combos, their config and steps, weights, settings; refused by field when malformed.

Nothing here knows of a store or of protobuf, so that a policy can be checked and simulated offline.
"""

from decision_service.policy.combo import one_spelling, parse_combo, parse_combos, read_name
from decision_service.policy.known import TRUSTED, Known
from decision_service.policy.references import check_change, check_references
from decision_service.policy.settings import parse_settings
from decision_service.policy.weights import parse_weights

__all__ = [
    "TRUSTED",
    "Known",
    "check_change",
    "check_references",
    "one_spelling",
    "parse_combo",
    "parse_combos",
    "parse_settings",
    "parse_weights",
    "read_name",
]
