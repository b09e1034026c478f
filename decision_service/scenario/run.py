"""Runs a scenario through the kernel, on a clock of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from decision_service.kernel.apply import commit, tick
from decision_service.kernel.decide import Decision, decide
from decision_service.kernel.dice import Dice
from decision_service.kernel.model import (
    Controls,
    Operation,
    Outcome,
    OutcomeClass,
    Refused,
    Request,
    Turn,
)
from decision_service.kernel.observe import observe, target_id_of
from decision_service.kernel.state import RoutingState
from decision_service.names import name_index, with_near
from decision_service.policy.fields import Reader, choice, flag, number, read_object, shape, text, whole
from decision_service.policy.known import TRUSTED
from decision_service.scenario.memory import apply_memory
from decision_service.scenario.read import Scenario
from decision_service.scenario.signals import apply_signals, read_windows, telemetry
from service_kit.errors import invalid

COUNT = whole(0, 2**53)
SEED = whole(0, 2**64 - 1)
ANY_TEXT = text(20_000)
CONTROLS: Mapping[str, Reader] = {
    "mode": ANY_TEXT,
    "budget_usd": telemetry,
    "budget_fallback": ANY_TEXT,
    "min_context_tokens": whole(-(2**53), 2**53),
    "effort": ANY_TEXT,
}
FEATURES: Mapping[str, Reader] = {
    **dict.fromkeys(("model", "api_key_id", "session_id", "task_type", "last_user_text"), ANY_TEXT),
    **dict.fromkeys(("prompt_cache_key", "prompt_prefix_hash"), ANY_TEXT),
    **dict.fromkeys(("session_explicit", "stream", "has_tools", "tool_choice_none", "needs_vision"), flag),
    **dict.fromkeys(("needs_audio", "needs_structured_output", "has_reasoning_params"), flag),
    "is_tool_continuation": flag,
    **dict.fromkeys(("input_tokens", "least_input_tokens", "max_output_tokens"), COUNT),
    **dict.fromkeys(("tool_count", "tool_rounds"), COUNT),
    **dict.fromkeys(("tool_results_before_last_user", "last_user_chars", "context_tokens_to_last_user"), COUNT),
    "specificity": number(0.0, 100.0),
    "operation": lambda value, path, known: Operation(choice(Operation)(value, path, known)),
}
DECIDE_KEYS = (*FEATURES, *CONTROLS, "seed")
REPORT_KEYS = (
    *("decision", "attempt", "target", "outcome_class", "http_status", "latency_ms", "ttft_ms", "input_tokens"),
    *("output_tokens", "cached_tokens", "cost_usd", "retry_after_ms", "model_scoped", "next_target", "final"),
    *("finish_reason", "quota", "hand_off_summary"),
)


class Simulation:
    """One run: the state, the clock and the decisions so far."""

    def __init__(self, scenario: Scenario) -> None:
        self.state = RoutingState(scenario.roster)
        self.now = scenario.now
        self.seed = scenario.seed
        self.decisions: list[Decision | None] = []
        for candidate, signals in zip(scenario.candidates, scenario.signals, strict=True):
            apply_signals(self.state, candidate, signals, self.now)
        if scenario.memory:
            apply_memory(self.state, scenario.memory)

    def decide(self, raw: Any, path: str) -> dict[str, Any]:
        """The answer to a decide event, which takes effect."""
        number_ = len(self.decisions)
        try:
            decision = self.ask(raw, path)
        except Refused as refused:
            self.take(None)
            return {"decision": number_, "error": self._refusal(refused, str(raw["model"]))}
        shown = {"decision": number_, **answer(decision)}
        self.take(decision)
        return shown

    def ask(self, raw: Any, path: str) -> Decision:
        """What would be decided now; raises ``Refused``."""
        given = read_object(raw, path, DECIDE_KEYS)
        request = read_request(given, path)
        own = given.get("seed")
        seed = self.seed + len(self.decisions) if own is None else SEED(own, f"{path}.seed", TRUSTED)
        tick(self.state, self.now)
        return decide(request, self.state, Turn(self.now, seed, Dice(seed)))

    def take(self, decision: Decision | None) -> None:
        """A decision takes effect under the next number; None: it was a refusal."""
        self.decisions.append(decision)
        if decision is not None:
            commit(self.state, decision, str(len(self.decisions) - 1))

    def _refusal(self, refused: Refused, model: str) -> dict[str, Any]:
        wait = None if refused.retry_at is None else max(0, refused.retry_at - self.now)
        near = name_index(self.state).near(model) if refused.reason == "MODEL_NOT_FOUND" else []
        return {"reason": refused.reason, "message": with_near(refused.message, near), "retry_after_ms": wait}

    def report(self, raw: Any, path: str) -> None:
        given = read_object(raw, path, REPORT_KEYS)
        number_ = COUNT(given.get("decision"), f"{path}.decision", TRUSTED)
        decision = self.decisions[number_] if number_ < len(self.decisions) else None
        if decision is None:
            raise invalid(f"{path}.decision", shape(number_), "the number of a decide that was answered")
        tick(self.state, self.now)
        observe(self.state, self._outcome(given, str(number_), decision, path), self.now)

    def _outcome(self, given: Mapping[str, Any], decision_id: str, decision: Decision, path: str) -> Outcome:
        kind = given.get("outcome_class")
        if kind not in list(OutcomeClass):
            raise invalid(f"{path}.outcome_class", shape(kind), ", ".join(OutcomeClass))
        counts = ("http_status", "latency_ms", "ttft_ms", "input_tokens", "output_tokens", "cached_tokens")
        hint, target = given.get("retry_after_ms"), given.get("target")
        return Outcome(
            decision_id=decision_id,
            attempt=whole(1)(given.get("attempt", 1), f"{path}.attempt", TRUSTED),
            target_id=_target_id(decision.chain[0].id if target is None else target, decision, f"{path}.target"),
            next_target_id=_target_id(given.get("next_target"), decision, f"{path}.next_target"),
            outcome_class=OutcomeClass(kind),
            at=self.now,
            retry_after_ms=None if hint is None else COUNT(hint, f"{path}.retry_after_ms", TRUSTED),
            model_scoped=flag(given.get("model_scoped", False), f"{path}.model_scoped", TRUSTED),
            final=flag(given.get("final", kind == OutcomeClass.SUCCESS), f"{path}.final", TRUSTED),
            finish_reason=ANY_TEXT(given.get("finish_reason", ""), f"{path}.finish_reason", TRUSTED),
            cost_usd=number(0.0)(given.get("cost_usd", 0.0), f"{path}.cost_usd", TRUSTED),
            quota=read_windows(given.get("quota"), f"{path}.quota", self.now),
            hand_off_summary=ANY_TEXT(given.get("hand_off_summary", ""), f"{path}.hand_off_summary", TRUSTED),
            **{name: COUNT(given.get(name, 0), f"{path}.{name}", TRUSTED) for name in counts},
        )


def _target_id(candidate_id: Any, decision: Decision, path: str) -> str:
    """The plan's id of a candidate, at its first place; or a target id itself, for plans of several calls."""
    if candidate_id is None:
        return ""
    ids = (
        [call.id for call in decision.plan.calls]
        if decision.plan
        else list(map(target_id_of, range(len(decision.chain))))
    )
    for target_id, member in zip(ids, decision.chain, strict=True):
        if candidate_id in (member.id, target_id):
            return target_id
    raise invalid(path, shape(candidate_id), "a target of that decision")


def read_request(given: Mapping[str, Any], path: str) -> Request:
    """The request of a decide event."""
    if given.get("model") is None:
        raise invalid(f"{path}.model", "nothing", "a model string")
    values = {
        name: read(given[name], f"{path}.{name}", TRUSTED)
        for name, read in FEATURES.items()
        if given.get(name) is not None
    }
    controls = {
        name: read(given[name], f"{path}.{name}", TRUSTED)
        for name, read in CONTROLS.items()
        if given.get(name) is not None
    }
    return Request(**values, controls=Controls(**controls))


def _targets(decision: Decision) -> list[str]:
    """Candidate ids: the chain in order, or the first target of each panel member or step."""
    if decision.plan is None:
        return [member.id for member in decision.chain]
    return [call.member.id for call in decision.plan.panel]


def answer(decision: Decision) -> dict[str, Any]:
    """What a decide event puts out."""
    draft, now = decision.draft, decision.turn.now
    factors = decision.factors()
    stops = {**decision.pool.rejected, **decision.rejected}
    return {
        "shape": decision.shape.value,
        "targets": _targets(decision),
        "judge": decision.plan.judge.member.id if decision.plan and decision.plan.judge else None,
        "strategy": decision.strategy,
        "router_strategy": draft.router_strategy or None,
        "combo": decision.combo.name,
        "reason": draft.reason,
        "exploration": draft.exploration,
        "propensity": draft.propensity,
        "seed": decision.turn.seed,
        "effort": decision.effort or None,
        "probe": decision.probe,
        "incident_mode": decision.incident,
        "opened_filters": list(decision.opened),
        "ignored_controls": list(decision.ignored),
        "weights": dict(draft.weights),
        "scores": dict(draft.scores),
        "factors": {m.id: {name: column[i] for name, column in factors.items()} for i, m in enumerate(draft.scored)},
        "rejected": [
            {
                "candidate": candidate,
                "filter": stop.filter,
                "reason": stop.reason,
                "until_ms": None if stop.until is None else max(0, stop.until - now),
            }
            for candidate, stop in stops.items()
        ],
    }


def run(scenario: Scenario) -> Iterator[dict[str, Any]]:
    """The answers of the decide events, in order. Raises INVALID_FIELD at the first bad event."""
    simulation = Simulation(scenario)
    for i, event in enumerate(scenario.events):
        path = f"events[{i}]"
        given = read_object(event, path, ("decide", "report", "advance_ms"))
        if len(given) != 1:
            raise invalid(path, f"{len(given)} kinds at once", "one of decide, report, advance_ms")
        if "advance_ms" in given:
            simulation.now += COUNT(given["advance_ms"], f"{path}.advance_ms", TRUSTED)
        elif "report" in given:
            simulation.report(given["report"], f"{path}.report")
        else:
            yield simulation.decide(given["decide"], f"{path}.decide")
