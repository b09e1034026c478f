"""Bodies of a plan's calls: nothing of the client's body is changed, and nothing that a source says escapes it."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from executor import bodies, turns

TOOL = {"type": "function", "function": {"name": "f", "description": "finds", "parameters": {"type": "object"}}}
BODY: dict[str, Any] = {
    "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
    "tools": [TOOL],
    "tool_choice": "auto",
    "stream": True,
    "n": 2,
    "temperature": 0,
}


def test_no_body_changes_the_clients() -> None:
    before = copy.deepcopy(BODY)
    for made in (
        bodies.plain(BODY),
        bodies.without_tools(BODY),
        bodies.instead(BODY, "t"),
        bodies.judging(BODY, ["a", "b"]),
        bodies.routing(BODY),
        bodies.planned(BODY, "p"),
        bodies.with_system(BODY, "s"),
    ):
        assert made != BODY
        assert before == BODY


@given(st.lists(st.text("=S ource1\nEnd of", max_size=60), min_size=2, max_size=5))
def test_every_source_can_be_told_from_the_others(sources: list[str]) -> None:
    told = bodies.judging(BODY, sources)["messages"][-1]["content"]
    fence = next(line for line in told.splitlines() if line.endswith("=") and "Source 1" in line).split(" ")[0]
    read = []
    for number in range(1, len(sources) + 1):
        _, _, rest = told.partition(f"{fence} Source {number} {fence}\n")
        text, _, told = rest.partition(f"\n{fence} End of source {number} {fence}")
        read.append(text)
    assert read == sources


def test_tools_of_every_kind_are_described() -> None:
    odd = {"type": "web_search"}
    body = {"messages": [], "tools": [TOOL, odd], "functions": [{"name": "old"}]}
    told = bodies.routing(body)["messages"][0]["content"]
    for word in ("- f: finds", '{"type":"object"}', '{"type":"web_search"}', "- old:"):
        assert word in told
    assert bodies.wants_tools({"messages": [], "functions": [{"name": "old"}]})
    assert not bodies.wants_tools({"messages": [], "functions": [{"name": "old"}], "function_call": "none"})
    assert not bodies.wants_tools({"messages": [], "tools": "all of them"})


def test_rounds_are_counted_by_assistant_messages() -> None:
    call = {"role": "assistant", "tool_calls": [{"id": "1"}, {"id": "2"}]}
    result = {"role": "tool", "content": "r"}
    own = {"role": "user", "content": [{"type": "tool_result", "content": "r"}]}
    user = {"role": "user", "content": "q"}
    legacy = {"role": "assistant", "function_call": {"name": "f"}}
    assert turns.rounds([user, call, result, result, call, own]) == 2
    assert turns.rounds([call, result, user, legacy, result]) == 1
    assert turns.rounds([user, {"role": "assistant", "content": "a"}]) == 0
    assert turns.rounds([]) == 0
    assert turns.rounds([call, {"role": []}, {"role": {}}]) == 1
    assert [turns.continues(m) for m in ([user, result], [user, own], [result, user], [], ["odd"])] == [
        True,
        True,
        False,
        False,
        False,
    ]
