"""What a policy may name."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from decision_service.kernel.model import Combo


@dataclass(frozen=True, slots=True)
class Known:
    """What a combo may name. ``None``: not checked, as for what was checked when it was stored.

    ``connections`` holds (provider, connection id); ``routers`` the custom router strategies; ``combos`` the other
    combos by name; ``stored`` is the combo that is replaced: its steps keep their ids.
    """

    providers: Container[str] | None = None
    connections: Container[tuple[str, str]] | None = None
    routers: frozenset[str] | None = frozenset()
    combos: Mapping[str, Combo] | None = None
    combo_ref_max_depth: int = 3
    stored: Combo | None = None


TRUSTED = Known(routers=None)
