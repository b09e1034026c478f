"""Router strategies: how the `auto` strategy picks among the scored. A table of small functions.

Each answers the place of its pick in the scored set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from decision_service.kernel.draft import Ask, Draft, shared
from decision_service.kernel.factors import HEALTH, Scene, p95_of, std_of, survey
from decision_service.kernel.health import Phase
from decision_service.kernel.live import Member
from decision_service.kernel.model import Advice, SlaTargets
from decision_service.kernel.recall import good_key, last_good
from decision_service.kernel.statistics import clamp01

EQUAL_WITHIN = 1e-4
UNKNOWN_ERROR_RATE = 0.05


@dataclass(frozen=True, slots=True)
class Scored:
    """A scored set that is not empty: members in pool order, and their scores place by place."""

    members: Sequence[Member]
    values: Sequence[float]
    task_type: str


def equals_in_turn(scored: Scored, ask: Ask) -> list[int]:
    """The places that share the highest score, turned left by the scope's counter."""
    bar = max(scored.values) - EQUAL_WITHIN
    group = [place for place, value in enumerate(scored.values) if value >= bar]
    turn = ask.state.counters.get(ask.scope, 0) % len(group)
    return group[turn:] + group[:turn]


def rules(scored: Scored, ask: Ask, draft: Draft) -> int:
    group = equals_in_turn(scored, ask)
    draft.router_strategy = "rules"
    draft.reason = shared("highest score", len(group))
    return group[0]


def by_score(scored: Scored, ask: Ask, draft: Draft) -> int:
    draft.reason = "highest score"
    return scored.values.index(max(scored.values))


def _least(scored: Scored, key: Callable[[Member], object]) -> int:
    keys = [key(member) for member in scored.members]
    return keys.index(min(keys))  # type: ignore[type-var]


def cost(scored: Scored, ask: Ask, draft: Draft) -> int:
    draft.reason = "lowest price"
    return _least(scored, lambda m: m.cost)


def latency(scored: Scored, ask: Ask, draft: Draft) -> int:
    draft.reason = "lowest latency, errors counted in"
    scene = _scene(scored, ask)
    return _least(scored, lambda m: p95_of(m, scene) + 1000.0 * error_rate(m))


def _scene(scored: Scored, ask: Ask) -> Scene:
    return survey(scored.members, ask.request, scored.task_type, ask.turn.now)


def error_rate(member: Member) -> float:
    rate = member.target.statistics.error_rate
    return UNKNOWN_ERROR_RATE if rate is None else rate


def sla_aware(scored: Scored, ask: Ask, draft: Draft) -> int:
    targets, scene = ask.combo.config.sla, _scene(scored, ask)

    def rank(member: Member) -> tuple[float, float]:
        merit = -sla_score(member, targets, scene)
        return (sla_violation(member, targets, scene), merit) if targets.hard else (merit, 0.0)

    draft.reason = "closest to the service targets" if targets.hard else "best by the service targets"
    return _least(scored, rank)


def below(value: float, target: float) -> float:
    """How well a value keeps under a target: 1 at or under it."""
    if target <= 0:
        return 1.0 if value == 0 else 0.0
    return clamp01(target / max(value, 1e-6))


def sla_score(member: Member, targets: SlaTargets, scene: Scene) -> float:
    """The weighted merit of a member under service targets, 0..1."""
    limit = targets.max_cost
    cheap = below(member.cost, limit) if limit is not None else 1.0 - member.cost / scene.max_cost
    return (
        0.35 * below(p95_of(member, scene), targets.p95_ms)
        + 0.35 * below(error_rate(member), targets.max_error_rate)
        + 0.15 * HEALTH[member.provider.breaker.phase(scene.now)]
        + 0.10 * cheap
        + 0.05 * (1.0 - std_of(member, scene) / scene.max_std)
    )


def sla_violation(member: Member, targets: SlaTargets, scene: Scene) -> float:
    """The sum of relative excesses over the targets; absolute for a target of 0."""
    pairs = [(p95_of(member, scene), targets.p95_ms), (error_rate(member), targets.max_error_rate)]
    if targets.max_cost is not None:
        pairs.append((member.cost, targets.max_cost))
    total = sum(max(0.0, value - target) / (target if target > 0 else 1.0) for value, target in pairs)
    return total + (1.0 if member.provider.breaker.phase(scene.now) is Phase.OPEN else 0.0)


def lkgp(scored: Scored, ask: Ask, draft: Draft) -> int:
    """The last known good of the scope, or another candidate of its provider; by rules where nothing is known."""
    place = known_good(scored, ask, draft) if ask.combo.config.lkgp_enabled else None
    return rules(scored, ask, draft) if place is None else place


def known_good(scored: Scored, ask: Ask, draft: Draft) -> int | None:
    """The place of the scope's last known good, or of another candidate of its provider; None: neither is there."""
    good = ask.state.goods.get(good_key(ask.request, ask.combo))
    member = last_good(scored.members, good, ask.turn.now)
    if good is None or member is None:
        return None
    draft.reason = "last known good" if member.id == good.candidate else "same provider as the last known good"
    return scored.members.index(member)


def nadir(scored: Scored, ask: Ask, draft: Draft) -> int:
    """The model that the remote router chose, on the connection that rules pick; else rules, saying why."""
    advice = ask.advice
    failure = "not asked" if advice is None else advice.failure
    if advice is not None and not failure:
        places = [i for i, m in enumerate(scored.members) if m.candidate.model == advice.model]
        if places:
            among = Scored([scored.members[i] for i in places], [scored.values[i] for i in places], scored.task_type)
            place = places[rules(among, ask, draft)]
            draft.router_strategy = "nadir"
            draft.reason = f"NadirStrategy: chose {_choice(advice)}"
            return place
        failure = "choice outside the pool"
    place = rules(scored, ask, draft)
    draft.reason = f"NadirStrategy: fallback ({failure}); {draft.reason}"
    return place


def _choice(advice: Advice) -> str:
    told = [advice.bucket] if advice.bucket else []
    if advice.confidence is not None:
        told.append(f"confidence {advice.confidence:.2f}")
    return f"{advice.model} ({', '.join(told)})" if told else advice.model


RouterStrategy = Callable[[Scored, Ask, Draft], int]
ROUTER_STRATEGIES: Mapping[str, RouterStrategy] = MappingProxyType(
    {
        "rules": rules,
        "score": by_score,
        "cost": cost,
        "latency": latency,
        "sla-aware": sla_aware,
        "lkgp": lkgp,
        "nadir": nadir,
    }
)
ROUTER_ALIASES: Mapping[str, str] = MappingProxyType({"eco": "cost", "fast": "latency", "sla": "sla-aware"})
PINNABLE = frozenset({"rules", "score", "lkgp"})
