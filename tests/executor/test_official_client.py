"""The official client reads what the executor sends: errors, streams, broken streams."""

from __future__ import annotations

import openai
import pytest

from tests.executor.conftest import Answer, House
from tests.executor.upstream import (
    GOOD_STREAM,
    ROLE,
    Upstream,
    answer,
    completion,
    delta,
    error_body,
    event,
    stream,
)


async def served(house: House, got: Answer) -> openai.AsyncOpenAI:
    """A client whose server says exactly what the executor said."""
    streamed = got.headers["content-type"].startswith("text/event-stream")
    script = stream(got.data) if streamed else answer(got.head.status, got.data, got.headers)
    upstream: Upstream = await house.upstream(script)
    return openai.AsyncOpenAI(base_url=upstream.url, api_key="k", max_retries=0, timeout=5)


async def test_an_error_of_all_targets(house: House) -> None:
    got = await house.plain(answer(429, error_body("slow down"), {"retry-after": "9"}))
    async with await served(house, got) as client:
        with pytest.raises(openai.RateLimitError) as raised:
            await client.chat.completions.create(model="m", messages=[])
    assert raised.value.code == "rate_limit_exceeded"
    assert raised.value.type == "rate_limit_error"
    assert "slow down" in raised.value.message
    assert raised.value.response.headers["retry-after"] == "9"


async def test_a_stream_with_usage(house: House) -> None:
    got = await house.stream(stream(*GOOD_STREAM), body={"stream_options": {"include_usage": True}})
    async with await served(house, got) as client:
        chunks = [chunk async for chunk in await client.chat.completions.create(model="m", messages=[], stream=True)]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Hello"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 20


async def test_a_stream_that_breaks(house: House) -> None:
    got = await house.stream(stream(ROLE, event(delta("Hel")), end="cut"))
    async with await served(house, got) as client:
        chunks = await client.chat.completions.create(model="m", messages=[], stream=True)
        text = "".join([(await anext(chunks)).choices[0].delta.content or "" for _ in range(2)])
        assert text == "Hel"
        with pytest.raises(openai.APIError) as raised:
            await anext(chunks)
    assert raised.value.code == "upstream_interrupted"
    assert "broke off" in raised.value.message or "closed" in raised.value.message


async def test_a_plain_answer_to_a_stream_with_tools(house: House) -> None:
    calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ("a", "b")]
    got = await house.stream(answer(200, completion("", finish="tool_calls", tool_calls=calls)))
    async with await served(house, got) as client:
        chunks = [chunk async for chunk in await client.chat.completions.create(model="m", messages=[], stream=True)]
    seen = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    assert [(call.index, call.id) for call in seen] == [(0, "a"), (1, "b")]
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
