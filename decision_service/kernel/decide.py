"""One decision: resolve -> screen -> order -> chain. Reads state, writes none."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from decision_service.kernel.controls import Wishes, adaptive_effort, read_controls
from decision_service.kernel.draft import Ask, Draft, Effect, Readmit
from decision_service.kernel.eligible import eligible, in_incident
from decision_service.kernel.handoff import HandOff, hand_off
from decision_service.kernel.health import Phase
from decision_service.kernel.keys import Demand, KeyUsage, limited, over_limit
from decision_service.kernel.knowledge.specificity import specificity_of
from decision_service.kernel.live import Member
from decision_service.kernel.model import SECOND, Advice, Combo, Rejection, Request, Shape, Turn
from decision_service.kernel.ordering import distinct, ordered, strategy_of
from decision_service.kernel.plan import Plan
from decision_service.kernel.pool import Pool
from decision_service.kernel.pricing import estimate, expected_tokens
from decision_service.kernel.recall import pin_key, sticky
from decision_service.kernel.scoring import factors_of
from decision_service.kernel.screening import needs_of
from decision_service.kernel.shapes import shaped
from decision_service.kernel.state import RoutingState

REQUEST_TIMEOUT_MS = 600 * SECOND
LEASE_GRACE_MS = 30 * SECOND
SHORTEST_PROBE_MS = 5 * SECOND


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided, with what is needed to explain it.

    ``chain`` holds the calls in order; ``timeouts`` their time-outs in milliseconds. ``plan`` says how they belong
    together; None: one after the other until one answers. ``probe``: the first call is a probe. ``rejected`` is what
    was stopped at this moment; ``pool.rejected`` what the policy stops always. ``demand`` is what it reserves
    of its key; None: the key has no limits.
    """

    ask: Ask
    draft: Draft
    plan: Plan | None
    chain: Sequence[Member]
    timeouts: Sequence[int]
    lease_ms: int
    probe: bool
    effort: str
    hand_off: HandOff | None
    demand: Demand | None
    opened: tuple[str, ...]

    @property
    def request(self) -> Request:
        return self.ask.request

    @property
    def combo(self) -> Combo:
        return self.ask.combo

    @property
    def pool(self) -> Pool:
        return self.ask.pool

    @property
    def turn(self) -> Turn:
        return self.ask.turn

    @property
    def scope(self) -> str:
        return self.ask.scope

    @property
    def strategy(self) -> str:
        """The strategy that ordered the chain: the combo's, `quota-share`, or the one that the key pins."""
        return strategy_of(self.ask)

    @property
    def shape(self) -> Shape:
        return Shape.SINGLE if self.plan is None else self.plan.shape

    @property
    def reusable(self) -> bool:
        """An edge that cannot reach this service may use the plan again for the like."""
        return self.hand_off is None and self.demand is None and not _strict_budget(self.ask.wishes, self.ask.combo)

    @property
    def router_timeout_ms(self) -> int:
        """How long this policy may wait for a remote router; 0: it asks none."""
        config = self.ask.combo.config
        return config.nadir_timeout_ms if config.router_strategy == "nadir" else 0

    @property
    def incident(self) -> bool:
        return self.ask.incident

    @property
    def ignored(self) -> tuple[str, ...]:
        return self.ask.wishes.ignored

    @property
    def rejected(self) -> Mapping[str, Rejection]:
        return self.draft.rejected

    @property
    def effects(self) -> Sequence[Effect]:
        return self.draft.effects

    def factors(self) -> dict[str, list[float]]:
        """Every factor of the scored members, in their order; only before the decision takes effect."""
        return factors_of(self.ask, self.draft)


def decide(request: Request, state: RoutingState, turn: Turn, advice: Advice | None = None) -> Decision:
    """The decision on a request; raises ``Refused``. The same state, request and turn give the same decision."""
    ask = _ask(request, state, turn, advice)
    draft = Draft()
    plan = shaped(ask, draft)
    chain = _chain(ask, draft) if plan is None else [call.member for call in plan.calls]
    timeout = ask.combo.config.target_timeout_ms if plan is None else plan.timeout_ms
    plan = None if plan is not None and plan.shape is Shape.SINGLE else plan
    due = _awaiting_probe(chain, ask, draft)
    timeouts = [_timeout(timeout, member, due) for member in chain] if due else [timeout] * len(chain)
    return Decision(
        ask=ask,
        draft=draft,
        plan=plan,
        chain=chain,
        timeouts=timeouts,
        lease_ms=min(REQUEST_TIMEOUT_MS, sum(timeouts)) + LEASE_GRACE_MS,
        probe=chain[0].id in due or _half_open(chain[0], turn.now),
        effort=adaptive_effort(ask.request, ask.wishes),
        hand_off=hand_off(chain, ask),
        demand=_demand(chain, plan, ask),
        opened=(*ask.pool.opened, *draft.opened),
    )


def scope_of(combo: Combo, pool: Pool, key_id: str) -> str:
    """What a policy's rotations, counters and exclusions belong to: itself, or itself and the key that changes it."""
    return f"{combo.name}@{key_id}" if pool.strategy else combo.name


def _ask(request: Request, state: RoutingState, turn: Turn, advice: Advice | None) -> Ask:
    combo = state.combo(request.model)
    if combo.config.complexity_aware_routing and request.specificity is None:
        request = replace(request, specificity=specificity_of(request))
    pool = state.pool(combo, request.model, request.api_key_id)
    key = pin_key(request)
    return Ask(
        state=state,
        request=request,
        combo=combo,
        pool=pool,
        turn=turn,
        wishes=read_controls(request),
        scope=scope_of(combo, pool, request.api_key_id),
        incident=in_incident(pool, state.log, turn.now),
        pin=state.pins.get(key) if key and sticky(request, combo, state.roster) else None,
        advice=advice,
    )


def _chain(ask: Ask, draft: Draft) -> list[Member]:
    units = ordered(eligible(needs_of(ask.request, ask.floor), ask, draft.rejected), ask, draft)
    return [unit.members[0] for unit in units] if ask.pool.flat else distinct(units)


def _demand(chain: Sequence[Member], plan: Plan | None, ask: Ask) -> Demand | None:
    """What the first calls would cost the key; None: it has no limits. Raises ``Refused`` when they do not allow it."""
    policy = ask.state.roster.keys.get(ask.request.api_key_id)
    if policy is None or not limited(policy):
        return None
    first = (0,) if plan is None else plan.first
    usd = sum(estimate(chain[place].candidate, ask.request) for place in first)
    demand = Demand(len(first) * expected_tokens(ask.request), usd)
    refused = over_limit(policy, ask.state.keys.get(policy.id) or KeyUsage(), demand, ask.turn.now)
    if refused is not None:
        raise refused
    return demand


def _awaiting_probe(chain: Sequence[Member], ask: Ask, draft: Draft) -> frozenset[str]:
    """Those whose next call is the probe of their exclusion: it has run out, and no good score ends it here."""
    if not ask.state.exclusions.of(ask.scope):
        return frozenset()
    readmitted = {effect.candidate for effect in draft.effects if isinstance(effect, Readmit)}
    due = {m.id for m in chain if ask.state.exclusion(ask.scope, m.id).due(ask.turn.now)}
    return frozenset(due - readmitted)


def _timeout(timeout: int, member: Member, due: Container[str]) -> int:
    """A target's time-out; a quarter of it, at least 5 s, while it would be an exclusion's probe."""
    return min(timeout, max(SHORTEST_PROBE_MS, timeout // 4)) if member.id in due else timeout


def _half_open(member: Member, now: int) -> bool:
    return member.provider.breaker.open and member.provider.breaker.phase(now) is Phase.HALF_OPEN


def _strict_budget(wishes: Wishes, combo: Combo) -> bool:
    capped = wishes.budget is not None or combo.config.budget_cap is not None
    return capped and (wishes.budget_fallback or combo.config.budget_fallback) == "strict"
