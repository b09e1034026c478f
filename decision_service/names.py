"""Near matches for a model string that nothing is called by."""

from __future__ import annotations

from collections.abc import Iterable

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
