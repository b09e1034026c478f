"""Decisions as people read them: targets in order with their scores, then who was stopped and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from decision_service.kernel.decide import Decision
from decision_service.kernel.live import Member
from decision_service.kernel.model import Refused, Rejection, Shape
from decision_service.kernel.plan import Call, Plan
from docs_build.durations import spoken

Row = tuple[str, str, str]
ROLES: Mapping[Shape, str] = {
    Shape.FUSION: "panel",
    Shape.FANOUT: "panel",
    Shape.PIPELINE: "step",
    Shape.AGENTIC: "executor",
    Shape.SINGLE: "",
}


def decision_lines(number: int, decision: Decision) -> Iterator[str]:
    router = decision.draft.router_strategy
    by = f"{decision.strategy}, {router}" if router else decision.strategy
    propensity = decision.draft.propensity
    odds = f", propensity {propensity:.4f}" if propensity < 1.0 else ""
    yield f"decision {number} by {by}: {decision.draft.reason}{odds}"
    yield from (f"  ({note})" for note in _notes(decision))
    rows = [*_targets(decision), *_stopped(decision)]
    yield from aligned(rows)


def refusal_lines(refused: Refused, now: int) -> Iterator[str]:
    again = "" if refused.retry_at is None else f"; again in {spoken(refused.retry_at - now)}"
    yield f"refused, {refused.reason}: {refused.message}{again}"
    yield from aligned([_stop(name, stop, now) for name, stop in refused.rejected.items()])


def aligned(rows: Iterable[Row]) -> Iterator[str]:
    rows = list(rows)
    label, name = (max((len(row[i]) for row in rows), default=0) for i in (0, 1))
    for row in rows:
        yield f"  {row[0]:<{label}}  {row[1]:<{name}}  {row[2]}".rstrip()


def _notes(decision: Decision) -> Iterator[str]:
    if decision.probe:
        yield f"a probe, with a time-out of {spoken(decision.timeouts[0])}"
    if decision.incident:
        yield "incident mode"
    if decision.draft.weights_source not in ("", "balanced"):
        yield f"weights: {decision.draft.weights_source}"
    if decision.opened:
        yield f"opened: {', '.join(decision.opened)}"
    if decision.ignored:
        yield f"ignored: {', '.join(decision.ignored)}"
    if decision.effort:
        yield f"effort: {decision.effort}"
    hand_off = decision.hand_off
    if hand_off is not None and hand_off.summarize:
        maker = hand_off.summarizer.id if hand_off.summarizer else "the one that serves"
        yield f"hand-off: to be summarised meanwhile by {maker}"
    if hand_off is not None and hand_off.summary:
        yield f'hand-off: goes along with the summary "{hand_off.summary}"'


def _targets(decision: Decision) -> Iterator[Row]:
    if decision.plan is not None:
        yield from _calls(decision.plan)
        return
    scores = decision.draft.scores
    for number, member in enumerate(decision.chain, 1):
        yield str(number), member.id, _score(scores, member)


def _score(scores: Mapping[str, float], member: Member) -> str:
    return f"{scores[member.id]:.4f}" if member.id in scores else ""


def _calls(plan: Plan) -> Iterator[Row]:
    role = ROLES[plan.shape]
    for call in plan.panel:
        planner = plan.shape is Shape.AGENTIC and call is plan.panel[0]
        yield from _call("planner" if planner else f"{role} {call.id}".strip(), call)
    if plan.judge is not None:
        yield from _call(plan.judge.id, plan.judge)


def _call(label: str, call: Call) -> Iterator[Row]:
    if call.nested is not None:
        yield label, f"({call.nested.shape.value})", ""
        yield from ((f"  {name}", member, more) for name, member, more in _calls(call.nested))
        return
    yield label, call.member.id, f'prompt "{call.member.step.prompt}"' if call.member.step.prompt else ""
    yield from (("  or", fallback.member.id, "") for fallback in call.fallbacks)


def _stopped(decision: Decision) -> Iterator[Row]:
    for name, stop in {**decision.pool.rejected, **decision.rejected}.items():
        yield _stop(name, stop, decision.turn.now)


def _stop(name: str, stop: Rejection, now: int) -> Row:
    until = "" if stop.until is None else f", for {spoken(max(0, stop.until - now))}"
    return "x", name, f"{stop.filter}: {stop.reason}{until}"


def explanation(decision: Decision) -> Iterator[str]:
    """The factors of every scored member beside their weights."""
    factors, weights, members = decision.factors(), decision.draft.weights, decision.draft.scored
    table = [["factor", "weight", *(member.id for member in members)]]
    for name, weight in weights.items():
        if weight:
            table.append([name, f"{weight:.4f}", *(f"{value:.4f}" for value in factors[name])])
    table.append(["score", "", *(f"{value:.4f}" for value in decision.draft.values)])
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    for row in table:
        yield "  ".join([f"{row[0]:<{widths[0]}}", *(f"{c:>{w}}" for c, w in zip(row[1:], widths[1:], strict=True))])


def in_a_row(names: Sequence[str]) -> str:
    """Names in order, each with how often it stands there in a row."""
    runs: list[tuple[str, int]] = []
    for name in names:
        if runs and runs[-1][0] == name:
            runs[-1] = (name, runs[-1][1] + 1)
        else:
            runs.append((name, 1))
    return ", ".join(name if count == 1 else f"{name} x{count}" for name, count in runs)
