"""Events that repeat what was read before pass without being read: nobody can tell, but by the time that it takes."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executor.clients.openai_chat import ChatWriter
from executor.dialects.openai import ChunkReader
from executor.model import Usage
from executor.refrain import MOST_LESSONS, Refrain
from executor.relay import Relay


def chunk(delta: dict[str, Any], **fields: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": fields.pop("finish_reason", None)}
    return orjson.dumps({"id": "c1", "object": "chat.completion.chunk", "choices": [choice], **fields})


def said(text: str, **fields: Any) -> bytes:
    return chunk({"content": text}, **fields)


def lessons(*events: bytes) -> Refrain:
    refrain = Refrain()
    for data in events:
        refrain.learn(data, orjson.loads(data))
    return refrain


def stream(*events: bytes) -> bytes:
    return b"".join(b"data: " + data + b"\n\n" for data in events)


def test_the_like_of_what_was_learnt_is_passed_up_to_what_is_not() -> None:
    alike = stream(said(" world"), said("!"), said(""), said("日本"))
    other = stream(said("x", usage={"prompt_tokens": 1}))
    assert lessons(said("hello")).run(alike + other) == (len(alike), 4, 9)
    assert lessons(said("hello")).run(other + alike) == (0, 0, 0)


@pytest.mark.parametrize(
    "other",
    [
        said("ä").replace("ä".encode(), b"\xe4"),
        said('"'),
        said("a\nb"),
        said("\\"),
        said("x", id="c2"),
        chunk({"content": "x", "role": "assistant"}),
        chunk({"reasoning_content": "x"}),
        said("x", finish_reason="stop"),
        said("x", error={"message": "no"}),
        b'{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a","b":"c"},"finish_reason":null}]}',
        b"[DONE]",
        b"",
    ],
)
def test_what_says_anything_else_is_read(other: bytes) -> None:
    assert lessons(said("hello")).run(stream(other)) == (0, 0, 0)


@pytest.mark.parametrize("last", [said("a", id="c2"), said('"'), chunk({"role": "assistant", "content": "a"})])
def test_only_the_last_event_that_was_read_is_repeated(last: bytes) -> None:
    assert lessons(said("hello"), last).run(stream(said("a"))) == (0, 0, 0)


def test_only_whole_events_are_passed() -> None:
    whole = stream(said("a"), said("b"))
    for cut in range(len(whole)):
        size, count, _ = lessons(said("hello")).run(whole[:cut])
        assert (size, count) == ((len(whole) // 2, 1) if cut >= len(whole) // 2 else (0, 0))


def test_a_stream_whose_events_all_differ_is_given_up() -> None:
    many = [said("x", obfuscation=str(number)) for number in range(20)]
    assert lessons(*many[: MOST_LESSONS - 1]).run(stream(many[MOST_LESSONS - 2])) != (0, 0, 0)
    assert lessons(*many).run(stream(many[-1])) == (0, 0, 0)


TEXTS = st.sampled_from(["hello", " ", "", "ä€😀", 'q"q', "back\\slash", "new\nline", '","x":"', "\x7f", "data: "])
EVENTS = st.one_of(
    st.builds(said, TEXTS),
    st.builds(said, TEXTS, id=st.sampled_from(["c1", "c2"])),
    st.builds(said, TEXTS, usage=st.sampled_from([None, {"prompt_tokens": 3, "completion_tokens": 4}])),
    st.builds(lambda text: chunk({"role": "assistant", "content": text}), TEXTS),
    st.builds(lambda text: chunk({"tool_calls": [{"index": 5, "function": {"arguments": text}}]}), TEXTS),
    st.builds(lambda text: chunk({}, finish_reason=text), st.sampled_from(["stop", "length"])),
    st.sampled_from([b"[DONE]", b'{"error":{"message":"broke"}}', b"{half"]),
)
PLAIN = st.builds(lambda text: stream(said(text)), st.sampled_from(["a", "and so on", ""]))
FRAMES = st.one_of(
    PLAIN,
    PLAIN,
    PLAIN,
    st.builds(lambda data: b"data: " + data + b"\n\n", EVENTS),
    st.builds(lambda data: b"data:" + data + b"\n\n", EVENTS),
    st.builds(lambda data: b"data: " + data + b"\r\n\r\n", EVENTS),
    st.builds(lambda data: b"event: message\ndata: " + data + b"\n\n", EVENTS),
    st.sampled_from([b": comment\n\n", b"\n", b"\r", b"retry: 5\n\n", b"data: \xff\n\n"]),
)


def relayed(pieces: list[bytes], *, learns: bool) -> tuple[Any, ...]:
    relay = Relay(ChunkReader("s"), ChatWriter(wants_usage=True), 10_000)
    if not learns:
        relay._refrain._lessons = MOST_LESSONS
    out = b""
    for piece in pieces:
        if relay.is_open:
            out += relay.feed(piece)
    progress = relay.progress if relay.is_open else 0  # nobody looks at it any more
    if relay.is_open:
        out += relay.close()
    tail = relay.tail(relay.usage or Usage(), 0.5)
    return out, tail, relay.state, relay.usage, relay.finish_reason, relay.characters, progress, relay.no_answer


@settings(max_examples=400, deadline=None)
@given(frames=st.lists(FRAMES, min_size=1, max_size=25), data=st.data())
def test_nobody_can_tell(frames: list[bytes], data: st.DataObject) -> None:
    whole = stream(said("first")) + b"".join(frames)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=12)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert relayed(pieces, learns=True) == relayed(pieces, learns=False)
