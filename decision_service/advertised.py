"""What clients may ask for: channels, combos and models, each with its pool and limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from decision_service.kernel.grammar import AUTO, auto_combo, glob_match
from decision_service.kernel.live import Member
from decision_service.kernel.model import Combo
from decision_service.kernel.state import RoutingState
from decision_service.names import channel_ids
from omniroute.registry.v1 import registry_pb2 as pb

OWNER = "omniroute"


def advertised(state: RoutingState, api_key_id: str) -> Iterator[pb.AdvertisedModel]:
    """Everything that GET /v1/models shows to a key: channels, then combos, then models."""
    roster = state.roster
    key = roster.keys.get(api_key_id)
    allowed = key.allowed_models if key else ()

    def permitted(*names: str) -> bool:
        return not allowed or any(glob_match(pattern, name) for pattern in allowed for name in names)

    for channel_id in channel_ids(state):
        if permitted(channel_id):
            yield _advertised(channel_id, "channel", OWNER, _members(state, auto_combo(channel_id), api_key_id))
    for combo in roster.combos.values():
        if permitted(combo.name):
            yield _advertised(combo.name, "combo", OWNER, _members(state, combo, api_key_id))
    by_model: dict[str, list[Member]] = {}
    for member in _members(state, auto_combo(AUTO), ""):
        by_model.setdefault(f"{member.candidate.provider}/{member.candidate.model}", []).append(member)
    for name, members in by_model.items():
        if permitted(name, members[0].candidate.model):
            yield _advertised(name, "model", members[0].candidate.provider, members)


def _members(state: RoutingState, combo: Combo, api_key_id: str) -> Iterable[Member]:
    return state.pool(combo, combo.name, api_key_id).members


def _advertised(name: str, kind: str, owner: str, members: Iterable[Member]) -> pb.AdvertisedModel:
    window, output = _limits(members)
    return pb.AdvertisedModel(id=name, kind=kind, owned_by=owner, context_length=window, max_output_tokens=output)


def _limits(members: Iterable[Member]) -> tuple[int | None, int | None]:
    """The largest window and output limit of a pool; None where none is known."""
    facts = [member.candidate.facts for member in members]
    window = max((f.context_window or 0 for f in facts), default=0)
    output = max((f.max_output or 0 for f in facts), default=0)
    return window or None, output or None


def channels(state: RoutingState, api_key_id: str) -> Iterator[pb.Channel]:
    """Every channel with its pool and limits."""
    for channel_id in channel_ids(state):
        combo = auto_combo(channel_id)
        members = list(_members(state, combo, api_key_id))
        window, output = _limits(members)
        channel = combo.channel
        yield pb.Channel(
            id=channel_id,
            weight_pack=channel.pack if channel else "",
            exploration_rate=combo.config.exploration_rate,
            candidates=[member.id for member in members],
            context_length=window,
            max_output_tokens=output,
        )
