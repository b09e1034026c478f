"""How well a model does a task: an operator's word, else what was synced, else the static table, else its name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from decision_service.kernel.knowledge.names import hyphenated, same_model
from decision_service.kernel.knowledge.static_fitness import STATIC_FITNESS
from decision_service.kernel.knowledge.synced import BOARDS, CAPABILITY_FITNESS, NOTHING_SYNCED, Synced
from decision_service.kernel.knowledge.tasks import DEFAULT_TASK, TASK_TYPES, TASKS
from decision_service.kernel.model import Candidate, ModelFacts

UNKNOWN_FITNESS = 0.5
NAMES_KEPT = 8_192


def fitness(candidate: Candidate, task_type: str) -> float:
    """Fitness in [0,1] of a candidate's model for a task, as its roster worked it out."""
    return candidate.fitness.get(task_type, UNKNOWN_FITNESS)


def fitness_table(model: str, facts: ModelFacts, synced: Synced = NOTHING_SYNCED) -> Mapping[str, float]:
    """Fitness in [0,1] of a model for every task, `default` among them, each from the strongest source that knows it.

    An operator's `default` stands for the tasks that the operator does not name.
    """
    known = dict(_by_name(model))
    if synced is not NOTHING_SYNCED:
        known.update(_by_sources(model, synced))
    if DEFAULT_TASK in facts.fitness:
        known = dict.fromkeys(TASKS, facts.fitness[DEFAULT_TASK])
    known.update(facts.fitness)
    return known


def _by_sources(model: str, synced: Synced) -> dict[str, float]:
    name = same_model(model)
    known = dict(CAPABILITY_FITNESS.get(synced.capabilities.get(name, ""), {}))
    for board, tasks in BOARDS.items():
        rated = synced.boards.get(board, {}).get(name)
        if rated is not None:
            known.update(dict.fromkeys(tasks, rated))
    return known


@lru_cache(maxsize=NAMES_KEPT)
def _by_name(model: str) -> Mapping[str, float]:
    return {task: wildcard_fitness(model, task) for task in TASKS} | static_fitness(model)


def wildcard_fitness(model: str, task_type: str) -> float:
    """What a name tells of a model that nobody knows."""
    name = model.lower()
    value = UNKNOWN_FITNESS
    if task_type == "coding":
        value += (0.15 if "-coder" in name else 0.0) + (0.10 if "code" in name else 0.0)
    if task_type in ("planning", "analysis") and "thinking" in name:
        value += 0.10
    return value


def static_fitness(model: str) -> dict[str, float]:
    """The row of the static table with the longest match, by task type; empty: none matches."""
    name = f"-{hyphenated(model)}-"
    for parts, values in _ROWS:
        if _has_in_order(name, parts):
            return dict(zip(TASK_TYPES, values, strict=True))
    return {}


def _has_in_order(name: str, parts: tuple[str, ...]) -> bool:
    """Whether the parts, each of whole words, stand in a name one after another."""
    at = 0
    for part in parts:
        at = name.find(part, at)
        if at < 0:
            return False
        at += len(part) - 1  # the hyphen that ends a part may begin the next
    return True


def _rows() -> tuple[tuple[tuple[str, ...], tuple[float, ...]], ...]:
    """The static table with the longest patterns first."""
    split = [
        (tuple(f"-{hyphenated(part)}-" for part in pattern.split("*")), values)
        for pattern, values in STATIC_FITNESS.items()
    ]
    return tuple(sorted(split, key=lambda row: -sum(len(part) - 2 for part in row[0])))


_ROWS = _rows()
