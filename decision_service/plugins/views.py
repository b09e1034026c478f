"""The scored set, the request and the policy as a plug-in sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from types import MappingProxyType

from decision_service.kernel.draft import Ask, Draft
from decision_service.kernel.factors import Scene
from decision_service.kernel.live import Member
from decision_service.kernel.pricing import estimate
from decision_service.kernel.recall import good_key
from decision_service.kernel.routers import Scored
from decision_service.kernel.scoring import breakdown, scene_of
from decision_service.kernel.shapes import wants_tools
from decision_service.plugins.surface import PoolMember, SelectContext


def pool_of(scored: Scored, ask: Ask, draft: Draft) -> tuple[PoolMember, ...]:
    """The scored set as a plug-in sees it."""
    scene = _Scene(ask, draft)
    return tuple(
        _shown_member(member, value, _Factors(member, scene), ask)
        for member, value in zip(scored.members, scored.values, strict=True)
    )


def _shown_member(member: Member, score: float, factors: Mapping[str, float], ask: Ask) -> PoolMember:
    candidate, now = member.candidate, ask.turn.now
    return PoolMember(
        candidate=candidate.id,
        provider=candidate.provider,
        model=candidate.model,
        connection=candidate.connection,
        score=score,
        factors=factors,
        input_price=candidate.facts.input_price,
        output_price=candidate.facts.output_price,
        cost=member.cost,
        estimated_cost_usd=estimate(candidate, ask.request),
        p95_ms=member.target.statistics.p95_ms,
        error_rate=member.target.statistics.error_rate,
        breaker=member.provider.breaker.phase(now),
        quota_remaining=member.account.remaining(now),
        in_flight=member.account.in_flight,
        context_window=member.window,
        economic_tier=candidate.economic_tier,
        account_tier=candidate.account_tier,
    )


def context_of(scored: Scored, ask: Ask, draft: Draft) -> SelectContext:
    """What a plug-in is told of the request and the policy."""
    request, config = ask.request, ask.combo.config
    good = ask.state.goods.get(good_key(request, ask.combo))
    fresh = good is not None and (good.until is None or ask.turn.now < good.until)
    return SelectContext(
        task_type=scored.task_type,
        has_tools=wants_tools(request),
        needs_vision=request.needs_vision,
        input_tokens=request.input_tokens,
        max_output_tokens=request.max_output_tokens,
        sla=config.sla,
        last_known_good=good.candidate if good is not None and fresh else "",
        lkgp_enabled=config.lkgp_enabled,
        weights=MappingProxyType(draft.weights),
        rng=ask.turn.rng,
    )


class _Scene:
    """The scene of the scored set, surveyed when a factor is first read."""

    def __init__(self, ask: Ask, draft: Draft) -> None:
        self._ask = ask
        self._draft = draft

    @cached_property
    def surveyed(self) -> Scene:
        return scene_of(self._ask, self._draft)


class _Factors(Mapping[str, float]):
    """A member's factors, computed when they are first read: most strategies never do."""

    __slots__ = ("_member", "_scene", "_values")

    def __init__(self, member: Member, scene: _Scene) -> None:
        self._member = member
        self._scene = scene
        self._values: Mapping[str, float] | None = None

    def _read(self) -> Mapping[str, float]:
        if self._values is None:
            self._values = breakdown(self._member, self._scene.surveyed)
        return self._values

    def __getitem__(self, name: str) -> float:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())
