"""Parts of the page on scoring: factors, packs, channels, tiers."""

from __future__ import annotations

from collections.abc import Iterable

from decision_service.kernel.controls import MODE_ALIASES
from decision_service.kernel.factors import FACTORS, HORIZONS
from decision_service.kernel.grammar import AUTO_PREFIX, CATEGORIES, CHANNELS, FLAT_IDS, TIERS, VARIANT_IDS
from decision_service.kernel.knowledge.tasks import TASKS
from decision_service.kernel.live import TIER_PRIORITY
from decision_service.kernel.model import Channel
from decision_service.kernel.pool import CATEGORY_NEEDS, KEPT_TIERS
from decision_service.kernel.weights import PACK_NAMES, PACKS
from docs_build.durations import spoken
from docs_build.pages import code, table

UNKNOWN = " Unknown: "


def factors() -> str:
    return table(("factor", "value", "where unknown"), (_factor(name) for name in FACTORS))


def _factor(name: str) -> tuple[str, str, str]:
    value, mark, unknown = (FACTORS[name].__doc__ or "").partition(UNKNOWN)
    if not mark:
        raise ValueError(f"the docstring of the factor {name!r} does not say what stands in for an unknown signal")
    return code(name), value.rstrip("."), unknown.rstrip(".")


def packs() -> str:
    names = PACK_NAMES
    return table(
        ("factor", *names), ((code(factor), *(_weight(PACKS[pack][factor]) for pack in names)) for factor in FACTORS)
    )


def _weight(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".")


def horizons() -> str:
    return table(
        ("window", "horizon", "weight"),
        ((code(name), spoken(length), f"{weight:g}") for name, (length, weight) in HORIZONS.items()),
    )


def variants() -> str:
    return table(
        ("channel", "weights", "exploration", "picks"),
        (
            (code(name), *_weights(channel), "fan-out" if channel.fanout else "the last known good, else rules")
            for name in VARIANT_IDS
            for channel in [CHANNELS[name.removeprefix(AUTO_PREFIX)]]
        ),
    )


def _weights(channel: Channel) -> tuple[str, str]:
    return channel.pack, f"{channel.exploration_rate:.2f}"


def categories() -> str:
    """The pure categories; a category that is a variant too is the variant."""
    return table(("category", "weights without a tier", "keeps"), map(_category, CATEGORIES))


def _category(category: str) -> tuple[str, str, str]:
    need = CATEGORY_NEEDS.get(category)
    keeps = "all" if need is None else f"models that are known for {need}"
    return code(category), CHANNELS[f"{category}:free"].pack, keeps


def tiers() -> str:
    """What a tier makes of a category."""
    return table(("tier", "weights", "keeps"), map(_tier, TIERS))


def _tier(tier: str) -> tuple[str, str, str]:
    packs = {category: CHANNELS[f"{category}:{tier}"].pack for category in CATEGORIES}
    kept = KEPT_TIERS.get(CHANNELS[f"{CATEGORIES[0]}:{tier}"].tier)
    weights = next(iter(packs.values())) if len(set(packs.values())) == 1 else "the category's"
    return code(tier), weights, "all" if kept is None else f"models of the economic tier {kept.value}"


def advertised() -> str:
    return table(("advertised", "is", "weights", "keeps"), map(_advertised, FLAT_IDS))


def _advertised(name: str) -> tuple[str, ...]:
    channel = CHANNELS[name.removeprefix(AUTO_PREFIX)]
    return code(name), code(AUTO_PREFIX + channel.name), channel.pack, ", then ".join(_filters(channel)) or "all"


def _filters(channel: Channel) -> Iterable[str]:
    if channel.category in CATEGORY_NEEDS:
        yield CATEGORY_NEEDS[channel.category]
    if channel.tier in KEPT_TIERS:
        yield KEPT_TIERS[channel.tier].value


def modes() -> str:
    return table(
        ("mode", "weights"),
        ((code(*(mode for mode, real in MODE_ALIASES.items() if real == pack)), pack) for pack in PACK_NAMES),
    )


def account_tiers() -> str:
    return table(
        ("account tier", "tierPriority"), ((code(tier), f"{value:g}") for tier, value in TIER_PRIORITY.items())
    )


def tasks() -> str:
    return code(*TASKS) + "."
