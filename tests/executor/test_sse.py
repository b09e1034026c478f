"""The parser: any cut of any line ends gives the same events."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.sse import Event, EventParser, EventTooLarge

CASES: dict[str, tuple[bytes, list[Event]]] = {
    "one event": (b"data: a\n\n", [Event(b"a")]),
    "no blank": (b"data:a\n\n", [Event(b"a")]),
    "one blank only is taken": (b"data:  a \n\n", [Event(b" a ")]),
    "CR": (b"data: a\r\rdata: b\r\r", [Event(b"a"), Event(b"b")]),
    "CRLF": (b"data: a\r\n\r\ndata: b\r\n\r\n", [Event(b"a"), Event(b"b")]),
    "mixed": (b"data: a\r\n\ndata: b\n\r\n", [Event(b"a"), Event(b"b")]),
    "many lines": (b"data: a\ndata\ndata: b\n\n", [Event(b"a\n\nb")]),
    "comments": (b": x\ndata: a\n:\n\n: y\n\n", [Event(b"a")]),
    "names": (b"event: error\nid: 1\nretry: 2\ndata: a\n\ndata: b\n\n", [Event(b"a", b"error"), Event(b"b")]),
    "no data": (b"event: ping\n\n", []),
    "empty data": (b"data:\n\n", [Event(b"")]),
    "byte order mark": (b"\xef\xbb\xbfdata: a\n\n", [Event(b"a")]),
    "last without a blank line": (b"data: a\n\ndata: b\n", [Event(b"a"), Event(b"b")]),
    "last without any line end": (b"data: a\n\ndata: b", [Event(b"a"), Event(b"b")]),
    "utf-8": ("data: añ€😀\n\n".encode(), [Event("añ€😀".encode())]),
    "broken utf-8": (b"data: \xff\xfe\n\n", [Event(b"\xff\xfe")]),
}


def parsed(pieces: list[bytes]) -> list[Event]:
    parser = EventParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + parser.close()


@pytest.mark.parametrize("name", CASES)
def test_events(name: str) -> None:
    data, events = CASES[name]
    assert parsed([data]) == events
    for place in range(len(data) + 1):
        assert parsed([data[:place], data[place:]]) == events
    assert parsed([data[place : place + 1] for place in range(len(data))]) == events


lines = st.one_of(
    st.binary(max_size=12).map(lambda value: b"data: " + value.replace(b"\r", b"").replace(b"\n", b"")),
    st.sampled_from([b"", b"", b": comment", b"event: x", b"data", b"id: 1", b"odd line"]),
)


@given(st.lists(lines, max_size=20), st.sampled_from([b"\n", b"\r", b"\r\n"]), st.data())
def test_cuts_and_line_ends_change_nothing(content: list[bytes], end: bytes, data: st.DataObject) -> None:
    plain = b"".join(line + b"\n" for line in content)
    whole = b"".join(line + end for line in content)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    places = [0, *cuts, len(whole)]
    pieces = [whole[start:end] for start, end in pairwise(places)]
    assert parsed(pieces) == parsed([plain])


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 200, b"data: x\n" * 50])
def test_an_event_that_grows_over_the_limit_is_refused(piece: bytes) -> None:
    parser = EventParser(max_event_bytes=100)
    parser.feed(piece[:80])
    with pytest.raises(EventTooLarge):
        parser.feed(piece)


def test_small_events_never_count_towards_the_limit_together() -> None:
    parser = EventParser(max_event_bytes=100)
    assert sum(len(parser.feed(b"data: " + b"x" * 50 + b"\n\n")) for _ in range(100)) == 100
