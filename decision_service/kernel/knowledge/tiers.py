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
