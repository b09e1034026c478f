"""Weights and packs: the table of section 4, and normalisation."""

from __future__ import annotations

from math import inf, nan

import pytest

from decision_service.kernel.factors import FACTORS
from decision_service.kernel.weights import FACTOR_NAMES, PACK_NAMES, PACKS, normalised

BALANCED = (0.1429, 0.1605, 0.1429, 0.1143, 0.0762, *[0.0476] * 7, 0, 0, 0.03, 0)
PUBLISHED = {
    "balanced": BALANCED,
    "ship-fast": (0.1133, 0.2667, 0.0276, 0.3048, 0.0952, 0, 0.0376, 0, 0, 0.0095, 0.0476, 0.0476, 0, 0, 0.02, 0.03),
    "cost-saver": (0.1133, 0.181, 0.3324, 0.0476, 0.0952, 0.0476, 0.0376, 0, 0, 0, 0.0476, 0.0476, 0, 0, 0.02, 0.03),
    "quality-first": (
        *(0.0752, 0.1714, 0.0276, 0.0476, 0.3524, 0.1429, 0.0276, 0, 0, 0, 0.0476, 0.0476, 0, 0, 0.03, 0.03),
    ),
    "offline-friendly": (
        *(0.3324, 0.2667, 0.0752, 0.0476, 0, 0.0952, 0.0376, 0, 0, 0, 0.0476, 0.0476, 0, 0, 0.02, 0.03),
    ),
    "reliability-first": (
        *(0.1133, 0.3524, 0.0181, 0.0476, 0.0952, 0.1905, 0.0276, 0, 0, 0, 0.0476, 0.0476, 0, 0, 0.02, 0.04),
    ),
    "chaos-mode": (0.0376, 0.4, 0.014, 0.0186, 0.1905, 0.1714, 0.004, 0, 0, 0.0186, 0.0476, 0.0476, 0, 0, 0.02, 0.03),
}


def test_every_pack_and_the_table_of_factors_name_the_same_sixteen_in_one_order() -> None:
    assert len(FACTOR_NAMES) == 16
    assert tuple(FACTORS) == FACTOR_NAMES
    assert tuple(PACKS) == PACK_NAMES == tuple(PUBLISHED)
    assert all(tuple(pack) == FACTOR_NAMES for pack in PACKS.values())


@pytest.mark.parametrize("pack", PACK_NAMES)
def test_a_pack_is_the_published_column_divided_by_its_sum(pack: str) -> None:
    column = PUBLISHED[pack]
    total = sum(column)
    assert total == pytest.approx(1.0 if pack == "balanced" else 0.9999, abs=1e-12)
    assert list(PACKS[pack].values()) == pytest.approx([weight / total for weight in column], abs=1e-12)
    assert sum(PACKS[pack].values()) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("given", "effective"),
    [
        pytest.param({"quota": 1.0}, {"quota": 1.0}, id="a partial map zeroes the rest"),
        pytest.param({"quota": 3, "health": 1}, {"quota": 0.75, "health": 0.25}, id="divided by the total"),
        pytest.param({"quota": 2, "health": -1}, {"quota": 1.0}, id="negative counts 0"),
        pytest.param({"quota": 2, "health": nan}, {"quota": 1.0}, id="NaN counts 0"),
        pytest.param({"quota": 2, "health": inf}, {"quota": 1.0}, id="infinite counts 0"),
        pytest.param({"quota": 1, "speed": 9}, {"quota": 1.0}, id="an unknown factor has no say"),
        pytest.param({"quota": 1e308, "health": 1e308}, {"quota": 0.5, "health": 0.5}, id="a total beyond every float"),
        pytest.param({"quota": 5e-324, "health": 5e-324}, {"quota": 0.5, "health": 0.5}, id="the smallest floats"),
    ],
)
def test_normalisation(given: dict[str, float], effective: dict[str, float]) -> None:
    assert dict(normalised(given)) == pytest.approx(dict.fromkeys(FACTOR_NAMES, 0.0) | effective, abs=1e-12)


@pytest.mark.parametrize("nothing", [{}, {"quota": 0.0}, {"quota": -3.0, "health": nan}, {"speed": 1.0}])
def test_a_map_without_a_positive_weight_reads_balanced(nothing: dict[str, float]) -> None:
    assert normalised(nothing) == PACKS["balanced"]
