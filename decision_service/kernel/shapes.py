"""Plan shapes: fusion, pipeline, agentic and fan-out. A table of small functions over the gate and the plan's calls.

Each call is screened for what it will itself be sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from decision_service.kernel.budget import by_estimate, within_budget
from decision_service.kernel.draft import Ask, Draft
from decision_service.kernel.eligible import eligible, open_unit, refusal
from decision_service.kernel.live import Member
from decision_service.kernel.model import SECOND, Refused, Request, Shape
from decision_service.kernel.ordering import distinct, ordered
from decision_service.kernel.plan import NESTED, Call, Plan, call_of
from decision_service.kernel.pool import Unit
from decision_service.kernel.screening import earliest_recovery, incapable, needs_of

FANOUT_TIMEOUT_MS = 120 * SECOND
ALONE = "a panel of one: it answers directly"
NO_JUDGE = "no model of the panel's combos can write the answer that the request asks for"


def shaped(ask: Ask, draft: Draft) -> Plan | None:
    """The plan of a policy that makes more than one chain; None: it makes one. Raises ``Refused``."""
    kind = _kind(ask)
    return _SHAPES[kind](ask, draft) if kind else None


def _kind(ask: Ask) -> str:
    combo = ask.combo
    if combo.strategy in ("fusion", "pipeline"):
        return combo.strategy
    if combo.channel is not None and combo.channel.fanout and not ask.pool.strategy:
        return "fanout"
    return "agentic" if combo.config.agentic_enabled else ""


def wants_tools(request: Request) -> bool:
    """Tools are there and may be called."""
    return request.has_tools and not request.tool_choice_none


def _plain(request: Request) -> Request:
    """What is left of a request for a call that loses its tools and its response format."""
    return replace(request, has_tools=False, needs_structured_output=False, stream=False)


def _without_tools(request: Request) -> Request:
    """What is left of a request for a planner: the answer that it writes in the end has the client's format."""
    return replace(request, has_tools=False)


def _text_only(request: Request) -> Request:
    """What is left for a call that does not get the original messages."""
    return replace(request, needs_vision=False, needs_audio=False)


def _open(units: Iterable[Unit], request: Request, ask: Ask, draft: Draft) -> list[Unit]:
    """The units that may serve such a request; who is stopped is noted."""
    needs = needs_of(request, ask.floor)
    stops = ask.pool.gate.stops(needs, ask.state.log, ask.turn.now)
    opened = []
    for unit in units:
        draft.rejected.update({m.id: stops[m.place] for m in unit.members if m.place in stops})
        left = open_unit(unit, stops, ask)
        if left is not None:
            opened.append(left)
    return opened


def _refuse(request: Request, ask: Ask, draft: Draft) -> Refused:
    return refusal(ask.pool, needs_of(request, ask.floor), draft.rejected, ask.turn.now)


def _plan(shape: Shape, panel: Iterable[Call], ask: Ask, judge: Call | None = None) -> Plan:
    return Plan(shape, tuple(panel), ask.combo.config.target_timeout_ms, judge)


def _single(units: Sequence[Unit], ask: Ask) -> Plan:
    scope = ask.scope if ask.trail else ""
    return _plan(Shape.SINGLE, (Call(str(n), member, scope=scope) for n, member in enumerate(distinct(units), 1)), ask)


# Fusion


def _fusion(ask: Ask, draft: Draft) -> Plan:
    judges = _open((*ask.pool.judges, *ask.pool.units), ask.request, ask, draft)
    if wants_tools(ask.request):
        draft.reason = "tools: the judge answers alone"
        return _single(judges, ask) if judges else _first_nested(ask.pool.panel, ask, draft)
    panel = _panel(ask, draft)
    if len(panel) == 1:
        draft.reason = ALONE
        return _lone(panel[0], judges, ask, draft)
    draft.reason = f"a panel of {len(panel)}, then a judge"
    return _plan(Shape.FUSION, panel, ask, call_of("judge", _judges(judges, panel, ask, draft)))


def _panel(ask: Ask, draft: Draft) -> list[Call]:
    """The members that can answer, in declared order; their ids are their numbers as declared. Raises ``Refused``."""
    request = _plain(ask.request)
    direct = {unit.key: unit for unit in _open(ask.pool.units, request, ask, draft)}
    panel, refusals = [], []
    for number, unit in enumerate(ask.pool.panel, 1):
        if unit.step.combo:
            nested = _nested(unit.step.combo, request, ask, draft)
            if isinstance(nested, Plan):
                panel.append(_nested_call(str(number), nested))
            else:
                refusals.append(nested)
        elif unit.key in direct:
            panel.append(call_of(str(number), direct[unit.key].members))
    if not panel:
        raise _together(refusals, request, ask, draft)
    return panel


def _lone(call: Call, judges: Sequence[Unit], ask: Ask, draft: Draft) -> Plan:
    """A panel of one answers the whole request itself; another one does where it cannot."""
    if call.nested is not None:
        draft.effects.clear()
        return _first_nested([ask.pool.panel[int(call.id) - 1]], ask, draft)
    if not judges:
        raise _refuse(ask.request, ask, draft)
    return _single([unit for unit in judges if unit.head.id == call.member.id] or judges, ask)


def _judges(judges: Sequence[Unit], panel: Iterable[Call], ask: Ask, draft: Draft) -> list[Member]:
    """Who may judge, in order: the judge and the models of the panel, then those of the combos in it."""
    needs = needs_of(ask.request, ask.floor)
    nested = [call.member for member in panel if member.nested is not None for call in member.nested.calls]
    able = [member for member in nested if incapable(member, needs) is None]
    chain = list({member.id: member for member in (*distinct(judges), *able)}.values())
    if not chain:
        raise _refuse(ask.request, ask, draft) if ask.pool.units else Refused("CAPABILITY_MISMATCH", NO_JUDGE)
    return chain


def _first_nested(units: Iterable[Unit], ask: Ask, draft: Draft) -> Plan:
    """The plan of the first referenced combo that can answer the whole request. Raises ``Refused``."""
    refusals = []
    for unit in units:
        nested = _nested(unit.step.combo, ask.request, ask, draft) if unit.step.combo else None
        if isinstance(nested, Plan):
            return nested
        refusals += [nested] if nested else []
    raise _together(refusals, ask.request, ask, draft)


def _together(refusals: Sequence[Refused], request: Request, ask: Ask, draft: Draft) -> Refused:
    """The refusal of a panel without members: what will pass goes before what will not."""
    if ask.pool.units or not refusals:
        refusals = [_refuse(request, ask, draft), *refusals]
    waiting = [refused for refused in refusals if refused.reason == "NO_AVAILABLE_TARGET"]
    if not waiting:
        return refusals[0]
    return Refused(
        "NO_AVAILABLE_TARGET",
        waiting[0].message,
        retry_at=min((r.retry_at for r in waiting if r.retry_at is not None), default=None),
        rate_limited=all(refused.rate_limited for refused in waiting),
        rejected=draft.rejected,
    )


def _nested(name: str, request: Request, ask: Ask, draft: Draft) -> Plan | Refused:
    """The plan of a referenced combo for a panel member's request, or why it has none."""
    combo = ask.state.roster.combos.get(name)
    if combo is None or name in ask.trail or len(ask.trail) >= ask.state.roster.settings.combo_ref_max_depth:
        return Refused("NO_AVAILABLE_TARGET", f"combo {name!r} leads too deep, or nowhere")
    pool = ask.state.pool(combo, name, request.api_key_id)
    inner = replace(ask, request=request, combo=combo, pool=pool, scope=name, pin=None, trail=(*ask.trail, name))
    own = Draft()
    try:
        plan = shaped(inner, own) or _single(
            ordered(eligible(needs_of(request, inner.floor), inner, own.rejected), inner, own), inner
        )
    except Refused as refused:
        draft.rejected.update(refused.rejected)
        return refused
    draft.effects += own.effects
    return plan


def _nested_call(call_id: str, plan: Plan) -> Call:
    """A panel member that is a plan of its own; the ids of its calls begin with the member's."""

    def renamed(call: Call) -> Call:
        nested = None if call.nested is None else replace_plan(call.nested)
        return replace(
            call, id=call_id + NESTED + call.id, fallbacks=tuple(map(renamed, call.fallbacks)), nested=nested
        )

    def replace_plan(inner: Plan) -> Plan:
        judge = None if inner.judge is None else renamed(inner.judge)
        return Plan(inner.shape, tuple(map(renamed, inner.panel)), inner.timeout_ms, judge)

    inside = replace_plan(plan)
    return Call(call_id, inside.calls[0].member, nested=inside)


# Pipeline


def _pipeline(ask: Ask, draft: Draft) -> Plan:
    """One call a step: the first gets the conversation, the others the text before them, the last the tools."""
    last = len(ask.pool.panel)
    calls = []
    for number, unit in enumerate(ask.pool.panel, 1):
        request = ask.request if number == last else _plain(ask.request)
        request = request if number == 1 else _text_only(request)
        opened = _open([unit], request, ask, draft)
        if not opened:
            step = unit.step
            named = f"step {number} ({step.label or step.combo or f'{step.provider}/{step.model}'})"
            raise _without(named, [unit], request, ask, draft)
        calls.append(call_of(str(number), opened[0].members))
    draft.reason = f"{len(calls)} steps in order"
    return _plan(Shape.PIPELINE, calls, ask)


def _without(what: str, units: Iterable[Unit], request: Request, ask: Ask, draft: Draft) -> Refused:
    """The refusal of a plan that has nobody for one of its roles; of the pool where nobody in it could ever take it."""
    needs = needs_of(request, ask.floor)
    if all(incapable(member, needs) is not None for member in ask.pool.members):
        return _refuse(request, ask, draft)
    stops = [draft.rejected[m.id] for unit in units for m in unit.members if m.id in draft.rejected]
    return Refused(
        "NO_AVAILABLE_TARGET",
        f"{what} has no available target",
        retry_at=earliest_recovery(stops),
        rate_limited=bool(stops) and all(stop.rate_limited for stop in stops),
        rejected=draft.rejected,
    )


# Agentic


def _agentic(ask: Ask, draft: Draft) -> Plan | None:
    """Target 1 plans and writes, the others call tools; with fewer than two targets it is an ordinary chain."""
    planner, others = ask.pool.panel[:1], ask.pool.panel[1:]
    if not others:
        return None
    planned = _without_tools(ask.request)
    planners = _open(planner, planned, ask, draft)
    if not planners:
        raise _without("the planner", planner, planned, ask, draft)
    executors: list[Unit] = []
    if wants_tools(ask.request):
        executors = _open(others, ask.request, ask, draft)
        if not executors:
            raise _without("the executor", others, ask.request, ask, draft)
    draft.reason = "planner first, then executors" if executors else "no tools: the planner answers alone"
    calls = [call_of("1", planners[0].members)]
    calls += [call_of(str(number), unit.members) for number, unit in enumerate(executors, 2)]
    return _plan(Shape.AGENTIC, calls, ask)


# Fan-out


def _fanout(ask: Ask, draft: Draft) -> Plan:
    """One model a provider, in pool order; with tools or a response format the first alone, the rest behind it."""
    alone = wants_tools(ask.request) or ask.request.needs_structured_output
    units = eligible(needs_of(ask.request, ask.floor), ask, draft.rejected)
    units = within_budget(units, ask, draft) or by_estimate(units, ask, draft)
    by_provider: dict[str, Unit] = {}
    for unit in units:
        by_provider.setdefault(unit.head.provider.id, unit)
    panel = list(by_provider.values())[: ask.state.roster.settings.chaos_max_panel]
    if alone or len(panel) == 1:
        draft.reason = "tools or a schema: the first answers alone" if alone else ALONE
        return _single(panel, ask)
    draft.reason = f"a panel of {len(panel)}, one a provider"
    calls = tuple(call_of(str(number), unit.members) for number, unit in enumerate(panel, 1))
    return Plan(Shape.FANOUT, calls, FANOUT_TIMEOUT_MS)


_SHAPES: Mapping[str, Callable[[Ask, Draft], Plan | None]] = MappingProxyType(
    {"fusion": _fusion, "pipeline": _pipeline, "agentic": _agentic, "fanout": _fanout}
)
