"""From the client's model string to a policy: the `auto/` grammar and the order of resolution."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from decision_service.kernel.model import Channel, Combo, ComboConfig, Refused, Step
from decision_service.kernel.roster import Roster

AUTO = "auto"
AUTO_PREFIX = "auto/"
COMBO_PREFIX = "combo/"
CATEGORIES = ("coding", "reasoning", "vision", "chat", "multimodal")
TIERS = ("fast", "cheap", "floor", "reliable", "free", "pro")
TIER_PACKS = MappingProxyType({"fast": "ship-fast", "cheap": "cost-saver", "reliable": "reliability-first"})

_VARIANTS = (
    Channel("coding", "quality-first"),
    Channel("fast", "ship-fast"),
    Channel("cheap", "cost-saver"),
    Channel("offline", "offline-friendly"),
    Channel("smart", "quality-first", exploration_rate=0.10),
    Channel("lkgp"),
    Channel("chaos", "chaos-mode", exploration_rate=0.0, fanout=True),
)


def _categories() -> dict[str, Channel]:
    found = {}
    for category in CATEGORIES:
        own_pack = "quality-first" if category == "coding" else "balanced"
        found[category] = Channel(category, own_pack, category=category)
        for tier in TIERS:
            real = "cheap" if tier == "floor" else tier
            pack = TIER_PACKS.get(real, own_pack)
            filter_tier = real if real in ("free", "pro") else ""
            channel = Channel(f"{category}:{real}", pack, category=category, tier=filter_tier)
            found[f"{category}:{tier}"] = channel
    return found


def _channels() -> dict[str, Channel]:
    found = {AUTO: Channel(AUTO)} | _categories() | {c.name: c for c in _VARIANTS}
    flat = {f"best-{name}": found[name] for name in ("coding", "reasoning", "fast", "vision", "chat")}
    flat["best-free"] = Channel("chat:free", "cost-saver", category="chat", tier="free")
    flat |= {f"pro-{category}": found[f"{category}:pro"] for category in CATEGORIES}
    flat["pro-fast"] = Channel("pro-fast", "ship-fast", tier="pro")
    return found | flat


CHANNELS: Mapping[str, Channel] = MappingProxyType(_channels())

VARIANT_IDS = (AUTO, *(f"{AUTO_PREFIX}{channel.name}" for channel in _VARIANTS))
FLAT_IDS = tuple(
    f"{AUTO_PREFIX}{name}"
    for name in (
        *("best-coding", "best-reasoning", "best-fast", "best-vision", "best-chat", "best-free"),
        *(f"pro-{category}" for category in CATEGORIES),
        *("pro-fast", "coding:fast", "coding:cheap", "coding:free", "coding:pro", "coding:reliable"),
        *("reasoning", "reasoning:pro", "vision", "multimodal"),
    )
)

_VALID = (
    f"valid are auto, auto/<variant> ({', '.join(c.name for c in _VARIANTS)}), auto/<category>[:<tier>] "
    f"(categories {', '.join(CATEGORIES)}; tiers {', '.join(TIERS)}) and the ids of GET /v1/models"
)


def channel_combo(channel: Channel) -> Combo:
    """The virtual combo of a channel; never stored."""
    name = AUTO if channel.name == AUTO else AUTO_PREFIX + channel.name
    config = ComboConfig(router_strategy="lkgp", exploration_rate=channel.exploration_rate)
    return Combo(name=name, strategy="auto", config=config, channel=channel)


_CHANNEL_COMBOS: Mapping[str, Combo] = MappingProxyType({name: channel_combo(c) for name, c in CHANNELS.items()})


def auto_combo(model: str) -> Combo:
    """The virtual combo of `auto` or `auto/...` (`auto/` is `auto`); refuses what the grammar does not know."""
    combo = _CHANNEL_COMBOS.get(model.removeprefix(AUTO_PREFIX) or AUTO)
    if combo is None or model == f"{AUTO_PREFIX}{AUTO}":
        raise _unknown(model)
    return combo


def _unknown(model: str) -> Refused:
    if model.startswith(AUTO):
        return Refused("MODEL_NOT_FOUND", f"model: {model!r} is no auto channel; {_VALID}", field="model")
    return Refused("MODEL_NOT_FOUND", f"model: {model!r} is no combo, channel or known model", field="model")


def glob_match(pattern: str, text: str) -> bool:
    """Whole-string match with `*` and `?`."""
    p = t = 0
    star, mark = -1, 0
    while t < len(text):
        if p < len(pattern) and pattern[p] == "*":
            star, mark = p, t
            p += 1
        elif p < len(pattern) and pattern[p] in ("?", text[t]):
            p += 1
            t += 1
        elif star >= 0:
            mark += 1
            p, t = star + 1, mark
        else:
            return False
    return all(c == "*" for c in pattern[p:])


def resolve(model: str, roster: Roster) -> Combo:
    """The policy that a model string names; the first rule that matches wins."""
    if model in roster.combos:
        return roster.combos[model]
    if model.startswith(COMBO_PREFIX) and model[len(COMBO_PREFIX) :] in roster.combos:
        return roster.combos[model[len(COMBO_PREFIX) :]]
    for mapping in roster.mappings:
        if glob_match(mapping.pattern, model) and mapping.combo in roster.combos:
            return roster.combos[mapping.combo]
    if model == AUTO or model.startswith(AUTO_PREFIX):
        return auto_combo(model)
    direct = _provider_model(model, roster) or _bare_model(model, roster)
    if direct is None:
        raise _unknown(model)
    return direct


def _provider_model(model: str, roster: Roster) -> Combo | None:
    provider, slash, name = model.partition("/")
    if not slash or not name or not roster.accounts.get(provider):
        return None
    return Combo(name=model, strategy="priority", steps=(Step("", provider, name),))


def _bare_model(model: str, roster: Roster) -> Combo | None:
    serving = roster.serving.get(model, ())
    if not serving:
        return None
    steps = tuple(Step("", provider, model) for provider in serving)
    return Combo(name=model, strategy="auto", steps=steps, config=ComboConfig(exploration_rate=0.0))
