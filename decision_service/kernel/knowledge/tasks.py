"""Task types: named by the client, or detected from the last user message."""

from __future__ import annotations

from decision_service.kernel.model import Request

TASK_TYPES = ("coding", "review", "planning", "analysis", "debugging", "documentation")
DEFAULT_TASK = "default"
SHORTEST_TEXT = 11
CODE_MARKS = ("```", "def ", "function(", "#include", "public class ", "=> {", "SELECT ", "</")

# In order of precedence; a word stands between characters that are no letters or digits.
KEYWORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("coding", ("code", "implement", "function", "class", "script", "program", "refactor", "código", "implementa")),
    ("debugging", ("debug", "bug", "error", "exception", "traceback", "crash", "fix", "depurar", "perbaiki", "调试")),
    ("review", ("review", "critique", "feedback", "revisar", "revisión", "tinjau", "审查")),
    ("planning", ("plan", "roadmap", "design", "architecture", "strategy", "planificar", "rencana", "规划")),
    ("documentation", ("document", "documentation", "readme", "docstring", "documentar", "dokumentasi", "文档")),
    ("analysis", ("analyze", "analyse", "analysis", "compare", "evaluate", "analizar", "análisis", "analisis", "分析")),
)


def task_type_of(request: Request) -> str:
    """The request's task type; an unknown name reads as none."""
    named = request.task_type.strip().lower()
    if named in TASK_TYPES or named == DEFAULT_TASK:
        return named
    return detect(request.last_user_text)


def detect(text: str) -> str:
    """The task that a message is about, by its words; `default` for short ones and for no match."""
    if len(text) < SHORTEST_TEXT:
        return DEFAULT_TASK
    if any(mark in text for mark in CODE_MARKS):
        return "coding"
    lowered = text.lower()
    words = set("".join(c if c.isalnum() else " " for c in lowered).split())
    for task, keywords in KEYWORDS:
        if any(word in words or (not word.isascii() and word in lowered) for word in keywords):
            return task
    return DEFAULT_TASK
