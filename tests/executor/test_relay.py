"""The relay as a machine without I/O: the client's bytes depend on the stream alone, not on how it is cut."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executor.clients.openai_chat import ChatWriter
from executor.dialects import chat
from executor.dialects.openai import ChunkReader
from executor.model import Usage
from executor.relay import COMMITTED, NEXT, OPEN, Relay, Signal, State
from tests.executor.upstream import DONE, GOOD_STREAM, ROLE, USAGE, completion, delta, error_body, event


def relayed(pieces: list[bytes]) -> tuple[bytes, State, Relay]:
    relay = Relay(ChunkReader(), ChatWriter(wants_usage=True), max_event_bytes=1 << 20)
    out = b""
    for piece in pieces:
        if relay.is_open:
            out += relay.feed(piece)
    if relay.is_open:
        out += relay.close()
    if relay.state is State.SERVED:
        out += relay.tail(relay.usage or Usage(1, 2, estimated=True), 0.5)
    return out, relay.state, relay


def tool(
    index: Any = None, call_id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    given = {key: value for key, value in (("index", index), ("id", call_id)) if value is not None}
    return delta(tool_calls=[{**given, "function": function}])


RECORDED: dict[str, bytes] = {
    "text": b"".join(GOOD_STREAM),
    "unicode": b"".join(b"data: %s\n\n" % orjson.dumps(delta("añ€😀 " * 3)) for _ in range(3)) + DONE,
    "tools": b"".join(event(tool(0, "a", "f", "")) + event(tool(0, None, None, '{"x":')) for _ in range(2)) + DONE,
    "breaks": ROLE + event(delta("x")) + event(error_body("boom")) + event(delta("never")),
    "no content": ROLE + event(delta(finish="stop")) + event(USAGE) + DONE,
    "no done": ROLE + event(delta("x")) + event(delta(finish="length"))[:-2],
    "many lines": b'data: {"choices":\ndata: [{"index":0,"delta":{"content":"x"}}]}\n\n' + DONE,
}


@pytest.mark.parametrize("name", RECORDED)
def test_a_cut_at_any_byte_changes_nothing(name: str) -> None:
    whole = RECORDED[name]
    expected = relayed([whole])[:2]
    for place in range(len(whole)):
        assert relayed([whole[:place], whole[place:]])[:2] == expected
    assert relayed([whole[place : place + 1] for place in range(len(whole))])[:2] == expected


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(RECORDED)),
    st.sampled_from([b"\n", b"\r", b"\r\n"]),
    st.lists(st.integers(0, 3000), max_size=12),
    st.lists(st.sampled_from([b": keep-alive", b": OPENROUTER PROCESSING", b"event: chunk", b"id: 7"]), max_size=4),
)
def test_cuts_line_ends_and_comments_change_nothing(name: str, end: bytes, cuts: list[int], extra: list[bytes]) -> None:
    whole = RECORDED[name]
    expected = relayed([whole])[:2]
    noisy = b"".join(line + b"\n" for line in extra) + whole.replace(b"data: ", b": noise\ndata: ")
    noisy = noisy.replace(b"\n", end)
    places = sorted({0, len(noisy), *(cut % (len(noisy) + 1) for cut in cuts)})
    pieces = [noisy[a:b] for a, b in pairwise(places)]
    assert relayed(pieces)[:2] == expected


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.binary(max_size=40) | st.sampled_from([ROLE, event(delta("x")), DONE, b"\n\n", b"data: "]), max_size=12)
)
def test_no_bytes_make_it_fall_over(pieces: list[bytes]) -> None:
    out, state, relay = relayed(pieces)
    assert state not in OPEN
    assert (state is State.SERVED) == (relay.no_answer is None)
    assert bool(out) <= (state in COMMITTED)


def test_every_transition_leads_somewhere_and_nothing_leaves_an_end() -> None:
    assert {state for state, _ in NEXT} == OPEN
    assert set(NEXT.values()) == set(State) - {State.HOLDING}
    assert {(state, signal) for state in OPEN for signal in Signal} == set(NEXT)
    assert all(NEXT[State.COMMITTED, signal] in COMMITTED for signal in Signal), "once committed, always committed"


def tool_calls(*chunks: dict[str, Any]) -> list[dict[str, Any]]:
    out, _, _ = relayed([b"".join(map(event, chunks)) + DONE])
    payloads = [orjson.loads(part.removeprefix(b"data: ")) for part in out.split(b"\n\n")[:-2]]
    return [call for payload in payloads for choice in payload["choices"] for call in choice["delta"]["tool_calls"]]


def opened(index: int, call_id: str, name: str, arguments: str | None = None) -> dict[str, Any]:
    function = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
    return {"index": index, "id": call_id, "type": "function", "function": function}


def went_on(index: int, arguments: str) -> dict[str, Any]:
    return {"index": index, "function": {"arguments": arguments}}


TOOL_STREAMS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "as it should be": (
        [tool(0, "a", "f", ""), tool(0, arguments="{}"), tool(1, "b", "g", "")],
        [opened(0, "a", "f", ""), went_on(0, "{}"), opened(1, "b", "g", "")],
    ),
    "no index": (
        [tool(None, "a", "f", ""), tool(arguments="{}"), tool(None, "b", "g", "{}")],
        [opened(0, "a", "f", ""), went_on(0, "{}"), opened(1, "b", "g", "{}")],
    ),
    "from one, with a gap": (
        [tool(1, "a", "f", ""), tool(3, "b", "g", ""), tool(1, arguments="x"), tool(3, arguments="y")],
        [opened(0, "a", "f", ""), opened(1, "b", "g", ""), went_on(0, "x"), went_on(1, "y")],
    ),
    "always index 0": (
        [tool(0, "a", "f", "{}"), tool(0, "b", "f", "{}")],
        [opened(0, "a", "f", "{}"), opened(1, "b", "f", "{}")],
    ),
    "id and name in every delta": (
        [tool(0, "a", "f", "{"), tool(0, "a", "f", "}")],
        [opened(0, "a", "f", "{"), went_on(0, "}")],
    ),
    "another id without a name": (
        [tool(0, "a", "f", "{"), tool(0, "z", None, "}")],
        [opened(0, "a", "f", "{"), went_on(0, "}")],
    ),
    "no id": ([tool(0, None, "f", "{}")], [opened(0, "call_c1_0", "f", "{}")]),
    "late id": (
        [tool(0, None, "f", ""), tool(0, "late", None, "{}")],
        [opened(0, "call_c1_0", "f", ""), went_on(0, "{}")],
    ),
    "arguments as an object": ([tool(0, "a", "f", {"x": 1})], [opened(0, "a", "f", '{"x":1}')]),
}


@pytest.mark.parametrize("name", TOOL_STREAMS)
def test_tool_deltas_are_put_in_order(name: str) -> None:
    chunks, expected = TOOL_STREAMS[name]
    assert tool_calls(*chunks) == expected


def test_chunks_that_need_no_change_keep_their_bytes() -> None:
    odd = b'data: { "choices":[ {"index":0 ,"delta":{"content":"\\u00e9"}, "logprobs":1.0e0} ] }\n\n'
    assert relayed([odd + DONE])[0].startswith(odd)


def test_a_whole_answer_reads_as_its_own_stream() -> None:
    whole = completion("Hello")
    whole["choices"].append({"index": 1, "message": {"content": "Hi"}, "finish_reason": "length"})
    _, state, relay = relayed([chat.as_events(orjson.dumps(whole))])
    assert (state, relay.usage, relay.characters) == (State.SERVED, Usage(10, 5), 7)
