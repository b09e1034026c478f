"""What a model string may be, and near matches for one that nothing is called by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from decision_service.kernel.grammar import AUTO, AUTO_PREFIX, CHANNELS, FLAT_IDS, VARIANT_IDS
from decision_service.kernel.state import RoutingState

MOST = 3
LEAST_LIKENESS = 0.3
LONGEST = 128


class NameIndex:
    """Names by their trigrams; looking up costs little even among thousands."""

    def __init__(self, names: Iterable[str]) -> None:
        self._trigrams = {name: _trigrams(name) for name in names}

    def near(self, name: str) -> list[str]:
        """Up to three names that share the most trigrams with this one, best first."""
        own = _trigrams(name[:LONGEST])
        likeness = {known: len(own & other) / len(own | other) for known, other in self._trigrams.items()}
        good = [known for known, value in likeness.items() if value >= LEAST_LIKENESS]
        return sorted(good, key=lambda known: (-likeness[known], known))[:MOST]


def _trigrams(name: str) -> frozenset[str]:
    padded = f"  {name.lower()} "
    return frozenset(padded[i : i + 3] for i in range(len(padded) - 2))


def channel_ids(state: RoutingState) -> Iterator[str]:
    """The advertised ids of channels; the `pro` ones go while paid models are hidden."""
    for channel_id in (*VARIANT_IDS, *FLAT_IDS):
        if not (state.roster.settings.hide_paid_models and _wants_paid(channel_id)):
            yield channel_id


def _wants_paid(channel_id: str) -> bool:
    return channel_id != AUTO and CHANNELS[channel_id.removeprefix(AUTO_PREFIX)].tier == "pro"


def name_index(state: RoutingState) -> NameIndex:
    """All names that a model string may be, for near matches."""
    roster = state.roster
    direct = (f"{c.provider}/{c.model}" for c in roster.pool)
    return NameIndex((*roster.combos, *channel_ids(state), *direct, *roster.serving))


def with_near(message: str, near: list[str]) -> str:
    """A refusal's text that names the near matches."""
    return f"{message}; near matches: {', '.join(near)}" if near else message
