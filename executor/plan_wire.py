"""A protobuf plan to the executor's values, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from functools import lru_cache
from types import MappingProxyType
from typing import overload
from urllib.parse import urlsplit

from executor.model import MAX_ATTEMPTS, Prices, RetryRules, Shape, Target
from executor.plan import TOOL_ROUNDS, Chain, FusionTuning, HandOff, Plan
from omniroute.decision.v1 import decision_pb2
from service_kit.errors import invalid

DEFAULT_TIMEOUT_MS = 120_000
MAX_TARGETS = 1_000
MAX_PANEL = 64
MAX_DEPTH = 10
MAX_TOOL_ROUNDS = 32

PANELS = frozenset({Shape.FUSION, Shape.FANOUT})


def plan_in(plan: decision_pb2.Plan) -> Plan:
    """Raises ServiceError INVALID_FIELD naming the field."""
    read = _plan_in(plan, "plan", _rules_in(plan, RetryRules()), depth=0)
    ids = _ids(plan)
    if len(ids) > MAX_TARGETS:
        raise invalid("plan.targets", f"{len(ids)} targets in all", f"1 to {MAX_TARGETS}")
    if len(set(ids)) < len(ids):
        raise invalid("plan.targets", "a target_id twice", "one target_id for each place")
    return read


def _plan_in(plan: decision_pb2.Plan, field: str, rules: RetryRules, *, depth: int) -> Plan:
    """``rules`` are those of the plan around it: they hold where it has none of its own, their cap does in any case."""
    if depth > MAX_DEPTH:
        raise invalid(field, f"a plan inside {depth} others", f"at most {MAX_DEPTH} deep")
    return READERS[_shape_in(plan, field)](plan, field, _rules_in(plan, rules), depth)


def _shape_in(plan: decision_pb2.Plan, field: str) -> Shape:
    known = plan.shape in decision_pb2.Plan.Shape.values()
    name = decision_pb2.Plan.Shape.Name(plan.shape).removeprefix("SHAPE_") if known else f"the number {plan.shape}"
    if name not in Shape.__members__:
        raise invalid(f"{field}.shape", name, " | ".join(Shape.__members__))
    return Shape[name]


def _single(plan: decision_pb2.Plan, field: str, rules: RetryRules, depth: int) -> Plan:
    _check_count(plan.targets, f"{field}.targets")
    for place, target in enumerate(plan.targets):
        at = f"{field}.targets[{place}]"
        _check_target(target, at)
        if target.fallbacks:
            raise invalid(f"{at}.fallbacks", f"{len(target.fallbacks)} targets", "none: the targets follow each other")
    return Plan(Shape.SINGLE, (Chain(_Targets(plan.targets)),), rules, hand_off=_hand_off_in(plan, field))


def _fusion(plan: decision_pb2.Plan, field: str, rules: RetryRules, depth: int) -> Plan:
    if not plan.HasField("judge"):
        raise invalid(f"{field}.judge", "nothing", "a target")
    judge = _chain_in(plan.judge, f"{field}.judge")
    tuning = _tuning_in(plan.fusion) if plan.HasField("fusion") else FusionTuning()
    return Plan(Shape.FUSION, _panel_in(plan, field, rules, depth), rules, judge, tuning)


def _fanout(plan: decision_pb2.Plan, field: str, rules: RetryRules, depth: int) -> Plan:
    return Plan(Shape.FANOUT, _panel_in(plan, field, rules, depth), rules)


def _pipeline(plan: decision_pb2.Plan, field: str, rules: RetryRules, depth: int) -> Plan:
    _check_count(plan.steps, f"{field}.steps")
    chains = [_chain_in(step.target, f"{field}.steps[{place}].target") for place, step in enumerate(plan.steps)]
    return Plan(Shape.PIPELINE, tuple(chains), rules)


def _agentic(plan: decision_pb2.Plan, field: str, rules: RetryRules, depth: int) -> Plan:
    _check_count(plan.targets, f"{field}.targets")
    chains = tuple(_chain_in(target, f"{field}.targets[{place}]") for place, target in enumerate(plan.targets))
    most = plan.agentic.max_tool_rounds or TOOL_ROUNDS
    if most > MAX_TOOL_ROUNDS:
        raise invalid(f"{field}.agentic.max_tool_rounds", str(most), f"1 to {MAX_TOOL_ROUNDS}")
    return Plan(Shape.AGENTIC, chains, rules, max_tool_rounds=most, hand_off=_hand_off_in(plan, field))


READERS: Mapping[Shape, Callable[[decision_pb2.Plan, str, RetryRules, int], Plan]] = MappingProxyType(
    {
        Shape.SINGLE: _single,
        Shape.FUSION: _fusion,
        Shape.PIPELINE: _pipeline,
        Shape.AGENTIC: _agentic,
        Shape.FANOUT: _fanout,
    }
)


def _panel_in(plan: decision_pb2.Plan, field: str, rules: RetryRules, depth: int) -> tuple[Chain, ...]:
    """Members may be plans of their own."""
    _check_count(plan.targets, f"{field}.targets", MAX_PANEL)
    chains = []
    for place, target in enumerate(plan.targets):
        at = f"{field}.targets[{place}]"
        if target.HasField("nested"):
            chains.append(Chain(nested=_plan_in(target.nested, f"{at}.nested", rules, depth=depth + 1)))
        else:
            chains.append(_chain_in(target, at))
    return tuple(chains)


def _check_count(items: Sized, field: str, most: int = MAX_TARGETS) -> None:
    if not 1 <= len(items) <= most:
        raise invalid(field, f"{len(items)} entries", f"1 to {most}")


def _chain_in(target: decision_pb2.Target, field: str) -> Chain:
    """A target with its fallbacks, which have none of their own."""
    _check_target(target, field)
    for place, fallback in enumerate(target.fallbacks):
        at = f"{field}.fallbacks[{place}]"
        _check_target(fallback, at)
        if fallback.fallbacks:
            raise invalid(f"{at}.fallbacks", f"{len(fallback.fallbacks)} targets", "none inside fallbacks")
    return Chain(_Targets((target, *target.fallbacks)))


class _Targets(Sequence[Target]):
    """Targets that were checked, each made when it is first asked for: of most plans that is one."""

    def __init__(self, given: Sequence[decision_pb2.Target]) -> None:
        self._given = given
        self._made: dict[int, Target] = {}

    def __len__(self) -> int:
        return len(self._given)

    @overload
    def __getitem__(self, place: int) -> Target: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Target, ...]: ...
    def __getitem__(self, place: int | slice) -> Target | tuple[Target, ...]:
        if isinstance(place, slice):
            return tuple(self[at] for at in range(*place.indices(len(self))))
        made = self._made.get(place)
        if made is None:
            made = self._made[place] = _target_in(self._given[place])
        return made


def _check_target(target: decision_pb2.Target, field: str) -> None:
    if not target.target_id:
        raise invalid(f"{field}.target_id", "nothing", "an id that is unique in the plan")
    if target.HasField("nested"):
        raise invalid(f"{field}.nested", "a plan", f"none but in a panel ({' | '.join(sorted(PANELS))})")
    if not target.connection_id:
        raise invalid(f"{field}.connection_id", "nothing", "the id of a connection")
    if not _is_address(target.base_url):
        told = f"{len(target.base_url)} characters that are no such address"
        raise invalid(f"{field}.base_url", told, "an http or https URL")


def _target_in(target: decision_pb2.Target) -> Target:
    return Target(
        target_id=target.target_id,
        provider=target.provider,
        model=target.model,
        connection_id=target.connection_id,
        base_url=target.base_url.rstrip("/"),
        dialect=target.dialect or "openai",
        timeout_s=(target.timeout_ms or DEFAULT_TIMEOUT_MS) / 1000,
        prompt=target.prompt,
        estimated_cost_usd=target.estimated_cost_usd,
        context_window=target.context_window,
        prices=_prices_in(target),
        max_output_tokens=target.max_output_tokens,
        reasons=target.reasons if target.HasField("reasons") else None,
    )


@lru_cache(maxsize=4096)
def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _prices_in(target: decision_pb2.Target) -> Prices:
    return Prices(
        target.input_price if target.HasField("input_price") else None,
        target.output_price if target.HasField("output_price") else None,
        target.cached_input_price if target.HasField("cached_input_price") else None,
    )


def _rules_in(plan: decision_pb2.Plan, around: RetryRules) -> RetryRules:
    if not plan.HasField("retry"):
        return around
    return RetryRules(min(plan.retry.max_attempts or MAX_ATTEMPTS, around.max_attempts), plan.retry.max_retries)


def _tuning_in(tuning: decision_pb2.FusionTuning) -> FusionTuning:
    usual = FusionTuning()
    limit_s = tuning.panel_hard_timeout_ms / 1000 or usual.limit_s
    return FusionTuning(tuning.min_panel or usual.min_panel, tuning.straggler_grace_ms / 1000, limit_s)


def _hand_off_in(plan: decision_pb2.Plan, field: str) -> HandOff | None:
    if not plan.HasField("hand_off"):
        return None
    given = plan.hand_off
    if not given.HasField("summarizer"):
        return HandOff(given.summary, given.summarize)
    _check_target(given.summarizer, f"{field}.hand_off.summarizer")
    return HandOff(given.summary, given.summarize, _target_in(given.summarizer))


def _ids(plan: decision_pb2.Plan) -> list[str]:
    ids: list[str] = []
    judge = [plan.judge] if plan.HasField("judge") else []
    for target in [*plan.targets, *judge, *[step.target for step in plan.steps]]:
        if target.HasField("nested"):
            ids += _ids(target.nested)
            continue
        ids.append(target.target_id)
        if target.fallbacks:
            ids += [fallback.target_id for fallback in target.fallbacks]
    return ids
