"""How demanding a request is: a hint of 0..100 for what its model may cost."""

from __future__ import annotations

from decision_service.kernel.knowledge.task_words import CODE_MARKS, TASK_WORDS
from decision_service.kernel.knowledge.words import Words, lexicon, words_of
from decision_service.kernel.model import Request

LENGTH_POINTS = 30.0
HALF_LENGTH_TOKENS = 4_000
CHARS_A_TOKEN = 4
POINTS_A_TOOL, MOST_TOOL_POINTS = 4.0, 20.0
CODE_POINTS = 15.0
MATHS_POINTS = 15.0
POINTS_A_CONSTRAINT, MOST_CONSTRAINT_POINTS = 4.0, 20.0

MATHS_MARKS = ("$$", "\\frac", "\\int", "\\sum", "\\sqrt", "\\begin{", "∫", "∑", "√", "∀", "∃", "≤", "≥", "∈")
MATHS = lexicon(
    (
        {
            "en": "theorem lemma corollary proof prove equation equations integral derivative matrix polynomial "
            "eigenvalue eigenvalues probability logarithm calculus algebra",
            "es": "teorema demuestra demostración ecuación ecuaciones derivada matriz polinomio probabilidad",
            "pt": "demonstre demonstração equação equações polinômio probabilidade",
            "fr": "théorème démontre démontrer équation équations intégrale dérivée matrice polynôme probabilité",
            "de": "beweise beweis gleichung gleichungen ableitung polynom wahrscheinlichkeit",
            "id": "buktikan persamaan turunan matriks polinomial probabilitas",
            "zh": "证明 證明 方程 积分 積分 导数 導數 矩阵 矩陣 定理 概率 機率",
        },
    )
)
CONSTRAINTS = lexicon(
    (
        {
            "en": "must exactly only without never always ensure strictly required requirements constraint "
            "constraints avoid except unless guarantee at_least at_most no_more_than do_not step_by_step",
            "es": "debe deben exactamente solo sólo nunca siempre asegúrate estrictamente evita excepto "
            "al_menos como_máximo paso_a_paso",
            "pt": "deve exatamente apenas somente sempre garanta evite exceto pelo_menos no_máximo",
            "fr": "doit doivent exactement seulement uniquement sans jamais toujours strictement évite évitez sauf "
            "au_moins au_plus",
            "de": "muss müssen genau mindestens höchstens nur ohne niemals immer unbedingt vermeide außer",
            "id": "harus tepat maksimal minimal hanya tanpa jangan selalu pastikan wajib hindari kecuali",
            "zh": "必须 必須 至少 最多 不超过 不超過 只能 不要 不得 确保 確保 严格 嚴格 避免 除了",
        },
    )
)
CODE = lexicon((TASK_WORDS["coding"], TASK_WORDS["debugging"]))


def specificity_of(request: Request) -> float:
    """The sum of five parts, each bounded and growing with what it measures; 0..100.

    ====================== ============================================== =====
    part                   points                                          most
    ====================== ============================================== =====
    length, t tokens       30 t / (t + 4000)                                 30
    tools offered          4 each                                            20
    code markers           15 if there are any                               15
    maths markers          15 if there are any                               15
    constraint words       4 for each different one                          20
    ====================== ============================================== =====

    t is the larger of the request's input tokens and a quarter of the last user message's characters. Tools that the
    request forbids to call do not count. Markers and words are looked for in the last user message; the words that tell
    the tasks coding and debugging are markers of code. A score up to 15 recommends a free model, up to 50 a cheap one,
    above that a premium one (``tiers.recommended_tier``).
    """
    words = words_of(request.last_user_text)
    return (
        _length(request)
        + _tools(request)
        + (CODE_POINTS if _has(words, CODE_MARKS) or CODE.first_group(words) is not None else 0.0)
        + (MATHS_POINTS if _has(words, MATHS_MARKS) or MATHS.first_group(words) is not None else 0.0)
        + min(MOST_CONSTRAINT_POINTS, POINTS_A_CONSTRAINT * CONSTRAINTS.count(words))
    )


def _length(request: Request) -> float:
    chars = max(request.last_user_chars, len(request.last_user_text))
    tokens = max(request.input_tokens, chars / CHARS_A_TOKEN)
    return LENGTH_POINTS * tokens / (tokens + HALF_LENGTH_TOKENS)


def _tools(request: Request) -> float:
    if request.tool_choice_none:
        return 0.0
    return min(MOST_TOOL_POINTS, POINTS_A_TOOL * max(request.tool_count, int(request.has_tools)))


def _has(words: Words, marks: tuple[str, ...]) -> bool:
    return any(mark in words.text for mark in marks)
