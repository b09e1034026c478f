"""Strategies that keep the declared order."""

from __future__ import annotations

from decision_service.kernel.draft import Ask, Draft
from decision_service.kernel.pool import Unit


def priority(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    draft.reason = "first available in declared order"
    return units


def fill_first(units: list[Unit], ask: Ask, draft: Draft) -> list[Unit]:
    draft.reason = "first in declared order with quota left"
    return units
