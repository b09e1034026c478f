"""Economic tiers and what a specificity hint recommends."""

from __future__ import annotations

import pytest

from decision_service.kernel.knowledge.tiers import economic_tier, recommended_tier, specificity_match
from decision_service.kernel.model import Connection, EconomicTier, ModelFacts, Provider
from decision_service.kernel.roster import Roster

FREE, CHEAP, PREMIUM = EconomicTier.FREE, EconomicTier.CHEAP, EconomicTier.PREMIUM


@pytest.mark.parametrize(
    ("price", "model", "tier"),
    [
        (0.0, "m", FREE),
        (0.0000001, "m", CHEAP),
        (1.0, "m", CHEAP),
        (1.0000001, "m", PREMIUM),
        (30.0, "m", PREMIUM),
        (None, "m", PREMIUM),
        (None, "openrouter/auto", PREMIUM),
        (None, "qwen/qwen3-coder:free", FREE),
        (None, "Vendor/Model:FREE", FREE),
        (2.0, "glm-5-free", FREE),
        (None, "openrouter/free", FREE),
        (None, "freedom", PREMIUM),
        (None, "free", PREMIUM),
        (None, "model:free-trial", PREMIUM),
    ],
)
def test_economic_tier(price: float | None, model: str, tier: EconomicTier) -> None:
    assert economic_tier(ModelFacts(input_price=price), model) is tier


def test_a_candidate_has_the_tier_of_its_model() -> None:
    over = Roster(
        providers={"p": Provider("p")}, connections={("p", "c"): Connection("c", "p", models=("a:free", "b"))}
    )
    assert [candidate.economic_tier for candidate in over.pool] == [FREE, PREMIUM]


@pytest.mark.parametrize(
    ("hint", "tier"), [(0, FREE), (15, FREE), (15.01, CHEAP), (50, CHEAP), (50.01, PREMIUM), (100, PREMIUM)]
)
def test_recommended_tier(hint: float, tier: EconomicTier) -> None:
    assert recommended_tier(hint) is tier
    assert specificity_match(tier, hint) == 0.9


@pytest.mark.parametrize(
    ("tier", "hint", "expected"),
    [(FREE, 16, 0.2), (FREE, 90, 0.2), (CHEAP, 0, 0.4), (CHEAP, 51, 0.4), (PREMIUM, 0, 0.3), (PREMIUM, 50, 0.3)],
)
def test_another_tier_than_the_recommended_one(tier: EconomicTier, hint: float, expected: float) -> None:
    assert specificity_match(tier, hint) == expected
