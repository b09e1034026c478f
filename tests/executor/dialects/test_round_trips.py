"""What goes out in a vendor's dialect and comes back from it is what it was."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from executor.clients import CLIENTS
from executor.dialects import DIALECTS, chat
from executor.dialects.frames import Answer
from executor.dialects.openai import ChunkReader
from executor.model import Call, ClientDialect, Target
from executor.relay import Relay, State
from tests.executor.dialects.streams import call_of, heard, payloads, relayed

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
SAYINGS = WORDS.map(str.strip).filter(bool)  # blanks are refused by Anthropic
NAMES = st.text("abcdefgh_", min_size=1, max_size=8)
ARGUMENTS = st.dictionaries(
    NAMES, st.none() | st.booleans() | st.integers(-9, 9) | WORDS | st.lists(WORDS, max_size=2), max_size=3
)
TARGET = Target("t", "p", "m", "c", "https://x/v1")


@st.composite
def tool_calls(draw: st.DrawFn, prefix: str) -> list[dict[str, Any]]:
    count = draw(st.integers(0, 3))
    return [
        {
            "id": f"{prefix}{place}",
            "type": "function",
            "function": {"name": draw(NAMES), "arguments": orjson.dumps(draw(ARGUMENTS)).decode()},
        }
        for place in range(count)
    ]


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Turns by turns, with the results of every call after it, as OpenAI's API wants them."""
    told = [{"role": "system", "content": draw(SAYINGS)}] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(1, 4))):
        told.append({"role": "user", "content": draw(SAYINGS)})
        calls = draw(tool_calls(f"call{turn}_"))
        assistant: dict[str, Any] = {"role": "assistant", "content": draw(SAYINGS)}
        if calls:
            assistant["tool_calls"] = calls
        told.append(assistant)
        told += [{"role": "tool", "tool_call_id": call["id"], "content": draw(SAYINGS)} for call in calls]
    return told


@settings(max_examples=60, deadline=None)
@given(conversations())
def test_a_conversation_comes_back_from_the_messages_api(told: list[dict[str, Any]]) -> None:
    tools = sorted({call["function"]["name"] for message in told for call in message.get("tool_calls", ())})
    body = {"messages": told, "tools": [{"type": "function", "function": {"name": name}} for name in tools]}
    sent = orjson.loads(DIALECTS["anthropic"].prepare(Call("d", body), TARGET).body)
    read = CLIENTS[ClientDialect.ANTHROPIC_MESSAGES].read(sent)
    assert read is not None
    assert read.chat["messages"] == told
    assert [tool["function"]["name"] for tool in read.chat.get("tools", ())] == tools


@settings(max_examples=60, deadline=None)
@given(conversations())
def test_a_conversation_reaches_google_whole(told: list[dict[str, Any]]) -> None:
    sent = orjson.loads(DIALECTS["gemini"].prepare(Call("d", {"messages": told}), TARGET).body)
    parts = [part for content in sent["contents"] for part in content["parts"]]
    calls = [(part["functionCall"]["name"], part["functionCall"]["args"]) for part in parts if "functionCall" in part]
    functions = [call["function"] for message in told for call in message.get("tool_calls", ())]
    assert calls == [(function["name"], orjson.loads(function["arguments"])) for function in functions]
    assert [part["text"] for part in parts if "text" in part] == [
        message["content"] for message in told if message["role"] in ("user", "assistant")
    ]
    assert sum("functionResponse" in part for part in parts) == len(calls)
    roles = [content["role"] for content in sent["contents"]]
    assert all(first != second for first, second in pairwise(roles))


@st.composite
def completions(draw: st.DrawFn) -> dict[str, Any]:
    calls = draw(tool_calls("call_"))
    content = draw(WORDS) if not calls else draw(st.none() | WORDS)
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if draw(st.booleans()):
        message["reasoning_content"] = draw(WORDS)
    if calls:
        message["tool_calls"] = calls
    cached = draw(st.integers(0, 50))
    usage = {
        "prompt_tokens": cached + draw(st.integers(1, 50)),
        "completion_tokens": draw(st.integers(1, 50)),
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    finish = "tool_calls" if calls else draw(st.sampled_from(["stop", "length"]))
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion", "created": 7, "model": "m", "choices": [choice], "usage": usage}


def read_whole(dialect: str, payload: dict[str, Any] | bytes) -> Answer:
    data = payload if isinstance(payload, bytes) else orjson.dumps(payload)
    answer = DIALECTS[dialect].read_answer(Call("d", {}), data)
    assert isinstance(answer, Answer)
    return answer


def essence(body: bytes) -> tuple[Any, ...]:
    choice = orjson.loads(body)["choices"][0]
    message = choice["message"]
    calls = [
        (call["id"], call["function"]["name"], orjson.loads(call["function"]["arguments"]))
        for call in message.get("tool_calls") or ()
    ]
    return message["content"], message.get("reasoning_content"), calls, choice["finish_reason"]


@settings(max_examples=100, deadline=None)
@given(completions())
def test_an_answer_comes_back_from_the_messages_api(completion: dict[str, Any]) -> None:
    inner = read_whole("openai", completion)
    call = call_of(ClientDialect.ANTHROPIC_MESSAGES)
    back = read_whole("anthropic", CLIENTS[call.client].answer(call, inner))
    assert essence(back.body) == essence(inner.body)
    assert (back.usage, back.finish_reason) == (inner.usage, inner.finish_reason)


@settings(max_examples=100, deadline=None)
@given(completions())
def test_a_stream_comes_back_from_the_messages_api(completion: dict[str, Any]) -> None:
    """The executor is a vendor of this dialect to another executor."""
    inner = read_whole("openai", completion)
    out = relayed(call_of(ClientDialect.ANTHROPIC_MESSAGES), "openai", [chat.as_events(inner.body)])
    back = relayed(call_of(ClientDialect.OPENAI_CHAT), "anthropic", [out.data])
    assert back.state is State.SERVED
    told, expected = heard(ClientDialect.OPENAI_CHAT, back.events), essence(inner.body)
    calls = [(call_id, name, orjson.loads(arguments)) for call_id, name, arguments in told.tools]
    assert (told.text, told.thinking, calls, told.finish) == (expected[0] or "", expected[1] or "", *expected[2:])
    assert back.relay.usage == inner.usage


@settings(max_examples=100, deadline=None)
@given(completions(), st.sampled_from(list(ClientDialect)))
def test_a_whole_answer_says_what_its_stream_says(completion: dict[str, Any], client: ClientDialect) -> None:
    inner, call = read_whole("openai", completion), call_of(client)
    assert inner.usage is not None
    relay = Relay(ChunkReader(), CLIENTS[client].writer(call, as_it_is=False), 1 << 20)
    data = relay.feed(chat.as_events(inner.body)) + relay.tail(inner.usage, 0.0)
    told, whole = heard(client, payloads(data)), orjson.loads(CLIENTS[client].answer(call, inner))
    match client:
        case ClientDialect.OPENAI_CHAT:
            assert told.text == (whole["choices"][0]["message"]["content"] or "")
        case ClientDialect.OPENAI_RESPONSES:
            assert whole == payloads(data)[-1]["response"]
        case ClientDialect.ANTHROPIC_MESSAGES:
            assert whole["stop_reason"] == told.finish
            texts = [block["text"] for block in whole["content"] if block["type"] == "text"]
            assert "".join(texts) == told.text
            calls = [[b["id"], b["name"], b["input"]] for b in whole["content"] if b["type"] == "tool_use"]
            assert calls == [[i, n, orjson.loads(a)] for i, n, a in told.tools]
    assert told.usage == (inner.usage.input, inner.usage.output, inner.usage.cached)


PIECES = st.lists(st.integers(1, 6), min_size=1, max_size=6)


@settings(max_examples=80, deadline=None)
@given(st.lists(ARGUMENTS, min_size=1, max_size=3), st.data())
def test_calls_that_come_beside_each_other_are_told_one_after_the_other(
    calls: list[dict[str, Any]], data: st.DataObject
) -> None:
    """However an upstream mixes the pieces of its calls, the Messages API has whole blocks in order."""
    left = {place: orjson.dumps(arguments).decode() for place, arguments in enumerate(calls)}
    whole, events, opened = dict(left), [], 0
    while any(left.values()) or opened < len(calls):
        open_places = [place for place in range(opened) if left[place]]
        if opened < len(calls) and (not open_places or data.draw(st.booleans())):
            delta = {
                "index": opened,
                "id": f"c{opened}",
                "type": "function",
                "function": {"name": "f", "arguments": ""},
            }
            opened += 1
        else:
            place = data.draw(st.sampled_from(open_places))
            size = data.draw(st.integers(1, 9))
            delta = {"index": place, "function": {"arguments": left[place][:size]}}
            left[place] = left[place][size:]
        events.append({"choices": [{"index": 0, "delta": {"tool_calls": [delta]}, "finish_reason": None}]})
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    stream = b"".join(b"data: %s\n\n" % orjson.dumps(event) for event in events) + b"data: [DONE]\n\n"
    for client in ClientDialect:
        told = heard(client, relayed(call_of(client), "openai", [stream]).events)
        assert {call_id: arguments for call_id, _, arguments in told.tools} == {
            f"c{n}": text for n, text in whole.items()
        }


def test_usage_of_an_answer_that_told_none_is_estimated_in_every_dialect() -> None:
    for client in (ClientDialect.OPENAI_RESPONSES, ClientDialect.ANTHROPIC_MESSAGES):
        call = call_of(client)
        answer = Answer(
            orjson.dumps({"id": "c", "choices": [{"message": {"content": "x" * 40}, "finish_reason": "stop"}]}),
            None,
            "stop",
            40,
        )
        usage = orjson.loads(CLIENTS[client].answer(call, answer))["usage"]
        assert usage["output_tokens"] == 10
