"""From a live decision to a scenario that decides it again: its pool, what is measured of it, and the state it read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any

from decision_service.kernel.decide import Decision
from decision_service.kernel.health import Phase
from decision_service.kernel.live import Member
from decision_service.kernel.model import Controls, Operation, Request
from decision_service.policy.settings import SETTINGS
from decision_service.scenario.memory import write_memory
from decision_service.scenario.read import FORMAT

POLICY_FILTERS = frozenset({"hidden", "paid", "key_models", "key_connections", "override"})
NOT_TOLD = frozenset({"controls", "last_user_text", "task_type", "operation"})


def write_scenario(decision: Decision, combos: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The scenario of a decision that has not taken effect; ``combos`` are the stored ones that it may refer to."""
    state, now = decision.ask.state, decision.turn.now
    members = [m for m in _distinct(decision.pool.every) if not _policy_stops(m, decision)]
    name = decision.combo.name
    return {
        "scenario": FORMAT,
        "now": datetime.fromtimestamp(now / 1000, UTC).isoformat(timespec="milliseconds"),
        "seed": decision.turn.seed,
        "settings": {key: getattr(state.roster.settings, field) for key, (field, _) in SETTINGS.items()},
        "providers": {m.candidate.provider: {"class": m.candidate.provider_class.value} for m in members},
        "candidates": [_candidate(m, decision) for m in members],
        "combos": [_narrowed(combo, members) for combo in combos],
        "mappings": [asdict(m) for m in state.roster.mappings if m.combo == name],
        "overrides": list(_overrides(decision)),
        "state": write_memory(decision, members),
        "events": [{"decide": _request(decision.request, decision.draft.task_type)}],
    }


def _narrowed(combo: Mapping[str, Any], members: Iterable[Member]) -> dict[str, Any]:
    """A combo without the steps that name nobody of the pool."""
    named = {f"{m.candidate.provider}/{m.candidate.model}" for m in members}
    pinned = {m.id for m in members}

    def stays(step: Any) -> bool:
        given = step if isinstance(step, Mapping) else {"model": step}
        connection = given.get("connectionId")
        if given.get("comboName"):
            return True
        return f"{given['model']}@{connection}" in pinned if connection else given["model"] in named

    return {**combo, "steps": [step for step in combo.get("steps") or () if stays(step)]}


def _distinct(members: Sequence[Member]) -> list[Member]:
    return list({member.id: member for member in reversed(members)}.values())[::-1]


def _policy_stops(member: Member, decision: Decision) -> bool:
    stop = decision.pool.rejected.get(member.id)
    return stop is not None and stop.filter in POLICY_FILTERS


def _candidate(member: Member, decision: Decision) -> dict[str, Any]:
    candidate, facts = member.candidate, member.candidate.facts
    row = {
        "provider": candidate.provider,
        "model": candidate.model,
        "connection": candidate.connection,
        "account_tier": candidate.account_tier,
        "input_price": facts.input_price,
        "output_price": facts.output_price,
        "context_window": facts.context_window,
        "max_output": facts.max_output,
        "capabilities": [*sorted(facts.has), *(f"-{name}" for name in sorted(facts.lacks))],
        "signals": _signals(member, decision),
    }
    return {key: value for key, value in row.items() if value is not None}


def _signals(member: Member, decision: Decision) -> dict[str, Any]:
    now, statistics, account = decision.turn.now, member.target.statistics, member.account
    signals = {
        "p95_ms": statistics.p95_ms,
        "latency_std_ms": statistics.std_ms,
        "error_rate": statistics.error_rate,
        "failure_rate": 1.0 - statistics.reliability,
        "quality": statistics.quality,
        "breaker": Phase.CLOSED.value,
        "in_flight": account.in_flight,
        "recent_requests": account.recent_requests(now),
        "sessions": account.live_sessions(decision.request.session_id, now),
        "fitness": dict(member.candidate.fitness),
        "quota": [
            {
                "name": window.name,
                "remaining_fraction": window.remaining,
                "limit_reached": window.limit_reached,
                **({} if window.reset_at is None else {"resets_in_s": (window.reset_at - now) / 1000}),
            }
            for window in account.windows(now)
        ],
    }
    return {key: value for key, value in signals.items() if value not in (None, [], {})}


def _overrides(decision: Decision) -> Iterator[dict[str, Any]]:
    channel, pool = decision.combo.channel, decision.pool
    if channel is None:
        return
    own = {"api_key_id": decision.request.api_key_id, "channel": channel.name}
    for candidate, multiplier in pool.multipliers.items():
        yield {**own, "candidate": candidate, "multiplier": multiplier}
    override = decision.ask.state.roster.overrides.get((own["api_key_id"], own["channel"]))
    if override is not None and (override.order or override.strategy):
        yield {**own, "order": list(override.order), "strategy": override.strategy}


def _request(request: Request, task_type: str) -> dict[str, Any]:
    """The decide event: what is not the default; the text itself is never told, only the task that it names."""
    told = {f.name: getattr(request, f.name) for f in fields(Request) if f.name not in NOT_TOLD}
    told = {name: value for name, value in told.items() if value not in (None, "", 0, False)}
    controls = {f.name: getattr(request.controls, f.name) for f in fields(Controls)}
    told |= {name: value for name, value in controls.items() if value not in ("", 0)}
    if task_type or request.task_type:
        told["task_type"] = task_type or request.task_type
    if request.operation is not Operation.CHAT:
        told["operation"] = request.operation.value
    return {"model": request.model, **told}
