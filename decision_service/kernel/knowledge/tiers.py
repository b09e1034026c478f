"""Economic tiers: what a model costs, in three steps."""

from __future__ import annotations

from decision_service.kernel.model import EconomicTier, ModelFacts

CHEAP_UP_TO = 1.0
TIER_RANK = {EconomicTier.FREE: 0, EconomicTier.CHEAP: 1, EconomicTier.PREMIUM: 2}


def economic_tier(facts: ModelFacts) -> EconomicTier:
    """Free at an input price of 0, cheap up to 1 USD per 1M input tokens, else premium; unknown counts as premium."""
    price = facts.input_price
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
    """0.9 where the tier is the recommended one, else what the tier gives for a mismatch."""
    return 0.9 if tier is recommended_tier(specificity) else _MISMATCH[tier]
