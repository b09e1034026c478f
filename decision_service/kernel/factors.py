"""The sixteen factors: one small function and one row each.

A factor reads one member and the scene of its scored set and answers a value that is in [0,1] for sane telemetry;
``scoring`` clamps. Its docstring is its row in the documentation: the value, then what stands in for an unknown signal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from decision_service.kernel.health import Phase
from decision_service.kernel.knowledge.fitness import fitness
from decision_service.kernel.knowledge.tiers import TIER_RANK, recommended_tier, specificity_match
from decision_service.kernel.live import Member
from decision_service.kernel.model import DAY, HOUR, ProviderClass, Request

BOOTSTRAP_P95_MS = 1_500.0
LEAST_STD_MS = 10.0
HORIZONS: Mapping[str, tuple[int, float]] = MappingProxyType(
    {"session": (5 * HOUR, 0.35), "weekly": (7 * DAY, 0.65), "monthly": (30 * DAY, 0.65)}
)
HEALTH = {Phase.CLOSED: 1.0, Phase.HALF_OPEN: 0.5, Phase.OPEN: 0.0}
TIER_DISTANCE = (1.0, 0.7, 0.3)


@dataclass(slots=True)
class Scene:
    """What the members of one scored set share: the request, the instant, and the maxima.

    ``density`` maps a provider with more than one scored connection to its live leases. ``cache_winner`` is the member
    id that wins the request's cache key.
    """

    request: Request
    now: int
    task_type: str
    needed: int
    max_cost: float
    max_latency: float
    max_std: float
    bootstrap_p95: float
    density: Mapping[str, int]
    cache_winner: str = ""


def survey(members: Sequence[Member], request: Request, task_type: str, now: int, cache_winner: str = "") -> Scene:
    """The scene of a scored set."""
    known = [p for m in members if (p := m.target.statistics.p95_ms) is not None]
    bootstrap = median(known) if known else BOOTSTRAP_P95_MS
    scene = Scene(
        request=request,
        now=now,
        task_type=task_type,
        needed=request.input_tokens + (request.max_output_tokens or 0),
        max_cost=0.001,
        max_latency=1.0,
        max_std=0.001,
        bootstrap_p95=bootstrap,
        density=_density(members),
        cache_winner=cache_winner,
    )
    for member in members:
        scene.max_cost = max(scene.max_cost, member.cost)
        scene.max_latency = max(scene.max_latency, p95_of(member, scene))
        scene.max_std = max(scene.max_std, std_of(member, scene))
    return scene


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _density(members: Sequence[Member]) -> dict[str, int]:
    accounts: dict[str, dict[str, int]] = {}
    for member in members:
        accounts.setdefault(member.provider.id, {})[member.account.key] = member.account.in_flight
    return {provider: sum(group.values()) for provider, group in accounts.items() if len(group) > 1}


def p95_of(member: Member, scene: Scene) -> float:
    """p95 of latency in milliseconds; the scene's bootstrap value when unknown."""
    p95 = member.target.statistics.p95_ms
    return scene.bootstrap_p95 if p95 is None else p95


def std_of(member: Member, scene: Scene) -> float:
    """Standard deviation of latency in milliseconds; a tenth of p95, at least 10 ms, when unknown."""
    std = member.target.statistics.std_ms
    return max(LEAST_STD_MS, 0.1 * p95_of(member, scene)) if std is None else std


def quota(member: Member, scene: Scene) -> float:
    """What is left of the connection's tightest quota window; 0 at a reached limit. Unknown: 1."""
    remaining = member.account.remaining(scene.now)
    return 1.0 if remaining is None else remaining


def health(member: Member, scene: Scene) -> float:
    """The provider's breaker: CLOSED 1, HALF_OPEN 0.5, OPEN 0. Unknown: 1."""
    return HEALTH[member.provider.breaker.phase(scene.now)]


def cost_inv(member: Member, scene: Scene) -> float:
    """1 - cost / the set's dearest; cost is 0.6 x input + 0.4 x output price. Unknown: 1 USD per 1M tokens."""
    return 1.0 - member.cost / scene.max_cost


def latency_inv(member: Member, scene: Scene) -> float:
    """1 - p95 / the set's slowest. Unknown: the median of the set's known p95s, else 1500 ms."""
    return 1.0 - p95_of(member, scene) / scene.max_latency


def task_fit(member: Member, scene: Scene) -> float:
    """How good the model is at the task type. Unknown: 0.5."""
    return fitness(member.candidate, scene.task_type)


def stability(member: Member, scene: Scene) -> float:
    """1 - deviation of the latency / the set's largest. Unknown: a tenth of p95, at least 10 ms."""
    return 1.0 - std_of(member, scene) / scene.max_std


def tier_priority(member: Member, scene: Scene) -> float:
    """The account's tier: ultra 1, pro 0.67, standard 0.33, free 0. Unknown: 0.33."""
    return member.tier_priority


def tier_affinity(member: Member, scene: Scene) -> float:
    """The economic tier and the one that the hint recommends: same 1, one apart 0.7, two 0.3. Unknown: 0.5."""
    hint = scene.request.specificity
    if hint is None:
        return 0.5
    apart = abs(TIER_RANK[member.candidate.economic_tier] - TIER_RANK[recommended_tier(hint)])
    return TIER_DISTANCE[apart]


def specificity(member: Member, scene: Scene) -> float:
    """0.9 where the economic tier is the recommended one; else free 0.2, cheap 0.4, premium 0.3. Unknown: 0.5."""
    hint = scene.request.specificity
    return 0.5 if hint is None else specificity_match(member.candidate.economic_tier, hint)


def context_affinity(member: Member, scene: Scene) -> float:
    """1 - tokens needed / window; 0 where they do not fit. Unknown: 0.5."""
    window = member.window
    if not window:
        return 0.5
    return 0.0 if scene.needed > window else 1.0 - scene.needed / window


def session_availability(member: Member, scene: Scene) -> float:
    """Of an OAuth account 1 / (1 + other live sessions on it), of others 1. Unknown: 1."""
    if member.candidate.provider_class is not ProviderClass.OAUTH:
        return 1.0
    return 1.0 / (1 + member.account.live_sessions(scene.request.session_id, scene.now))


def connection_density(member: Member, scene: Scene) -> float:
    """1 - share of its provider's requests in flight; 1 if there are none. Only one there: 0.5. Unknown: 0.5."""
    in_flight = scene.density.get(member.provider.id)
    if in_flight is None:
        return 0.5
    return 1.0 - member.account.in_flight / in_flight if in_flight > 0 else 1.0


def cache_affinity(member: Member, scene: Scene) -> float:
    """1 for the connection that wins the request's cache key, else 0. Unknown: 0."""
    return 1.0 if scene.cache_winner and member.id == scene.cache_winner else 0.0


def reset_window_affinity(member: Member, scene: Scene) -> float:
    """Weighted mean over the windows of 1 - time to the reset / horizon; 0 at a reached limit. Unknown: 0.5."""
    total = weights = 0.0
    for window in member.account.windows(scene.now):
        if window.limit_reached:
            return 0.0
        if window.name in HORIZONS and window.reset_at is not None:
            horizon, weight = HORIZONS[window.name]
            total += weight * (1.0 - (window.reset_at - scene.now) / horizon)
            weights += weight
    return total / weights if weights else 0.5


def quality(member: Member, scene: Scene) -> float:
    """Recent success, less slowness and odd answers; believed in full from 50 samples. Unknown: 0.5."""
    return member.target.statistics.quality


def reliability(member: Member, scene: Scene) -> float:
    """1 - failure rate of 24 hours. Unknown: 1 - live error rate, else 1."""
    return member.target.statistics.reliability


Factor = Callable[[Member, Scene], float]
FACTORS: Mapping[str, Factor] = MappingProxyType(
    {
        "quota": quota,
        "health": health,
        "costInv": cost_inv,
        "latencyInv": latency_inv,
        "taskFit": task_fit,
        "stability": stability,
        "tierPriority": tier_priority,
        "tierAffinity": tier_affinity,
        "specificityMatch": specificity,
        "contextAffinity": context_affinity,
        "sessionAvailability": session_availability,
        "connectionDensity": connection_density,
        "cacheAffinity": cache_affinity,
        "resetWindowAffinity": reset_window_affinity,
        "quality": quality,
        "reliability": reliability,
    }
)
