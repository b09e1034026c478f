"""From the client's model string to a policy."""

from __future__ import annotations

import pytest

from decision_service.kernel.grammar import CHANNELS, FLAT_IDS, VARIANT_IDS, auto_combo, glob_match, resolve
from decision_service.kernel.model import ModelMapping, Refused
from decision_service.kernel.roster import Roster
from tests.kernel.rig import combo, roster

# model string: (resolved channel, pack, exploration rate, category filter, tier filter)
GRAMMAR = {
    "auto": ("auto", "balanced", 0.05, "", ""),
    "auto/": ("auto", "balanced", 0.05, "", ""),
    "auto/lkgp": ("lkgp", "balanced", 0.05, "", ""),
    "auto/coding": ("coding", "quality-first", 0.05, "", ""),
    "auto/fast": ("fast", "ship-fast", 0.05, "", ""),
    "auto/cheap": ("cheap", "cost-saver", 0.05, "", ""),
    "auto/offline": ("offline", "offline-friendly", 0.05, "", ""),
    "auto/smart": ("smart", "quality-first", 0.10, "", ""),
    "auto/chaos": ("chaos", "chaos-mode", 0.0, "", ""),
    "auto/reasoning": ("reasoning", "balanced", 0.05, "reasoning", ""),
    "auto/vision": ("vision", "balanced", 0.05, "vision", ""),
    "auto/chat": ("chat", "balanced", 0.05, "chat", ""),
    "auto/multimodal": ("multimodal", "balanced", 0.05, "multimodal", ""),
    "auto/coding:fast": ("coding:fast", "ship-fast", 0.05, "coding", ""),
    "auto/coding:cheap": ("coding:cheap", "cost-saver", 0.05, "coding", ""),
    "auto/coding:floor": ("coding:cheap", "cost-saver", 0.05, "coding", ""),
    "auto/coding:reliable": ("coding:reliable", "reliability-first", 0.05, "coding", ""),
    "auto/coding:free": ("coding:free", "quality-first", 0.05, "coding", "free"),
    "auto/coding:pro": ("coding:pro", "quality-first", 0.05, "coding", "pro"),
    "auto/chat:free": ("chat:free", "balanced", 0.05, "chat", "free"),
    "auto/vision:pro": ("vision:pro", "balanced", 0.05, "vision", "pro"),
    "auto/multimodal:floor": ("multimodal:cheap", "cost-saver", 0.05, "multimodal", ""),
    "auto/reasoning:reliable": ("reasoning:reliable", "reliability-first", 0.05, "reasoning", ""),
    "auto/best-coding": ("coding", "quality-first", 0.05, "", ""),
    "auto/best-reasoning": ("reasoning", "balanced", 0.05, "reasoning", ""),
    "auto/best-fast": ("fast", "ship-fast", 0.05, "", ""),
    "auto/best-vision": ("vision", "balanced", 0.05, "vision", ""),
    "auto/best-chat": ("chat", "balanced", 0.05, "chat", ""),
    "auto/best-free": ("chat:free", "cost-saver", 0.05, "chat", "free"),
    "auto/pro-coding": ("coding:pro", "quality-first", 0.05, "coding", "pro"),
    "auto/pro-chat": ("chat:pro", "balanced", 0.05, "chat", "pro"),
    "auto/pro-fast": ("pro-fast", "ship-fast", 0.05, "", "pro"),
}


@pytest.mark.parametrize("model", GRAMMAR)
def test_a_channel_reads(model: str) -> None:
    channel = auto_combo(model).channel
    assert channel is not None
    read = (channel.name, channel.pack, channel.exploration_rate, channel.category, channel.tier)
    assert read == GRAMMAR[model]
    assert channel.fanout == (model == "auto/chaos")


def test_every_category_takes_every_tier_and_nothing_else_takes_one() -> None:
    tiered = {name for name in CHANNELS if ":" in name}
    categories = ("coding", "reasoning", "vision", "chat", "multimodal")
    assert tiered == {f"{c}:{t}" for c in categories for t in ("fast", "cheap", "floor", "reliable", "free", "pro")}


@pytest.mark.parametrize(
    "model",
    [
        "auto/auto",
        "auto/reliable",
        "auto/floor",
        "auto/free",
        "auto/pro",
        "auto/fast:cheap",
        "auto/coding:",
        "auto/:fast",
        "auto/coding:smart",
        "auto/coding:fast:cheap",
        "auto/coding/fast",
        "auto/Coding",
        "auto/FAST",
        "auto/ fast",
        "auto/fast ",
        "auto/best-multimodal",
        "auto/pro-lkgp",
        "auto//",
        "autoX",
        "auto:fast",
    ],
)
def test_what_the_grammar_does_not_know_is_refused_with_what_is_valid(model: str) -> None:
    with pytest.raises(Refused) as refused:
        resolve(model, roster(["p/m@c"]))
    assert (refused.value.reason, refused.value.field) == ("MODEL_NOT_FOUND", "model")
    for valid in ("coding", "smart", "multimodal", "reliable"):
        assert valid in refused.value.message


def test_eight_callable_ids_and_every_flat_id_resolve() -> None:
    assert len(VARIANT_IDS) == 8
    assert len(set(FLAT_IDS)) == len(FLAT_IDS)
    for model in (*VARIANT_IDS, *FLAT_IDS):
        assert auto_combo(model).strategy == "auto"


def everything() -> Roster:
    """A roster in which several rules could answer the same string."""
    named = ("p/m", "mine", "bare", "auto", "m-wide", "m-long", "m-first")
    return roster(
        ["p/m@c", "p/bare@c", "q/bare@c", "openrouter/auto@r"],
        *(combo("priority", ["p/m@c"], name=name) for name in named),
        mappings=(
            ModelMapping("x*", "m-wide"),
            ModelMapping("x-l?ng*", "m-long"),
            ModelMapping("x-first*", "m-first", priority=5),
            ModelMapping("lost*", "no-such-combo", priority=9),
            ModelMapping("auto/smart", "mine"),
        ),
    )


@pytest.mark.parametrize(
    ("model", "answer"),
    [
        pytest.param("p/m", "p/m", id="1: a combo of that very name, though a model is called so too"),
        pytest.param("auto", "auto", id="1: a combo named auto"),
        pytest.param("combo/mine", "mine", id="2: combo/<name>"),
        pytest.param("x-short", "m-wide", id="3: a mapping"),
        pytest.param("x-long-one", "m-long", id="3: of two, the longer pattern"),
        pytest.param("x-first-one", "m-first", id="3: of two, the higher priority"),
        pytest.param("auto/smart", "mine", id="3: a mapping before the grammar"),
        pytest.param("auto/fast", "auto/fast", id="4: a channel"),
        pytest.param("auto/best-free", "auto/chat:free", id="4: a flat id reads what it stands for"),
        pytest.param("openrouter/auto", "openrouter/auto", id="5: not a channel"),
        pytest.param("p/unlisted", "p/unlisted", id="5: a model that the catalogue lacks"),
    ],
)
def test_the_first_rule_that_matches_wins(model: str, answer: str) -> None:
    assert resolve(model, everything()).name == answer


def test_a_stored_auto_stands_in_for_the_base_channel_and_for_no_other() -> None:
    assert resolve("auto", everything()).channel is None
    assert resolve("auto/lkgp", everything()).channel is not None


def test_provider_and_model_is_a_priority_combo_of_one_dynamic_step() -> None:
    direct = resolve("p/unlisted", everything())
    assert (direct.strategy, len(direct.steps)) == ("priority", 1)
    assert (direct.steps[0].provider, direct.steps[0].model, direct.steps[0].connection) == ("p", "unlisted", None)


def test_a_bare_model_is_an_auto_combo_over_all_who_serve_it_without_exploration() -> None:
    bare = resolve("bare", roster(["q/bare@c", "p/bare@c", "p/m@c"]))
    assert (bare.name, bare.strategy, bare.config.exploration_rate) == ("bare", "auto", 0.0)
    assert [(s.provider, s.connection) for s in bare.steps] == [("p", None), ("q", None)]


def test_a_model_id_with_a_slash_is_bare_where_no_such_provider_has_a_connection() -> None:
    assert resolve("meta/llama", roster(["router/meta/llama@r"])).steps[0].provider == "router"


@pytest.mark.parametrize("model", ["nothing", "combo/nothing", "nobody/m", "p/", "/m", "lost-1", "P/m", ""])
def test_an_unknown_name_is_refused(model: str) -> None:
    with pytest.raises(Refused) as refused:
        resolve(model, everything())
    assert (refused.value.reason, refused.value.field) == ("MODEL_NOT_FOUND", "model")
    assert repr(model) in refused.value.message


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("gpt-*", ["gpt-", "gpt-4o", "gpt-4/o"], ["gpt", "xgpt-4", "GPT-4"]),
        ("*-mini", ["-mini", "a-mini", "a-mini-mini"], ["a-mini-", "mini"]),
        ("gpt-?", ["gpt-4"], ["gpt-", "gpt-4o"]),
        ("*a*b*", ["ab", "xaxbx", "aab"], ["ba", "a", ""]),
        ("*", ["", "anything"], []),
        ("a.c[1]", ["a.c[1]"], ["abc1", "a.c1"]),
        ("", [""], ["a"]),
    ],
)
def test_globs_match_the_whole_string(pattern: str, matching: list[str], other: list[str]) -> None:
    assert [text for text in matching + other if glob_match(pattern, text)] == matching


def test_a_glob_of_many_stars_ends_quickly() -> None:
    assert not glob_match("*a" * 40 + "*b", "a" * 2_000)
