"""Combos whose names are real model ids: intended, and worth a warning."""

from __future__ import annotations

from dataclasses import dataclass

from decision_service.kernel.grammar import AUTO
from decision_service.roster_source.snapshot import Snapshot
from decision_service.roster_source.stored import Surroundings


@dataclass(frozen=True, slots=True)
class Shadow:
    """A combo's name, and the model that it hides."""

    combo: str
    model_id: str
    provider_id: str


def shadow_of(name: str, snapshot: Snapshot, around: Surroundings) -> Shadow | None:
    """The real model that a combo of this name hides: ``provider/model`` or a bare id, connected providers first.

    The name ``auto`` hides none: without the combo it would be the channel.
    """
    if name == AUTO:
        return None
    provider, slash, model = name.partition("/")
    if slash and provider in snapshot.provider_ids:
        known = snapshot.providers.get(provider) or around.catalog.provider(provider)
        if known is not None and model in known.facts:
            return Shadow(name, model, provider)
    serving = snapshot.roster.serving.get(name)
    owner = serving[0] if serving else around.catalog.owner_of(name)
    return Shadow(name, name, owner) if owner else None


def shadowing(snapshot: Snapshot, around: Surroundings) -> list[Shadow]:
    """Every stored combo that hides a model, for one line at start."""
    found = (shadow_of(name, snapshot, around) for name in sorted(snapshot.roster.combos))
    return [shadow for shadow in found if shadow is not None]
