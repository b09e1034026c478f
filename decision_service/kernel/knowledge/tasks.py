"""Task types: named by the client, or detected from the last user message."""

from __future__ import annotations

from decision_service.kernel.knowledge.task_words import CODE_MARKS, TASK_WORDS
from decision_service.kernel.knowledge.words import lexicon, words_of
from decision_service.kernel.model import Request

TASK_TYPES = ("coding", "review", "planning", "analysis", "debugging", "documentation")
DEFAULT_TASK = "default"
TASKS = (*TASK_TYPES, DEFAULT_TASK)
TOO_SHORT = 10
"""Characters; a message of so many or fewer tells nothing."""

PRECEDENCE = tuple(TASK_WORDS)
LEXICON = lexicon(tuple(TASK_WORDS.values()))


def task_type_of(request: Request) -> str:
    """The request's task type; an unknown name reads as none."""
    named = request.task_type.strip().lower()
    if named in TASKS:
        return named
    return detect(request.last_user_text)


def detect(text: str) -> str:
    """The task that a message is about, by its words; `default` for short ones and where no word tells."""
    if len(text.strip()) <= TOO_SHORT:
        return DEFAULT_TASK
    words = words_of(text)
    for mark in CODE_MARKS:
        if mark in words.text:
            return "coding"
    group = LEXICON.first_group(words)
    return DEFAULT_TASK if group is None else PRECEDENCE[group]
