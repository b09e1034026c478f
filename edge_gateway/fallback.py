"""When the decision service is away or too slow: the last good plan for the like, for a while.

The edge stays stateless in what matters: it keeps copies of plans for minutes, and losing them loses nothing.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from edge_gateway import metrics
from edge_gateway.patience import Clock, Patience
from omniroute.decision.v1.decision_pb2 import DecideRequest, DecideResponse, Plan, Target
from service_kit.errors import Reason, ServiceError

PLANS_KEPT = 4_096
PLAN_TTL_S = 15 * 60.0
RETRY_AFTER_MS = 1_000
STRICT = frozenset({"strict", "block", "hard"})

Decide = Callable[[DecideRequest, float], Awaitable[DecideResponse]]
Key = tuple[str, str, int, tuple[bool, ...]]

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision, and whether it is an earlier plan used again."""

    response: DecideResponse
    degraded: bool = False


@dataclass(frozen=True, slots=True)
class _Kept:
    response: DecideResponse
    input_tokens: int
    until: float


class LastPlans:
    """Reusable plans by key, model, operation and needs; the newest of each, for 15 minutes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._plans: OrderedDict[Key, _Kept] = OrderedDict()

    def keep(self, request: DecideRequest, response: DecideResponse) -> None:
        if not response.reusable:
            return
        key = _key(request)
        self._plans.pop(key, None)
        self._plans[key] = _Kept(response, request.features.input_tokens, self._clock() + PLAN_TTL_S)
        if len(self._plans) > PLANS_KEPT:
            self._plans.popitem(last=False)

    def holds(self, request: DecideRequest) -> bool:
        """Whether an earlier plan serves this request."""
        return self._usable(request) is not None

    def find(self, request: DecideRequest) -> DecideResponse | None:
        """An earlier plan for the like, under a decision id of its own; None: there is none that may be used."""
        response = self._usable(request)
        if response is None:
            return None
        again = DecideResponse()
        again.CopyFrom(response)
        again.decision_id = f"edge_{secrets.token_hex(12)}"
        _without_probes(again.plan)
        return again

    def _usable(self, request: DecideRequest) -> DecideResponse | None:
        kept = self._plans.get(_key(request))
        if kept is None or self._clock() >= kept.until or request.features.input_tokens > kept.input_tokens:
            return None
        if request.controls.budget_usd > 0 and request.controls.budget_fallback.strip().lower() in STRICT:
            return None
        return kept.response


def _key(request: DecideRequest) -> Key:
    f = request.features
    tools = f.has_tools and not f.tool_choice_none
    needs = (tools, f.needs_vision, f.needs_audio, f.needs_structured_output, f.stream)
    return request.api_key_id, request.model, f.operation, needs


def _without_probes(plan: Plan) -> None:
    """A plan that is used again probes nothing: whether a permit is free only the decision service knows."""
    for target in (*plan.targets, *([plan.judge] if plan.HasField("judge") else ()), *(s.target for s in plan.steps)):
        _without_probe(target)


def _without_probe(target: Target) -> None:
    target.probe = False
    for fallback in target.fallbacks:
        fallback.probe = False
    if target.HasField("nested"):
        _without_probes(target.nested)


class Decider:
    """Decides by the decision service, or by an earlier plan while that is away. Raises ServiceError.

    ``decide`` takes the seconds until it gives up: the deadline, and what a policy's remote router may need beyond it.
    An answer tells of that, so that the first request of such a policy alone has none.
    """

    def __init__(self, decide: Decide, deadline_s: float, patience: Patience, clock: Clock) -> None:
        self._decide = decide
        self._deadline_s = deadline_s
        self._routers: OrderedDict[str, float] = OrderedDict()
        self._plans = LastPlans(clock)
        self._patience = patience

    async def decide(self, request: DecideRequest, waited_s: float = 0.0) -> Decided:
        """``waited_s``, for which the request has waited for the decision service already, is part of its deadline."""
        limit_s = self._limit_s(request, waited_s)
        if limit_s > 0 and self._patience.allows():
            try:
                response = await self._decide(request, limit_s)
            except ServiceError as error:
                if error.reason is not Reason.UNAVAILABLE:
                    self._patience.succeeded()
                    raise
                self._patience.failed()
                log.warning("decision service away", detail=error.message)
            else:
                self._patience.succeeded()
                self._plans.keep(request, response)
                self._learn(request.model, response.router_timeout_ms / 1000)
                return Decided(response)
        again = self._plans.find(request)
        metrics.DEGRADED.labels("no_plan" if again is None else "earlier_plan").inc()
        if again is None:
            raise ServiceError(
                Reason.UNAVAILABLE,
                "the decision service is away, and no earlier plan serves this request",
                retry_after_ms=RETRY_AFTER_MS,
            )
        return Decided(again, degraded=True)

    def _limit_s(self, request: DecideRequest, waited_s: float) -> float:
        """Without an earlier plan there is nothing to hurry to."""
        router_s = self._routers.get(request.model, 0.0)
        return self._deadline_s + router_s - (waited_s if self._plans.holds(request) else 0.0)

    def _learn(self, model: str, router_s: float) -> None:
        self._routers.pop(model, None)
        if router_s > 0:
            self._routers[model] = router_s
            if len(self._routers) > PLANS_KEPT:
                self._routers.popitem(last=False)
