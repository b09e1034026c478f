"""The vendors' own clients read what the executor sends for their dialects."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest

from executor.model import ClientDialect
from tests.executor.conftest import Answer, House
from tests.executor.dialects.recorded import RECORDED, WHOLE
from tests.executor.dialects.test_served import asked, speaking
from tests.executor.upstream import Script, answer, error_body, stream

RESPONSES, MESSAGES = ClientDialect.OPENAI_RESPONSES, ClientDialect.ANTHROPIC_MESSAGES
HI: Any = [{"role": "user", "content": "hi"}]


async def serving(house: House, got: Answer) -> str:
    """The address of a server that says exactly what the executor said."""
    streamed = got.headers["content-type"].startswith("text/event-stream")
    script = stream(got.data) if streamed else answer(got.head.status, got.data, got.headers)
    return (await house.upstream(script)).url


async def executed(house: House, client: ClientDialect, dialect: str, script: Script, **body: Any) -> str:
    upstream = await house.upstream(script)
    return await serving(house, await asked(house, client, [speaking(upstream, dialect)], body))


def responses(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0, timeout=5)


def messages(url: str) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=url, api_key="k", max_retries=0, timeout=5)


@pytest.mark.parametrize("dialect", RECORDED)
async def test_a_response_as_a_stream(house: House, dialect: str) -> None:
    url = await executed(house, RESPONSES, dialect, stream(RECORDED[dialect]["text"]), stream=True)
    async with responses(url) as client, client.responses.stream(model="m", input="hi") as events:
        kinds = [event.type async for event in events]
        final = await events.get_final_response()
    assert final.output_text == "Hello, wörld 😀"
    assert (kinds[0], kinds[-1], final.status) == ("response.created", "response.completed", "completed")
    assert final.usage is not None
    assert final.usage.output_tokens == 15


@pytest.mark.parametrize("dialect", RECORDED)
async def test_a_response_with_calls(house: House, dialect: str) -> None:
    url = await executed(house, RESPONSES, dialect, stream(RECORDED[dialect]["tools"]), stream=True)
    async with responses(url) as client:
        events = [event async for event in await client.responses.create(model="m", input="hi", stream=True)]
    last = events[-1]
    assert last.type == "response.completed"
    calls = [item for item in last.response.output if item.type == "function_call"]
    assert [call.name for call in calls] == ["get_weather", "get_time"]
    assert "San Francisco" in calls[0].arguments


@pytest.mark.parametrize("dialect", WHOLE)
async def test_a_whole_response(house: House, dialect: str) -> None:
    url = await executed(house, RESPONSES, dialect, answer(200, WHOLE[dialect]))
    async with responses(url) as client:
        response = await client.responses.create(model="m", input="hi")
    assert response.output_text == "I'll check."
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call"]


async def test_a_response_that_breaks(house: House) -> None:
    url = await executed(house, RESPONSES, "anthropic", stream(RECORDED["anthropic"]["breaks"]), stream=True)
    async with responses(url) as client:
        events = [event async for event in await client.responses.create(model="m", input="hi", stream=True)]
    last = events[-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert last.response.error.message == "Overloaded"


async def test_a_response_that_nobody_gives(house: House) -> None:
    url = await executed(house, RESPONSES, "openai", answer(429, error_body("slow down"), {"retry-after": "9"}))
    async with responses(url) as client:
        with pytest.raises(openai.RateLimitError) as raised:
            await client.responses.create(model="m", input="hi")
    assert "slow down" in raised.value.message


@pytest.mark.parametrize("dialect", RECORDED)
async def test_a_message_as_a_stream(house: House, dialect: str) -> None:
    url = await executed(house, MESSAGES, dialect, stream(RECORDED[dialect]["thinking"]), stream=True)
    async with messages(url) as client, client.messages.stream(model="m", max_tokens=9, messages=HI) as events:
        text = "".join([piece async for piece in events.text_stream])
        final = await events.get_final_message()
    thinking, said = final.content
    assert (text, said.type, thinking.type) == ("Hello", "text", "thinking")
    assert (final.stop_reason, final.usage.output_tokens > 20, final.usage.input_tokens > 0) == ("end_turn", True, True)


@pytest.mark.parametrize("dialect", RECORDED)
async def test_a_message_with_calls(house: House, dialect: str) -> None:
    url = await executed(house, MESSAGES, dialect, stream(RECORDED[dialect]["tools"]), stream=True)
    async with messages(url) as client, client.messages.stream(model="m", max_tokens=9, messages=HI) as events:
        final = await events.get_final_message()
    calls = [(block.name, block.input) for block in final.content if block.type == "tool_use"]
    assert calls == [("get_weather", {"location": "San Francisco, CA"}), ("get_time", {})]
    assert final.stop_reason == "tool_use"


@pytest.mark.parametrize("dialect", WHOLE)
async def test_a_whole_message(house: House, dialect: str) -> None:
    url = await executed(house, MESSAGES, dialect, answer(200, WHOLE[dialect]))
    async with messages(url) as client:
        message = await client.messages.create(model="m", max_tokens=9, messages=HI)
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    assert (message.usage.output_tokens, message.usage.cache_read_input_tokens) == (89, 40)


@pytest.mark.parametrize("dialect", RECORDED)
async def test_a_message_that_breaks(house: House, dialect: str) -> None:
    url = await executed(house, MESSAGES, dialect, stream(RECORDED[dialect]["breaks"]), stream=True)
    async with messages(url) as client:
        events = await client.messages.create(model="m", max_tokens=9, messages=HI, stream=True)
        texts: list[str] = []
        with pytest.raises(anthropic.APIStatusError) as raised:
            await collect(events, texts)
    assert "".join(texts) == "Hel"
    assert isinstance(raised.value.body, dict)
    assert raised.value.body["error"]["type"] in ("overloaded_error", "api_error")


async def collect(events: Any, texts: list[str]) -> None:
    async for event in events:
        if event.type == "content_block_delta":
            texts += [event.delta.text]


ANTHROPIC_ERRORS = {
    429: (anthropic.RateLimitError, "rate_limit_error"),
    404: (anthropic.NotFoundError, "not_found_error"),
    400: (anthropic.BadRequestError, "invalid_request_error"),
    500: (anthropic.InternalServerError, "api_error"),
}


@pytest.mark.parametrize("status", ANTHROPIC_ERRORS)
async def test_a_message_that_nobody_gives(house: House, status: int) -> None:
    kind, name = ANTHROPIC_ERRORS[status]
    url = await executed(house, MESSAGES, "openai", answer(status, error_body("no such luck")))
    async with messages(url) as client:
        with pytest.raises(kind) as raised:
            await client.messages.create(model="m", max_tokens=9, messages=HI)
    assert isinstance(raised.value.body, dict)
    assert (raised.value.body["type"], raised.value.body["error"]["type"]) == ("error", name)
    assert "no such luck" in raised.value.body["error"]["message"]
    assert raised.value.body["error"]["attempts"][0]["model"] == "gpt-4.1"
