"""Words that tell a task, by task and language. ``_`` joins the words of a phrase.

Only what seldom means something else stands alone: a function may be a liver's, a program a gymnast's, so these need
company.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CODE_MARKS = (
    *("```", "#include", "<?php", "</div>", "</html>", "#!/"),
    *("function(", "function (", "() =>", "=> {", "console.log(", "print(", "public class ", "public static "),
    *("\ndef ", "\nimport ", "\nclass ", "SELECT * ", "INSERT INTO ", "CREATE TABLE "),
)
"""Texts that hardly stand anywhere but in code; their case counts."""

# In order of precedence.
TASK_WORDS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "coding": {
            "en": "code coding codebase implement implementing implementation refactor refactoring compile compiler "
            "algorithm regex regexp sql python javascript typescript kotlin golang html css bash dockerfile "
            "programming unittest boilerplate endpoint a_function this_function my_function function_that "
            "function_to function_which python_function unit_test unit_tests a_script this_script shell_script "
            "write_a_program a_program_that a_program_to a_class_that source_code data_structure",
            "es": "código codigo programar implementa implementar implementación refactoriza refactorizar algoritmo "
            "una_función una_funcion un_script un_programa_que",
            "pt": "programar implemente implementar implementação refatore refatorar uma_função um_script "
            "um_programa_que",
            "fr": "coder implémente implémenter implémentation algorithme refactorise refactoriser une_fonction "
            "un_script un_programme_qui",
            "de": "programmiere programmieren quellcode implementiere implementieren implementierung algorithmus "
            "refaktoriere refaktorieren eine_funktion ein_skript ein_programm_das",
            "id": "kode koding ngoding implementasi implementasikan pemrograman skrip refaktor buat_fungsi "
            "buatkan_fungsi sebuah_fungsi buat_program buatkan_program",
            "zh": "代码 代碼 编程 編程 程式碼 函数 函數 函式 脚本 腳本 算法 演算法 重构 重構 写程序 个程序",
        },
        "debugging": {
            "en": "debug debugging debugger bug bugs buggy error errors exception traceback stacktrace crash crashes "
            "crashed crashing segfault fix fixes fixing troubleshoot troubleshooting failing stack_trace not_working "
            "root_cause memory_leak",
            "es": "depura depurar depuración depuracion errores excepción arregla arreglar soluciona_el_fallo "
            "no_funciona",
            "pt": "depure depurar depuração erro erros exceção conserte consertar não_funciona",
            "fr": "débogue déboguer débogage erreur erreurs bogue répare réparer ne_marche_pas ne_fonctionne_pas",
            "de": "debugge debuggen fehler fehlermeldung fehlersuche absturz behebe beheben funktioniert_nicht",
            "id": "perbaiki memperbaiki perbaikan galat eror kesalahan tidak_berfungsi tidak_jalan",
            "zh": "调试 調試 除错 除錯 报错 報錯 错误 錯誤 修复 修復 异常 異常 崩溃 崩潰",
        },
        "review": {
            "en": "review reviewing reviewer critique feedback proofread audit pull_request second_opinion",
            "es": "revisa revisar revisión revision critica_constructiva retroalimentación",
            "pt": "revise revisar revisão",
            "fr": "relis relire relecture révise réviser",
            "de": "überprüfe überprüfen begutachte begutachten rückmeldung",
            "id": "tinjau meninjau tinjauan periksa memeriksa masukan_untuk beri_masukan",
            "zh": "审查 審查 评审 評審 审阅 審閱 审核 審核 点评",
        },
        "planning": {
            "en": "plan plans planning roadmap design designing architect architecture strategy milestones itinerary "
            "break_down action_items",
            "es": "planifica planificar planificación planificacion planes arquitectura diseña diseñar estrategia "
            "hoja_de_ruta",
            "pt": "planeje planejar planejamento arquitetura estratégia um_plano",
            "fr": "planifie planifier planification stratégie concevoir conçois feuille_de_route",
            "de": "planung planen entwirf entwerfen architektur strategie fahrplan",
            "id": "rencana rencanakan merencanakan perencanaan rancang rancangan merancang arsitektur strategi "
            "peta_jalan",
            "zh": "规划 規劃 计划 計劃 計畫 路线图 路線圖 架构 架構 方案",
        },
        "documentation": {
            "en": "documentation documenting docs docstring docstrings readme changelog javadoc jsdoc document_this "
            "document_the document_these document_our document_my document_how document_all document_each "
            "user_guide user_manual release_notes api_reference",
            "es": "documenta documentar documentación documentacion manual_de_usuario",
            "pt": "documente documentar documentação manual_do_usuário",
            "fr": "documente documenter",
            "de": "dokumentiere dokumentieren dokumentation",
            "id": "dokumentasi dokumentasikan mendokumentasikan panduan_pengguna",
            "zh": "文档 文檔 说明书 說明書 使用手册 使用手冊",
        },
        "analysis": {
            "en": "analyze analyzing analyse analysing analysis analytics compare comparing comparison evaluate "
            "evaluating evaluation assess assessment investigate tradeoff tradeoffs trade_offs pros_and_cons",
            "es": "analiza analizar análisis compara comparar comparación evalúa evalua evaluar ventajas_y_desventajas",
            "pt": "analise analisar análise comparar avalie avaliar prós_e_contras",
            "fr": "analyser analysez comparer comparez comparaison évalue évaluer",
            "de": "analysiere analysieren vergleiche vergleichen vergleich bewerte bewerten auswerten",
            "id": "analisis analisa menganalisis bandingkan membandingkan perbandingan evaluasi",
            "zh": "分析 对比 對比 比较 比較 评估 評估",
        },
    }
)
