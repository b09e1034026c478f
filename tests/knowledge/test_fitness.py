"""Fitness: its sources in their order, the static table, and what a name alone tells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decision_service.kernel.knowledge.fitness import (
    UNKNOWN_FITNESS,
    fitness,
    fitness_table,
    static_fitness,
    wildcard_fitness,
)
from decision_service.kernel.knowledge.names import hyphenated
from decision_service.kernel.knowledge.static_fitness import STATIC_FITNESS
from decision_service.kernel.knowledge.synced import CAPABILITY_FITNESS, Synced
from decision_service.kernel.knowledge.tasks import DEFAULT_TASK, TASK_TYPES, TASKS
from decision_service.kernel.model import UNKNOWN_FACTS, Connection, ModelFacts, Provider
from decision_service.kernel.roster import Roster

NOBODY = "nobody-knows-me"
SYNCED = Synced(
    boards={"text": {"rated": 0.8, "gpt-4o": 0.61}, "code": {"rated": 0.7}},
    capabilities={"rated": "premium", "listed": "standard", "gpt-4o": "budget", "odd": "of a later version"},
)


def row(model: str) -> tuple[float, ...]:
    """The static values of a model, in the order of the tasks."""
    return tuple(static_fitness(model).values())


def test_thirty_models_and_six_tasks_at_least() -> None:
    assert len(STATIC_FITNESS) >= 30
    assert TASK_TYPES == ("coding", "review", "planning", "analysis", "debugging", "documentation")
    for values in STATIC_FITNESS.values():
        assert len(values) == 6
        assert all(0.0 < value < 1.0 for value in values)


@pytest.mark.parametrize("key", STATIC_FITNESS)
def test_each_key_is_the_longest_match_of_a_model_that_is_called_so(key: str) -> None:
    assert row(key.replace("*", "-")) == STATIC_FITNESS[key]
    assert row(f"vendor/{key.replace('*', '-7-')}-20250101:free") == STATIC_FITNESS[key]


def test_no_two_keys_are_the_same() -> None:
    assert len({hyphenated(key.replace("*", " x ")) for key in STATIC_FITNESS}) == len(STATIC_FITNESS)


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("anthropic/claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", "claude-sonnet-4"),
        ("Claude-Opus-4.6", "claude-opus-4-6"),
        ("claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku"),
        ("claude-instant-1.2", "claude"),
        ("gpt-4o-2024-05-13", "gpt-4o"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("openai/gpt-5.4-mini", "gpt-5*mini"),
        ("gpt-5.1-codex-mini", "gpt-5*codex*mini"),
        ("gpt-5-codex", "gpt-5*codex"),
        ("gpt-5.9", "gpt-5"),
        ("codex-gpt-5", "gpt-5"),
        ("models/gemini-2.5-flash-lite-preview-09-2025", "gemini-2.5-flash-lite"),
        ("gemini-3.1-flash-lite", "gemini-3*flash-lite"),
        ("google/gemini-embedding-001", "gemini"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "deepseek-r1-distill"),
        ("deepseek-ai/DeepSeek-V3.2", "deepseek-v3.2"),
        ("qwen/qwen3-coder:free", "qwen3-coder"),
        ("Qwen3-235B-A22B-Thinking-2507", "qwen3*thinking"),
        ("meta-llama/llama-3.3-70b-instruct", "llama-3.3-70b"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct-Turbo", "llama-3*8b"),
        ("llama3.1:8b", "llama3.1"),
        ("moonshotai/kimi-k2-thinking-turbo", "kimi-k2-thinking"),
        ("o3-mini", "o3-mini"),
        ("x-ai/grok-code-fast-1", "grok-code"),
    ],
)
def test_the_longest_match_wins(model: str, key: str) -> None:
    assert row(model) == STATIC_FITNESS[key]


@pytest.mark.parametrize("model", ["turbo3", "solo1-large", "my-gpt-55", "clauden", "photo3", "", "/", "🙂"])
def test_only_whole_words_match(model: str) -> None:
    assert row(model) == ()


@pytest.mark.parametrize(
    ("model", "task", "expected"),
    [
        ("wonder-coder", "coding", 0.75),
        ("wonder-codex", "coding", 0.60),
        ("WONDER-CODER", "coding", 0.75),
        ("coder", "coding", 0.60),
        ("wonder-coder", "review", 0.5),
        ("wonder-thinking", "planning", 0.60),
        ("thinking-wonder", "analysis", 0.60),
        ("wonder-thinking", "coding", 0.5),
        ("wonder-thinking", "debugging", 0.5),
        (NOBODY, "documentation", 0.5),
        ("wonder-coder", DEFAULT_TASK, 0.5),
    ],
)
def test_a_name_alone_tells_a_little(model: str, task: str, expected: float) -> None:
    assert wildcard_fitness(model, task) == pytest.approx(expected)
    assert fitness_table(model, UNKNOWN_FACTS)[task] == pytest.approx(expected)


def test_the_table_goes_before_the_name() -> None:
    assert fitness_table("qwen3-coder", UNKNOWN_FACTS)["coding"] == STATIC_FITNESS["qwen3-coder"][0]


def test_no_task_means_no_opinion_of_the_static_table() -> None:
    assert fitness_table("claude-opus-4-5", UNKNOWN_FACTS)[DEFAULT_TASK] == UNKNOWN_FITNESS


# The order of the sources


def test_a_board_goes_before_a_listing_and_the_code_board_before_the_general_one() -> None:
    known = fitness_table("vendor/Rated-20250101:free", UNKNOWN_FACTS, SYNCED)
    assert known == {**dict.fromkeys(TASKS, 0.8), "coding": 0.7, "debugging": 0.7}


def test_a_board_goes_before_listing_and_table() -> None:
    assert set(fitness_table("gpt-4o", UNKNOWN_FACTS, SYNCED).values()) == {0.61}


def test_a_listing_goes_before_the_table_and_tells_nothing_without_a_task() -> None:
    only_listed = Synced(capabilities={"gpt-4o": "budget"})
    expected = {**CAPABILITY_FITNESS["budget"], DEFAULT_TASK: 0.5}
    assert fitness_table("gpt-4o", UNKNOWN_FACTS, only_listed) == expected


@pytest.mark.parametrize("model", ["claude-haiku-4-5", NOBODY, "odd"])
def test_what_no_source_knows_is_read_as_without_them(model: str) -> None:
    assert fitness_table(model, UNKNOWN_FACTS, SYNCED) == fitness_table(model, UNKNOWN_FACTS)


def test_an_operator_has_the_last_word_for_the_tasks_that_are_named() -> None:
    facts = ModelFacts(fitness={"coding": 0.11})
    known = fitness_table("rated", facts, SYNCED)
    assert known == {**fitness_table("rated", UNKNOWN_FACTS, SYNCED), "coding": 0.11}


def test_an_operators_default_stands_for_the_others() -> None:
    facts = ModelFacts(fitness={"coding": 0.11, "default": 0.22})
    for model in ("rated", "gpt-4o", NOBODY):
        assert fitness_table(model, facts, SYNCED) == {**dict.fromkeys(TASKS, 0.22), "coding": 0.11}


def test_the_values_of_the_capability_steps() -> None:
    rows = {step: tuple(by_task[task] for task in TASK_TYPES) for step, by_task in CAPABILITY_FITNESS.items()}
    assert rows == {
        "premium": (0.92, 0.93, 0.94, 0.95, 0.90, 0.88),
        "standard": (0.85, 0.84, 0.85, 0.85, 0.82, 0.85),
        "fast": (0.78, 0.72, 0.70, 0.72, 0.75, 0.80),
        "budget": (0.65, 0.60, 0.55, 0.58, 0.60, 0.70),
    }


# In the roster


def roster(synced: Synced, facts: ModelFacts = UNKNOWN_FACTS) -> Roster:
    return Roster(
        providers={"p": Provider("p", models=("gpt-4o",))},
        connections={("p", "c"): Connection("c", "p", models=("gpt-4o", NOBODY))},
        facts={("p", "gpt-4o"): facts},
        synced=synced,
    )


def test_a_candidate_carries_its_fitness() -> None:
    known, unknown = roster(SYNCED).pool
    assert fitness(known, "planning") == 0.61
    assert fitness(unknown, "planning") == 0.5
    assert fitness(known, "no task at all") == UNKNOWN_FITNESS
    (overridden, _) = roster(SYNCED, ModelFacts(fitness={"planning": 0.3})).pool
    assert (fitness(overridden, "planning"), fitness(overridden, "review")) == (0.3, 0.61)


@given(model=st.text(max_size=300), own=st.dictionaries(st.sampled_from(TASKS), st.floats(0, 1)))
def test_every_model_has_a_fitness_between_0_and_1_for_every_task(model: str, own: dict[str, float]) -> None:
    known = fitness_table(model, ModelFacts(fitness=own), SYNCED)
    assert set(known) == set(TASKS)
    assert all(0.0 <= value <= 1.0 for value in known.values())
    assert {task: known[task] for task in own} == own
