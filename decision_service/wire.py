"""Protobuf in, kernel values out, and back. Nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import isfinite

from google.protobuf import timestamp_pb2

from decision_service.kernel import model
from decision_service.kernel.decide import Decision
from decision_service.kernel.live import Member
from decision_service.kernel.observe import target_id_of
from decision_service.kernel.plan import Call, Plan
from decision_service.kernel.pricing import estimate
from decision_service.roster_source.snapshot import Endpoint
from omniroute.decision.v1 import decision_pb2 as pb
from service_kit.errors import ServiceError, invalid

MAX_MODEL, MAX_ID, MAX_SESSION, MAX_CACHE_KEY, MAX_TEXT, MAX_SUMMARY = 512, 128, 256, 256, 16_000, 32 * 1024
MAX_MS = 2**32 - 1
TARGETS_KEPT = 50_000
CONTROL = re.compile(r"[\x00-\x1f\x7f]")

OPERATIONS = {
    pb.OPERATION_UNSPECIFIED: model.Operation.CHAT,
    pb.OPERATION_CHAT: model.Operation.CHAT,
    pb.OPERATION_EMBEDDINGS: model.Operation.EMBEDDINGS,
}
SHAPES = {shape: pb.Plan.Shape.Value(f"SHAPE_{shape.name}") for shape in model.Shape}
OUTCOMES = {pb.OutcomeClass.Value(f"OUTCOME_CLASS_{c.name}"): c for c in model.OutcomeClass}

Endpoints = Mapping[str, Endpoint]
NO_PART = model.Rejection("plan", "has no part in this plan")
NO_ENDPOINT = Endpoint("openai", "")


def bounded(field: str, value: str, most: int) -> str:
    """A text of at most so many characters; raises INVALID_FIELD."""
    if len(value) > most:
        raise invalid(field, f"{len(value)} characters", f"at most {most}")
    return value


def named(field: str, value: str, most: int) -> str:
    """A name of at most so many characters, none of them a control character; raises INVALID_FIELD."""
    if CONTROL.search(value):
        raise invalid(field, "a text with a control character", f"at most {most} characters without any")
    return bounded(field, value, most)


def request_in(request: pb.DecideRequest) -> model.Request:
    """A request as the kernel knows it; raises INVALID_FIELD."""
    if not request.model:
        raise invalid("model", "nothing", f"a model string of 1 to {MAX_MODEL} characters")
    f, c = request.features, request.controls
    if f.operation not in OPERATIONS:
        raise invalid("features.operation", str(f.operation), "OPERATION_CHAT or OPERATION_EMBEDDINGS")
    specificity = f.specificity if f.HasField("specificity") else None
    if specificity is not None and not 0.0 <= specificity <= 100.0:
        raise invalid("features.specificity", str(specificity), "a number from 0 to 100")
    return model.Request(
        model=named("model", request.model, MAX_MODEL),
        api_key_id=named("api_key_id", request.api_key_id, MAX_ID),
        session_id=named("session_id", request.session_id, MAX_SESSION),
        session_explicit=request.session_explicit,
        operation=OPERATIONS[f.operation],
        input_tokens=f.input_tokens,
        least_input_tokens=f.least_input_tokens if f.HasField("least_input_tokens") else None,
        max_output_tokens=f.max_output_tokens if f.HasField("max_output_tokens") else None,
        stream=f.stream,
        tool_count=f.tool_count,
        specificity=specificity,
        has_tools=f.has_tools,
        tool_choice_none=f.tool_choice_none,
        needs_vision=f.needs_vision,
        needs_audio=f.needs_audio,
        needs_structured_output=f.needs_structured_output,
        has_reasoning_params=f.has_reasoning_params,
        is_tool_continuation=f.is_tool_continuation,
        tool_rounds=f.tool_rounds,
        tool_results_before_last_user=f.tool_results_before_last_user,
        last_user_chars=f.last_user_chars,
        context_tokens_to_last_user=f.context_tokens_to_last_user,
        task_type=bounded("features.task_type", f.task_type, MAX_ID),
        last_user_text=bounded("features.last_user_text", f.last_user_text, MAX_TEXT),
        prompt_cache_key=bounded("features.prompt_cache_key", f.prompt_cache_key, MAX_CACHE_KEY),
        prompt_prefix_hash=bounded("features.prompt_prefix_hash", f.prompt_prefix_hash, MAX_CACHE_KEY),
        controls=model.Controls(c.mode, c.budget_usd, c.budget_fallback, c.min_context_tokens, c.effort),
    )


def decision_out(
    decision: Decision, decision_id: str, version: int, targets: Targets, include_trace: bool
) -> pb.DecideResponse:
    """The answer to a Decide."""
    draft = decision.draft
    response = pb.DecideResponse(
        decision_id=decision_id,
        combo=decision.combo.name,
        strategy=decision.strategy,
        router_strategy=draft.router_strategy,
        reason=draft.reason,
        exploration=draft.exploration,
        propensity=draft.propensity,
        seed=decision.turn.seed,
        effort=decision.effort,
        lease_ms=decision.lease_ms,
        incident_mode=decision.incident,
        reusable=decision.reusable,
        router_timeout_ms=decision.router_timeout_ms,
        opened_filters=decision.opened,
        ignored_controls=decision.ignored,
        state=pb.StateView(source=pb.StateView.SOURCE_LOCAL, version=version),
    )
    _plan_out(response.plan, decision, targets)
    if include_trace:
        _trace_out(response.trace, decision)
    return response


def _plan_out(message: pb.Plan, decision: Decision, targets: Targets) -> None:
    plan = decision.plan
    writer = _TargetWriter(decision, targets)
    if plan is None:
        message.shape = pb.Plan.SHAPE_SINGLE
        for place, member in enumerate(decision.chain):
            writer.write(message.targets.add(), target_id_of(place), member, place)
    else:
        _shape_out(message, plan, writer, {call.id: place for place, call in enumerate(plan.calls)})
    config = decision.combo.config
    message.retry.max_attempts, message.retry.max_retries = config.max_attempts, config.max_retries
    if decision.hand_off is not None:
        message.hand_off.summary = decision.hand_off.summary
        message.hand_off.summarize = decision.hand_off.summarize
        if decision.hand_off.summarizer is not None:
            writer.write(message.hand_off.summarizer, "summary", decision.hand_off.summarizer, 0)


def _shape_out(message: pb.Plan, plan: Plan, writer: _TargetWriter, places: Mapping[str, int]) -> None:
    message.shape = SHAPES[plan.shape]
    for call in plan.panel:
        target = message.steps.add().target if plan.shape is model.Shape.PIPELINE else message.targets.add()
        _call_out(target, call, writer, places)
    config = writer.decision.combo.config
    if plan.judge is not None:
        _call_out(message.judge, plan.judge, writer, places)
        message.fusion.min_panel = max(2, min(config.fusion.min_panel, len(plan.panel)))
        message.fusion.straggler_grace_ms = config.fusion.straggler_grace_ms
        message.fusion.panel_hard_timeout_ms = config.fusion.panel_hard_timeout_ms
    if plan.shape is model.Shape.AGENTIC:
        message.agentic.max_tool_rounds = config.max_tool_rounds


def _call_out(target: pb.Target, call: Call, writer: _TargetWriter, places: Mapping[str, int]) -> None:
    if call.nested is not None:
        target.target_id = call.id
        _shape_out(target.nested, call.nested, writer, places)
        return
    writer.write(target, call.id, call.member, places[call.id])
    for fallback in call.fallbacks:
        writer.write(target.fallbacks.add(), fallback.id, fallback.member, places[fallback.id])


class Targets:
    """What targets say of members at one snapshot: the part that does not change with requests is kept."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._kept: dict[Member, pb.Target] = {}

    def of(self, member: Member) -> pb.Target:
        """The fixed part of a member's target; not to be changed."""
        target = self._kept.get(member)
        if target is None:
            if len(self._kept) >= TARGETS_KEPT:
                self._kept.clear()
            target = self._kept[member] = self._made(member)
        return target

    def _made(self, member: Member) -> pb.Target:
        candidate, facts = member.candidate, member.candidate.facts
        endpoint = self._endpoints.get(candidate.connection, NO_ENDPOINT)
        return pb.Target(
            step_id=member.step.id,
            provider=candidate.provider,
            model=candidate.model,
            connection_id=candidate.connection,
            dialect=endpoint.dialect,
            base_url=endpoint.base_url,
            prompt=member.step.prompt,
            context_window=facts.context_window or 0,
            max_output_tokens=facts.max_output or 0,
            reasons=True if "reasoning" in facts.has else False if "reasoning" in facts.lacks else None,
            input_price=facts.input_price,
            output_price=facts.output_price,
            cached_input_price=facts.cached_input_price,
        )


class _TargetWriter:
    """Writes targets of one decision."""

    def __init__(self, decision: Decision, targets: Targets) -> None:
        self.decision = decision
        self._targets = targets
        self._scores = decision.draft.scores

    def write(self, target: pb.Target, target_id: str, member: Member, place: int) -> None:
        target.CopyFrom(self._targets.of(member))
        target.target_id = target_id
        target.timeout_ms = self.decision.timeouts[place]
        if not place and self.decision.probe:
            target.probe = True
        if self._scores:
            target.score = self._scores.get(member.id, 0.0)
        target.estimated_cost_usd = estimate(member.candidate, self.decision.request)


def _trace_out(trace: pb.Trace, decision: Decision) -> None:
    draft = decision.draft
    places = {member.id: place for place, member in enumerate(draft.scored)}
    factors = decision.factors()
    trace.task_type = draft.task_type
    trace.weights_source = draft.weights_source
    trace.weights.update(draft.weights)
    ranks = {member.id: place for place, member in reversed([*enumerate(decision.chain)])}
    stops = {**decision.pool.rejected, **decision.rejected}
    for member in {m.id: m for m in (*decision.chain, *decision.pool.every)}.values():
        row = trace.candidates.add(rank=ranks.get(member.id))
        _candidate_out(row, member, decision)
        if (place := places.get(member.id)) is not None:
            row.score = draft.values[place]
            values = {name: column[place] for name, column in factors.items()}
            row.factors.update(values)
            row.contributions.update({name: draft.weights[name] * value for name, value in values.items()})
        if member.id not in ranks:
            row.rejection.CopyFrom(rejection_out(stops.get(member.id, NO_PART), decision.turn.now))
    first = decision.chain[0]
    others = [m for m in decision.chain[1:] if m.id in places]
    if others and first.id in places:
        runner_up = max(others, key=lambda m: draft.values[places[m.id]])
        trace.runner_up = runner_up.id
        trace.margin = draft.values[places[first.id]] - draft.values[places[runner_up.id]]


def _candidate_out(row: pb.CandidateTrace, member: Member, decision: Decision) -> None:
    candidate = member.candidate
    row.candidate, row.provider, row.model = candidate.id, candidate.provider, candidate.model
    row.connection_id = candidate.connection
    row.estimated_cost_usd = estimate(candidate, decision.request)


def rejection_out(stop: model.Rejection, now: int) -> pb.Rejection:
    """Why a candidate is out, its until-when as a duration from ``now``."""
    return pb.Rejection(filter=stop.filter, reason=stop.reason, until_ms=wait_ms(stop.until, now))


def wait_ms(until: int | None, now: int) -> int | None:
    """Milliseconds from ``now`` to an instant, within what the contract can carry."""
    return None if until is None else min(MAX_MS, max(0, until - now))


def error_out(error: ServiceError) -> pb.DecideError:
    """A refusal as a value."""
    return pb.DecideError(
        code=error.grpc_code.value[0],
        reason=error.reason.value,
        message=error.message,
        retry_after_ms=error.retry_after_ms,
    )


def outcome_in(outcome: pb.Outcome, now: int) -> model.Outcome:
    """An outcome as the kernel knows it. Telemetry is clamped; what names or counts it must be right."""
    if not outcome.decision_id:
        raise invalid("decision_id", "nothing", "the decision's id")
    if not 1 <= outcome.attempt <= 10_000:
        raise invalid("attempt", str(outcome.attempt), "a number from 1 to 10000")
    if outcome.outcome_class not in OUTCOMES:
        raise invalid("outcome_class", str(outcome.outcome_class), "one of OutcomeClass but UNSPECIFIED")
    at = instant_in(outcome.at) if outcome.HasField("at") else None
    return model.Outcome(
        decision_id=named("decision_id", outcome.decision_id, MAX_ID),
        attempt=outcome.attempt,
        target_id=named("target_id", outcome.target_id, MAX_ID),
        next_target_id=named("next_target_id", outcome.next_target_id, MAX_ID),
        outcome_class=OUTCOMES[outcome.outcome_class],
        at=at if at is not None and 0 < at < now else now,
        http_status=outcome.http_status,
        latency_ms=outcome.latency_ms,
        ttft_ms=outcome.ttft_ms,
        input_tokens=outcome.input_tokens,
        output_tokens=outcome.output_tokens,
        cached_tokens=outcome.cached_tokens,
        cost_usd=outcome.cost_usd if isfinite(outcome.cost_usd) and outcome.cost_usd > 0 else 0.0,
        retry_after_ms=outcome.retry_after_ms if outcome.HasField("retry_after_ms") else None,
        model_scoped=outcome.model_scoped,
        finish_reason=bounded("finish_reason", outcome.finish_reason, MAX_ID),
        final=outcome.final,
        usage_estimated=outcome.usage_estimated,
        quota=tuple(_windows_in(outcome.quota)),
        provider=named("provider", outcome.provider, MAX_ID),
        model=named("model", outcome.model, MAX_MODEL),
        connection=named("connection_id", outcome.connection_id, MAX_ID),
        api_key_id=named("api_key_id", outcome.api_key_id, MAX_ID),
        hand_off_summary=bounded("hand_off_summary", outcome.hand_off_summary, MAX_SUMMARY),
    )


WINDOW_NAMES = ("session", "weekly", "monthly", "requests", "tokens")


def _windows_in(windows: Iterable[pb.QuotaWindow]) -> Iterable[model.QuotaWindow]:
    """The windows that make sense; the others are dropped."""
    for window in windows:
        if window.name in WINDOW_NAMES and isfinite(window.remaining_fraction):
            reset_at = instant_in(window.reset_at) if window.HasField("reset_at") else None
            remaining = min(1.0, max(0.0, window.remaining_fraction))
            yield model.QuotaWindow(window.name, remaining, reset_at, window.limit_reached)


def instant_in(stamp: timestamp_pb2.Timestamp) -> int | None:
    """A timestamp as epoch milliseconds; None: it is none that can be."""
    try:
        return stamp.ToMilliseconds()
    except ValueError:
        return None


def instant_out(now: int) -> timestamp_pb2.Timestamp:
    """Epoch milliseconds as a timestamp."""
    stamp = timestamp_pb2.Timestamp()
    stamp.FromMilliseconds(now)
    return stamp


def candidate_view_out(member: Member, stop: model.Rejection | None, now: int) -> pb.CandidateView:
    """One candidate of a pool and whether it can be chosen now."""
    candidate, facts = member.candidate, member.candidate.facts
    return pb.CandidateView(
        candidate=candidate.id,
        provider=candidate.provider,
        model=candidate.model,
        connection_id=candidate.connection,
        reachable=stop is None,
        rejection=None if stop is None else rejection_out(stop, now),
        excluded=stop is not None and stop.filter == "override",
        economic_tier=candidate.economic_tier.value,
        context_window=facts.context_window or 0,
        max_output_tokens=facts.max_output or 0,
        input_price=facts.input_price,
        output_price=facts.output_price,
        breaker=member.provider.breaker.phase(now).value,
        in_flight=member.account.in_flight,
    )
