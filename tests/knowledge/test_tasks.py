"""Task types: what the client names, else what the words of the last user message tell."""

from __future__ import annotations

from timeit import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decision_service.kernel.knowledge.task_words import TASK_WORDS
from decision_service.kernel.knowledge.tasks import PRECEDENCE, TASK_TYPES, TASKS, detect, task_type_of
from decision_service.kernel.knowledge.words import FIRST_UNSPACED, HEAD_CHARS, TAIL_CHARS
from decision_service.kernel.model import Request

LANGUAGES = ("en", "es", "pt", "fr", "de", "id", "zh")
NEUTRAL = "and so on and so forth, "


def test_precedence() -> None:
    assert PRECEDENCE == ("coding", "debugging", "review", "planning", "documentation", "analysis")
    assert set(PRECEDENCE) == set(TASK_TYPES)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("task", PRECEDENCE)
def test_every_task_has_words_in_every_language(task: str, language: str) -> None:
    assert TASK_WORDS[task][language].split()


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("Write a Python function that reverses a string", "coding"),
        ("Implement quicksort, please.", "coding"),
        ("Refactor this class for me", "coding"),
        ("what does this do?\n```\nx = 1\n```", "coding"),
        ("Please #include <stdio.h> here", "coding"),
        ("Find the bug in what I sent you", "debugging"),
        ("I get a stack trace at startup", "debugging"),
        ("Why does it crash on startup?", "debugging"),
        ("Please review my essay on whales", "review"),
        ("Could you look at my pull request", "review"),
        ("Plan a week in Rome for the family", "planning"),
        ("Draft a roadmap for the next year", "planning"),
        ("Write the README of this project", "documentation"),
        ("Document the configuration options", "documentation"),
        ("Compare these two contracts", "analysis"),
        ("List the pros and cons of remote work", "analysis"),
        ("Tell me a story about a dragon", "default"),
        ("Escribe código que ordene una lista", "coding"),
        ("Quiero una función que sume números", "coding"),
        ("Tengo un problema: ¿errores otra vez?", "debugging"),
        ("Por favor, revisa mi redacción", "review"),
        ("Planifica mis vacaciones en Perú", "planning"),
        ("Necesito la documentación del proyecto", "documentation"),
        ("Analiza estos resultados de ventas", "analysis"),
        ("Cuéntame un cuento sobre un dragón", "default"),
        ("Implemente uma fila com duas pilhas", "coding"),
        ("Por que aparece este erro aqui?", "debugging"),
        ("Avalie os dois contratos, por favor", "analysis"),
        ("Écris-moi une fonction qui trie une liste", "coding"),
        ("Il y a une erreur dans le résultat", "debugging"),
        ("Peux-tu planifier mon voyage à Lyon ?", "planning"),
        ("Bitte implementieren Sie eine Warteschlange", "coding"),
        ("Woher kommt diese Fehlermeldung?", "debugging"),
        ("Kannst du meinen Aufsatz überprüfen?", "review"),
        ("Dokumentiere bitte die Schnittstelle", "documentation"),
        ("Tulis kode untuk mengurutkan daftar", "coding"),
        ("Tolong perbaiki masalah ini, ya", "debugging"),
        ("Tolong tinjau tulisan saya ini", "review"),
        ("Buat rencana perjalanan ke Bali", "planning"),
        ("Siapkan dokumentasi untuk proyek ini", "documentation"),
        ("Bandingkan dua pilihan berikut ini", "analysis"),
        ("Ceritakan dongeng tentang seekor naga", "default"),
        ("请写一段代码来排序一个列表", "coding"),
        ("请帮我写一个程序，读取文件", "coding"),
        ("运行的时候总是报错，怎么办呢？", "debugging"),
        ("请帮我审阅一下这篇文章的内容", "review"),
        ("请帮我规划一次去北京的旅行", "planning"),
        ("請幫我規劃一次去台北的旅行", "planning"),
        ("请为这个项目准备一份使用手册", "documentation"),
        ("请分析一下今年的销售数据情况", "analysis"),
        ("请给我讲一个关于龙的故事好吗", "default"),
    ],
)
def test_a_message_tells_its_task(text: str, task: str) -> None:
    assert detect(text) == task


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("Analyze and document the plan, review the bug, then code it", "coding"),
        ("Analyze and document the plan, review the bug", "debugging"),
        ("Analyze and document the plan, then review", "review"),
        ("Analyze and document the plan for me", "planning"),
        ("Analyze and document the results", "documentation"),
        ("分析报错，然后写代码，谢谢你", "coding"),
        ("请分析一下这个报错，谢谢你", "debugging"),
        ("Plan it, 还有这个报错怎么办", "debugging"),
    ],
)
def test_the_first_task_in_precedence_wins(text: str, task: str) -> None:
    assert detect(text) == task


@pytest.mark.parametrize(
    "text",
    [
        "The planet Mars is a planetarium",
        "He was encoded as an airplane",
        "A terrorist errorless ladybugged",
        "What is the function of the liver?",
        "my_code_review is only an identifier",
        "We went to the gym for a program of yoga",
        "Designer clothes are expensive today",
    ],
)
def test_a_word_inside_another_tells_nothing(text: str) -> None:
    assert detect(text) == "default"


@pytest.mark.parametrize(
    "mark", [".", ",", "?", "!", ":", ";", ")", "(", '"', "'", "\n", "\t", "…", "”", "、", "—", "»"]
)
def test_punctuation_ends_a_word(mark: str) -> None:
    assert detect(f"I wonder:{mark}roadmap{mark} for all") == "planning"
    assert detect(f"Por favor{mark}análisis{mark} de todo") == "analysis"


def test_case_does_not_count() -> None:
    assert detect("PLEASE DEBUG THIS FOR ME") == detect("please debug this for me") == "debugging"
    assert detect("POR FAVOR, ANÁLISIS DE TODO") == "analysis"


@pytest.mark.parametrize("text", ["", "debug", "debug this", "  debug this \n\n\n\n\n", "分析", "请写一段代码谢谢你啊"])
def test_ten_characters_or_fewer_tell_nothing(text: str) -> None:
    assert detect(text) == "default"


def test_eleven_characters_tell() -> None:
    assert detect("debug this!") == "debugging"


def test_the_beginning_and_the_end_of_a_long_message_tell_its_task() -> None:
    filler = (NEUTRAL * 700)[:15_000]
    assert detect(f"Please plan: {filler}") == "planning"
    assert detect(f"{filler}\nNow plan that.") == "planning"
    middle = HEAD_CHARS + TAIL_CHARS
    assert detect(f"{filler[:middle]} plan {filler[:middle]}") == "default"
    assert detect(f"{NEUTRAL * 170}{'x' * 9_000} plan") == "planning"


def test_what_the_client_names_goes_first() -> None:
    text = "Write a Python function, please"
    assert task_type_of(Request("m", task_type="planning", last_user_text=text)) == "planning"
    assert task_type_of(Request("m", task_type=" Review ", last_user_text=text)) == "review"
    assert task_type_of(Request("m", task_type="default", last_user_text=text)) == "default"
    assert task_type_of(Request("m", task_type="cooking", last_user_text=text)) == "coding"
    assert task_type_of(Request("m")) == "default"


@pytest.mark.parametrize("task", PRECEDENCE)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_entry_is_found(task: str, language: str) -> None:
    earlier = {
        entry
        for name in PRECEDENCE[: PRECEDENCE.index(task)]
        for words in TASK_WORDS[name].values()
        for entry in words.split()
    }
    for entry in TASK_WORDS[task][language].split():
        assert entry not in earlier
        written = entry if min(entry) >= FIRST_UNSPACED else entry.replace("_", " ")
        assert PRECEDENCE.index(detect(f"{NEUTRAL}{written}, {NEUTRAL}")) <= PRECEDENCE.index(task), entry


@given(st.text(max_size=9_000))
def test_any_text_has_a_task(text: str) -> None:
    assert detect(text) in TASKS


LONG = {
    "english": NEUTRAL * 700,
    "spanish": "y así sucesivamente, ¿verdad? «sí» — claro que sí… " * 400,
    "chinese": "请帮我看看这个系统是如何工作的，谢谢你的帮助！" * 800,
    "many words": " ".join(f"w{number}" for number in range(4_000)),
    "many marks": "、。，；：「」…—»" * 2_000,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
def test_a_long_message_takes_no_long_time(text: str) -> None:
    best = min(repeat(lambda: detect(text[:16_000]), number=10, repeat=10)) / 10
    assert best < 0.001
