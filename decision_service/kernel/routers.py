"""Router strategies: how the `auto` strategy picks among the scored. A table of small functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from decision_service.kernel.draft import Advance, Ask, Draft
from decision_service.kernel.factors import HEALTH, Scene, p95_of, std_of
from decision_service.kernel.health import Phase
from decision_service.kernel.live import Member
from decision_service.kernel.model import SlaTargets
from decision_service.kernel.statistics import clamp01

EQUAL_WITHIN = 1e-4
UNKNOWN_ERROR_RATE = 0.05


@dataclass(frozen=True, slots=True)
class Scored:
    """A scored set that is not empty: members in pool order, their scores, and the scene they were scored in."""

    members: Sequence[Member]
    scores: Mapping[str, float]
    scene: Scene


def rules(scored: Scored, ask: Ask, draft: Draft) -> Member:
    best = max(scored.scores[m.id] for m in scored.members)
    group = [m for m in scored.members if scored.scores[m.id] >= best - EQUAL_WITHIN]
    draft.effects.append(Advance(ask.scope))
    draft.reason = "highest score" if len(group) == 1 else f"highest score, shared by {len(group)} in turn"
    return group[ask.state.counters.get(ask.scope, 0) % len(group)]


def by_score(scored: Scored, ask: Ask, draft: Draft) -> Member:
    draft.reason = "highest score"
    return max(scored.members, key=lambda m: scored.scores[m.id])


def cost(scored: Scored, ask: Ask, draft: Draft) -> Member:
    draft.reason = "lowest price"
    return min(scored.members, key=lambda m: m.cost)


def latency(scored: Scored, ask: Ask, draft: Draft) -> Member:
    draft.reason = "lowest latency"
    return min(scored.members, key=lambda m: p95_of(m, scored.scene) + 1000.0 * error_rate(m))


def error_rate(member: Member) -> float:
    rate = member.target.statistics.error_rate
    return UNKNOWN_ERROR_RATE if rate is None else rate


def sla_aware(scored: Scored, ask: Ask, draft: Draft) -> Member:
    targets = ask.combo.config.sla

    def rank(member: Member) -> tuple[float, float]:
        merit = -sla_score(member, targets, scored.scene)
        return (sla_violation(member, targets, scored.scene), merit) if targets.hard else (merit, 0.0)

    draft.reason = "best within the service targets" if targets.hard else "best by the service targets"
    return min(scored.members, key=rank)


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


RouterStrategy = Callable[[Scored, Ask, Draft], Member]
ROUTER_STRATEGIES: Mapping[str, RouterStrategy] = MappingProxyType(
    {"rules": rules, "score": by_score, "cost": cost, "latency": latency, "sla-aware": sla_aware}
)
ROUTER_ALIASES: Mapping[str, str] = MappingProxyType({"eco": "cost", "fast": "latency", "sla": "sla-aware"})
