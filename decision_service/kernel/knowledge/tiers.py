"""Economic tiers: what a model costs, in three steps. Not the account's tier."""

from __future__ import annotations

from decision_service.kernel.model import EconomicTier, ModelFacts

CHEAP_UP_TO = 1.0
"""USD per 1M input tokens."""

FREE_LIST = (":free", "-free", "/free")
"""Ends of model ids, in lower case, that providers give to what costs nothing."""

TIER_RANK = {EconomicTier.FREE: 0, EconomicTier.CHEAP: 1, EconomicTier.PREMIUM: 2}


def economic_tier(facts: ModelFacts, model: str = "") -> EconomicTier:
    """Free when in the free list or at an input price of 0, cheap up to 1 USD per 1M input tokens, else premium.

    An unknown price counts as premium.
    """
    price = facts.input_price
    if model.lower().endswith(FREE_LIST):
        return EconomicTier.FREE
    if price is None:
        return EconomicTier.PREMIUM
    if price <= 0:
        return EconomicTier.FREE
    return EconomicTier.CHEAP if price <= CHEAP_UP_TO else EconomicTier.PREMIUM


FREE_HINT_UP_TO = 15
CHEAP_HINT_UP_TO = 50


def recommended_tier(specificity: float) -> EconomicTier:
    """The least tier that a specificity hint of 0..100 asks for."""
    if specificity <= FREE_HINT_UP_TO:
        return EconomicTier.FREE
    return EconomicTier.CHEAP if specificity <= CHEAP_HINT_UP_TO else EconomicTier.PREMIUM


_MISMATCH = {EconomicTier.FREE: 0.2, EconomicTier.CHEAP: 0.4, EconomicTier.PREMIUM: 0.3}


def specificity_match(tier: EconomicTier, specificity: float) -> float:
    """How well a tier fits a hint of 0..100."""
    return tier_match(tier, recommended_tier(specificity))


def tier_match(tier: EconomicTier, recommended: EconomicTier) -> float:
    """0.9 where the tier is the recommended one, else what the tier gives for a mismatch."""
    return 0.9 if tier is recommended else _MISMATCH[tier]
