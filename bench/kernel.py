"""The kernel alone, in this process: a decision and its taking effect, by the size of the pool."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from bench.figures import quantile
from decision_service.kernel.apply import commit
from decision_service.kernel.decide import decide
from decision_service.kernel.dice import Dice
from decision_service.kernel.model import Connection, ModelFacts, Outcome, OutcomeClass, Provider, Request, Turn
from decision_service.kernel.observe import observe_unknown
from decision_service.kernel.roster import Roster
from decision_service.kernel.state import RoutingState

POOLS = (10, 100, 1_000)
PROVIDERS = 10
OUTCOMES_EACH = 20
START = 1_800_000_000_000
REQUEST = Request(model="auto", input_tokens=420, max_output_tokens=512, last_user_text="Refactor this function.")

SILENT = replace(REQUEST, last_user_text="")


def kernel(seconds: float) -> dict[str, Any]:
    """Figures by pool; microseconds."""
    return {f"pool_{pool}": _of_pool(pool, seconds) for pool in POOLS}


def _of_pool(pool: int, seconds: float) -> dict[str, Any]:
    state = learnt(pool)
    deciding: list[float] = []
    silent: list[float] = []
    traced: list[float] = []
    both: list[float] = []
    until, number = time.perf_counter() + seconds, 0
    while time.perf_counter() < until:
        now = START + number
        started = time.perf_counter()
        decide(SILENT, state, Turn(now, number, Dice(number)))
        silent.append(time.perf_counter() - started)
        started = time.perf_counter()
        decision = decide(REQUEST, state, Turn(now, number, Dice(number)))
        decided = time.perf_counter()
        decision.factors()
        told = time.perf_counter()
        commit(state, decision, str(number))
        both.append(time.perf_counter() - told + decided - started)
        traced.append(told - started)
        deciding.append(decided - started)
        number += 1
    return {
        "decisions": number,
        "decide_p50_us": round(1e6 * quantile(deciding, 0.50), 1),
        "decide_p95_us": round(1e6 * quantile(deciding, 0.95), 1),
        "without_text_p50_us": round(1e6 * quantile(silent, 0.50), 1),
        "without_text_p95_us": round(1e6 * quantile(silent, 0.95), 1),
        "with_factors_p50_us": round(1e6 * quantile(traced, 0.50), 1),
        "with_factors_p95_us": round(1e6 * quantile(traced, 0.95), 1),
        "with_effect_p50_us": round(1e6 * quantile(both, 0.50), 1),
        "with_effect_p95_us": round(1e6 * quantile(both, 0.95), 1),
    }


def learnt(pool: int) -> RoutingState:
    """A state in which every candidate has been used."""
    state = RoutingState(_roster(pool))
    for candidate in state.roster.pool:
        for attempt in range(OUTCOMES_EACH):
            outcome = Outcome(
                decision_id="before",
                attempt=attempt + 1,
                target_id="1",
                outcome_class=OutcomeClass.SUCCESS,
                at=START,
                latency_ms=200 + 37 * attempt,
                output_tokens=100,
                provider=candidate.provider,
                model=candidate.model,
                connection=candidate.connection,
            )
            observe_unknown(state, outcome, START)
    return state


def _roster(pool: int) -> Roster:
    providers = {f"p{n}": Provider(f"p{n}") for n in range(min(pool, PROVIDERS))}
    models: dict[str, list[str]] = {name: [] for name in providers}
    for number in range(pool):
        models[f"p{number % len(providers)}"].append(f"model-{number}")
    facts: dict[tuple[str, ...], ModelFacts] = {
        (provider, model): ModelFacts(
            input_price=0.1 + index % 7, output_price=0.4 + index % 5, context_window=128_000, max_output=8_192
        )
        for provider, names in models.items()
        for index, model in enumerate(names)
    }
    connections = {(p, f"{p}-account"): Connection(f"{p}-account", p, models=tuple(models[p])) for p in providers}
    return Roster(providers=providers, connections=connections, facts=facts)
