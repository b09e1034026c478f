"""How well a model does a task."""

from __future__ import annotations

from decision_service.kernel.model import Candidate

UNKNOWN_FITNESS = 0.5


def fitness(candidate: Candidate, task_type: str) -> float:
    """Fitness in [0,1] of a candidate's model for a task; a task without a value of its own reads `default`."""
    known = candidate.facts.fitness
    value = known.get(task_type)
    if value is None:
        value = known.get("default")
    return wildcard_fitness(candidate.model, task_type) if value is None else value


def wildcard_fitness(model: str, task_type: str) -> float:
    """What a model's name alone tells."""
    name = model.lower()
    value = UNKNOWN_FITNESS
    if task_type == "coding":
        value += (0.15 if "-coder" in name else 0.0) + (0.10 if "code" in name else 0.0)
    if task_type in ("planning", "analysis") and "thinking" in name:
        value += 0.10
    return value
