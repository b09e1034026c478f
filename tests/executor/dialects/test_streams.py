"""Streams of every vendor for clients of every dialect: each hears the same, however the bytes are cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executor.clients.anthropic_messages import STOP_REASONS
from executor.clients.openai_responses import INCOMPLETE
from executor.dialects import DIALECTS
from executor.model import ClientDialect, OutcomeClass
from executor.relay import COMMITTED, OPEN, State
from tests.executor.dialects.recorded import RECORDED, block_delta, cases, message_start, named
from tests.executor.dialects.streams import call_of, heard, relayed, whole

CLIENTS = list(ClientDialect)
LOCATION = '{"location": "San Francisco, CA"}'


@dataclass(frozen=True)
class Told:
    """``finish`` in chat's words."""

    text: str = ""
    thinking: str = ""
    refusal: str = ""
    tools: tuple[tuple[str, str, str], ...] = ()
    finish: str = "stop"
    usage: tuple[int, int, int] | None = None


TOLD: dict[tuple[str, str], Told] = {
    ("openai", "text"): Told("Hello, wörld 😀", usage=(65, 15, 40)),
    ("openai", "thinking"): Told("Hello", "Let me see.", usage=(8, 30, 0)),
    ("openai", "tools"): Told(
        "I'll check.",
        tools=(("call_A", "get_weather", LOCATION), ("call_B", "get_time", "{}")),
        finish="tool_calls",
        usage=(80, 89, 0),
    ),
    ("openai", "tools beside each other"): Told(
        tools=(("call_A", "get_weather", LOCATION), ("call_B", "get_time", '{"zone": "PST"}')), finish="tool_calls"
    ),
    ("openai", "length"): Told("Hel", finish="length", usage=(8, 1, 0)),
    ("openai", "refusal"): Told(refusal="I can't do that."),
    ("openai", "withheld"): Told(finish="content_filter", usage=(8, 0, 0)),
    ("anthropic", "text"): Told("Hello, wörld 😀", usage=(65, 15, 40)),
    ("anthropic", "thinking"): Told("Hello", "Let me see.", usage=(25, 30, 0)),
    ("anthropic", "hidden thinking"): Told("Hello", usage=(25, 30, 0)),
    ("anthropic", "tools"): Told(
        "I'll check.",
        tools=(("toolu_01A", "get_weather", LOCATION), ("toolu_01B", "get_time", "{}")),
        finish="tool_calls",
        usage=(25, 89, 0),
    ),
    ("anthropic", "whole input at once"): Told(
        tools=(("toolu_01C", "get_weather", '{"location":"Paris"}'),), finish="tool_calls", usage=(25, 20, 0)
    ),
    ("anthropic", "length"): Told("Hel", finish="length", usage=(25, 1, 0)),
    ("anthropic", "refusal"): Told(finish="content_filter", usage=(25, 3, 0)),
    ("anthropic", "unknown events"): Told("Hello", usage=(25, 2, 0)),
    ("gemini", "text"): Told("Hello, wörld 😀", usage=(25, 15, 10)),
    ("gemini", "thinking"): Told("Hello", "**Seeing**\n\nLet me see.", usage=(8, 62, 0)),
    ("gemini", "tools"): Told(
        tools=(
            ("call_jQ3EaPfYGpu_0", "get_weather", '{"location":"San Francisco, CA"}'),
            ("call_jQ3EaPfYGpu_1", "get_time", "{}"),
        ),
        finish="tool_calls",
        usage=(80, 80, 0),
    ),
    ("gemini", "length"): Told("Hel", finish="length", usage=(8, 1, 0)),
    ("gemini", "withheld"): Told(finish="content_filter", usage=(8, 0, 0)),
    ("gemini", "blocked"): Told(finish="content_filter", usage=(8, 0, 0)),
}
FAILED: dict[tuple[str, str], State] = {
    ("openai", "breaks"): State.INTERRUPTED,
    ("openai", "cut"): State.INTERRUPTED,
    ("anthropic", "breaks"): State.INTERRUPTED,
    ("anthropic", "cut"): State.INTERRUPTED,
    ("anthropic", "breaks before content"): State.FAILED,
    ("anthropic", "nothing"): State.FAILED,
    ("gemini", "breaks"): State.INTERRUPTED,
    ("gemini", "cut"): State.INTERRUPTED,
    ("gemini", "breaks before content"): State.FAILED,
    ("gemini", "nothing"): State.FAILED,
}


def test_every_recorded_stream_is_expected_something_of() -> None:
    assert {*TOLD, *FAILED} == set(cases())
    assert set(RECORDED) == set(DIALECTS)


def finish_of(client: ClientDialect, finish: str) -> str:
    match client:
        case ClientDialect.OPENAI_CHAT:
            return finish
        case ClientDialect.OPENAI_RESPONSES:
            return INCOMPLETE.get(finish, "completed")
        case _:
            return STOP_REASONS[finish]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("dialect", "name"), TOLD)
def test_every_client_hears_what_every_vendor_says(client: ClientDialect, dialect: str, name: str) -> None:
    expected, got = TOLD[dialect, name], whole(client, dialect, name)
    assert (got.state, got.relay.no_answer) == (State.SERVED, None)
    told = heard(client, got.events)
    # The Messages API has no word for a refusal but text, and shows a call without arguments by none.
    refusal_as_text = client is ClientDialect.ANTHROPIC_MESSAGES
    assert told.text == expected.text + (expected.refusal if refusal_as_text else "")
    assert told.refusal == ("" if refusal_as_text else expected.refusal)
    assert told.thinking == expected.thinking
    calls = [(call_id, name, arguments or "{}") for call_id, name, arguments in told.tools]
    assert calls == list(expected.tools)
    assert told.finish == finish_of(client, expected.finish)
    if expected.usage is not None:
        assert told.usage == expected.usage
    else:
        assert got.relay.usage is None
    assert got.relay.finish_reason == expected.finish


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("dialect", "name"), FAILED)
def test_a_stream_that_fails_says_so_to_the_relay(client: ClientDialect, dialect: str, name: str) -> None:
    got = whole(client, dialect, name)
    assert got.state is FAILED[dialect, name]
    assert got.relay.no_answer is not None
    assert bool(got.data) == (got.state is State.INTERRUPTED)


def test_a_vendor_error_inside_a_stream_keeps_its_words() -> None:
    for dialect, words in (("anthropic", "Overloaded"), ("gemini", "The model is overloaded. Please try again later.")):
        no_answer = whole(ClientDialect.OPENAI_CHAT, dialect, "breaks").relay.no_answer
        assert no_answer is not None
        assert no_answer.fault is not None
        assert no_answer.fault.message == words


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("dialect", "name"), cases())
def test_byte_by_byte_is_the_same_stream(client: ClientDialect, dialect: str, name: str) -> None:
    data, call = RECORDED[dialect][name], call_of(client)
    got = relayed(call, dialect, (data[place : place + 1] for place in range(len(data))))
    assert got.data == whole(client, dialect, name).data


def every_cut() -> Iterator[object]:
    for client in CLIENTS:
        for dialect, name in cases():
            marks = [] if name == "tools" else [pytest.mark.full]
            yield pytest.param(dialect, name, client, marks=marks, id=f"{dialect}, {name}, {client.value}")


@pytest.mark.parametrize(("dialect", "name", "client"), list(every_cut()))
def test_a_cut_at_any_byte_changes_nothing(dialect: str, name: str, client: ClientDialect) -> None:
    data, call = RECORDED[dialect][name], call_of(client)
    expected = whole(client, dialect, name).data
    for place in range(len(data)):
        assert relayed(call, dialect, [data[:place], data[place:]]).data == expected


# The same stream as other servers would write it.
FORMS: Mapping[str, Callable[[bytes], bytes]] = MappingProxyType(
    {
        "ends of lines are CR": lambda data: data.replace(b"\n", b"\r"),
        "ends of lines are CRLF": lambda data: data.replace(b"\n", b"\r\n"),
        "a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
        "comments": lambda data: b": hello\n\n" + data.replace(b"data: ", b": noise\n:\ndata: "),
        "ids and waits": lambda data: data.replace(b"data: ", b"id: 7\nretry: 10\ndata: "),
        "no blank after the colon": lambda data: data.replace(b"data: ", b"data:"),
        "several lines of data": lambda data: data.replace(b',"', b',\ndata: "'),
        "no blank line at the end": lambda data: data.removesuffix(b"\n"),
        "no end of the last line": lambda data: data.removesuffix(b"\n\n"),
    }
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_the_form_of_a_stream_changes_nothing(dialect: str, client: ClientDialect, form: str) -> None:
    call = call_of(client)
    for name, data in RECORDED[dialect].items():
        expected, written = whole(client, dialect, name), FORMS[form](data)
        for pieces in ([written], [written[place : place + 1] for place in range(len(written))]):
            got = relayed(call, dialect, pieces)
            assert (got.state, got.events) == (expected.state, expected.events), name
            if form != "several lines of data":
                assert got.data == expected.data, name


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(CLIENTS),
    st.sampled_from(sorted(DIALECTS)),
    st.lists(
        st.binary(max_size=30)
        | st.sampled_from(
            [
                event + b"\n\n"
                for streams in RECORDED.values()
                for data in streams.values()
                for event in data.split(b"\n\n")
            ]
        ),
        max_size=10,
    ),
)
def test_no_bytes_make_it_fall_over(client: ClientDialect, dialect: str, pieces: list[bytes]) -> None:
    got = relayed(call_of(client), dialect, pieces)
    assert got.state not in OPEN
    assert (got.state is State.SERVED) == (got.relay.no_answer is None)
    assert bool(got.data) <= (got.state in COMMITTED)


# Wrong in one field each: what a careless proxy in between makes of a stream.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "text", "id"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_field_of_any_kind_makes_it_not_fall_over(data: st.DataObject) -> None:
    dialect, name = data.draw(st.sampled_from(sorted(cases())))
    events = [event for event in RECORDED[dialect][name].split(b"\n\n") if b"{" in event]
    place = data.draw(st.integers(0, len(events) - 1))
    head, _, payload = events[place].partition(b"data: ")
    changed = orjson.loads(payload)
    node = changed
    while True:
        keys = list(range(len(node))) if isinstance(node, list) else sorted(node)
        key = data.draw(st.sampled_from(keys))
        if isinstance(node[key], dict | list) and node[key] and data.draw(st.booleans()):
            node = node[key]
            continue
        node[key] = data.draw(JSON)
        break
    events[place] = head + b"data: " + orjson.dumps(changed)
    for client in CLIENTS:
        got = relayed(call_of(client), dialect, [b"\n\n".join(events) + b"\n\n"])
        assert got.state not in OPEN


def test_a_client_of_the_vendors_dialect_gets_the_vendors_own_events() -> None:
    got = whole(ClientDialect.ANTHROPIC_MESSAGES, "anthropic", "unknown events")
    assert got.data == RECORDED["anthropic"]["unknown events"]
    got = whole(ClientDialect.ANTHROPIC_MESSAGES, "anthropic", "thinking")
    assert got.data == RECORDED["anthropic"]["thinking"]


def test_events_without_names_get_them_and_what_is_no_event_stays_behind() -> None:
    whole_stream = RECORDED["anthropic"]["tools"]
    nameless = b"".join(line + b"\n" for line in whole_stream.split(b"\n")[:-1] if not line.startswith(b"event:"))
    noisy = nameless.replace(b"data: ", b": noise\n\ndata: [noise]\n\ndata: ", 3)
    got = relayed(call_of(ClientDialect.ANTHROPIC_MESSAGES), "anthropic", [noisy])
    assert (got.data, got.state) == (whole_stream, State.SERVED)


def test_what_the_vendors_own_tools_do_is_content_for_a_client_that_asked_for_them() -> None:
    search = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "server_tool_use", "name": "web_search"},
    }
    opening = named(message_start(), search)
    got = relayed(call_of(ClientDialect.ANTHROPIC_MESSAGES), "anthropic", [opening])
    assert got.data == opening


def test_a_stream_without_content_is_held_to_its_end() -> None:
    call = call_of(ClientDialect.ANTHROPIC_MESSAGES)
    got = relayed(call, "anthropic", [named(message_start(), block_delta(0, "text_delta", text=""))])
    assert (got.data, got.state) == (b"", State.FAILED)
    assert got.relay.no_answer is not None
    assert got.relay.no_answer.outcome_class is OutcomeClass.EMPTY


def test_pieces_of_any_size_make_the_same_stream() -> None:
    data, call = RECORDED["anthropic"]["text"], call_of(ClientDialect.OPENAI_CHAT)
    for size in (2, 7, 64):
        places = [*range(0, len(data), size), len(data)]
        got = relayed(call, "anthropic", [data[a:b] for a, b in pairwise(places)])
        assert got.data == whole(ClientDialect.OPENAI_CHAT, "anthropic", "text").data


def test_one_call_at_a_time_is_held_to_where_the_vendor_cannot_be_asked_for_it() -> None:
    got = whole(ClientDialect.OPENAI_CHAT, "gemini", "tools", {"parallel_tool_calls": False})
    told = heard(ClientDialect.OPENAI_CHAT, got.events)
    assert [name for _, name, _ in told.tools] == ["get_weather"]


def test_googles_signature_travels_with_its_call() -> None:
    got = whole(ClientDialect.OPENAI_CHAT, "gemini", "tools")
    calls = [
        call for event in got.events for choice in event["choices"] for call in choice["delta"].get("tool_calls", ())
    ]
    assert calls[0]["extra_content"] == {"google": {"thought_signature": "CiQBjz1rX7HQ"}}


def test_anthropics_signature_travels_with_its_reasoning() -> None:
    got = whole(ClientDialect.OPENAI_CHAT, "anthropic", "thinking")
    details = [d for event in got.events for c in event["choices"] for d in c["delta"].get("reasoning_details", ())]
    assert [(d["text"], d["signature"]) for d in details] == [("Let me see.", "EqQBCgIYAhIM1gbcDa9GJwZA")]
