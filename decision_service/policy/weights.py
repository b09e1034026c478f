"""Weights as an operator writes them."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from types import MappingProxyType
from typing import Any

from decision_service.kernel.weights import FACTOR_NAMES
from decision_service.policy.fields import read_object, shape
from decision_service.policy.known import TRUSTED, Known
from service_kit.errors import invalid


def parse_weights(raw: Any, path: str = "weights", _known: Known = TRUSTED) -> Mapping[str, float]:
    """All sixteen factors, not normalised: numeric texts are numbers; absent, negative and not finite read 0.

    Raises INVALID_FIELD for an unknown factor and for a value that is no number.
    """
    given = read_object(raw, path, FACTOR_NAMES)
    return MappingProxyType({name: _weight(given.get(name), f"{path}.{name}") for name in FACTOR_NAMES})


def _weight(value: Any, path: str) -> float:
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise invalid(path, shape(value), "a number or a numeric text")
    try:
        weight = float(value)
    except (ValueError, OverflowError):
        raise invalid(path, shape(value), "a number or a numeric text") from None
    return weight if isfinite(weight) and weight > 0 else 0.0
