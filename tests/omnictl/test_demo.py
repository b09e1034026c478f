"""The demo providers, asked by the real OpenAI client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from omnictl.demo import answers, catalog, server
from omnictl.demo.catalog import Fault

HELLO: list[ChatCompletionMessageParam] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is a lighthouse?"},
]
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"enum": ["C", "F"]}},
        },
    },
}


@asynccontextmanager
async def demo() -> AsyncIterator[dict[str, int]]:
    """The port of each demo provider."""
    stop, started = asyncio.Event(), asyncio.Queue[list[int]]()
    task = asyncio.create_task(server.serve((0,) * len(catalog.PROVIDERS), stop, started.put_nowait))
    ports = await asyncio.wait_for(started.get(), 10)
    try:
        yield dict(zip((provider.id for provider in catalog.PROVIDERS), ports, strict=True))
    finally:
        stop.set()
        await asyncio.wait_for(task, 10)


@asynccontextmanager
async def client(provider: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with (
        demo() as ports,
        openai.AsyncOpenAI(api_key="none", base_url=f"http://127.0.0.1:{ports[provider]}/v1", max_retries=0) as asked,
    ):
        yield asked


@pytest.mark.parametrize("provider", ["demo-fast", "demo-cheap", "demo-flaky"])
async def test_an_answer_is_labelled_and_echoes_the_prompt(provider: str) -> None:
    async with client(provider) as asked:
        answer = await asked.chat.completions.create(model=f"{provider}-1", messages=HELLO)
    text = answer.choices[0].message.content or ""
    assert text.startswith(f"[simulated answer from {provider}]")
    assert "What is a lighthouse?" in text
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 10


async def test_a_stream_says_the_same_and_tells_the_usage_when_asked() -> None:
    async with client("demo-fast") as asked:
        whole = await asked.chat.completions.create(model="demo-fast-1", messages=HELLO)
        chunks = [
            chunk
            async for chunk in await asked.chat.completions.create(
                model="demo-fast-1", messages=HELLO, stream=True, stream_options={"include_usage": True}
            )
        ]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert len(chunks) > 10
    assert chunks[-1].usage == whole.usage
    assert chunks[-2].choices[0].finish_reason == "stop"


async def test_a_stream_without_the_wish_has_no_usage() -> None:
    async with client("demo-fast") as asked:
        stream = await asked.chat.completions.create(model="demo-fast-1", messages=HELLO, stream=True)
        assert all([chunk.choices and chunk.usage is None async for chunk in stream])


async def test_the_stream_is_paced() -> None:
    loop = asyncio.get_running_loop()
    async with client("demo-cheap") as asked:
        started = loop.time()
        stream = await asked.chat.completions.create(model="demo-cheap-1", messages=HELLO, stream=True)
        await anext(aiter(stream))
        assert 0.3 < loop.time() - started < 5
        await stream.close()


async def test_the_output_limit_is_kept() -> None:
    async with client("demo-fast") as asked:
        answer = await asked.chat.completions.create(model="demo-fast-1", messages=HELLO, max_tokens=5)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 5


@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_is_called_when_the_request_insists(stream: bool) -> None:
    wish: Any = {
        "model": "demo-fast-1",
        "messages": HELLO,
        "tools": [TOOL],
        "tool_choice": "required",
        "stream": stream,
    }
    async with client("demo-fast") as asked:
        answer = await asked.chat.completions.create(**wish)
        if stream:
            deltas = [chunk.choices[0] async for chunk in answer]
            (call,) = [one for choice in deltas for one in choice.delta.tool_calls or ()]
            assert deltas[-1].finish_reason == "tool_calls"
        else:
            (call,) = list(answer.choices[0].message.tool_calls or ())
            assert answer.choices[0].finish_reason == "tool_calls"
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments) == {"city": "simulated", "days": 1, "unit": "C"}


async def test_a_json_schema_is_followed() -> None:
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}, "list": {"type": "array"}, "none": {"type": "null"}},
    }
    wish: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    async with client("demo-fast") as asked:
        answer = await asked.chat.completions.create(model="demo-fast-1", messages=HELLO, response_format=wish)
    assert json.loads(answer.choices[0].message.content or "") == {"ok": True, "list": ["simulated"], "none": None}


async def test_models_are_listed() -> None:
    async with client("demo-cheap") as asked:
        assert [model.id async for model in asked.models.list()] == ["demo-cheap-1"]


async def test_an_unknown_model_and_a_bad_body_are_refused() -> None:
    async with client("demo-fast") as asked:
        with pytest.raises(openai.NotFoundError, match="model 'gpt-x' is not served here"):
            await asked.chat.completions.create(model="gpt-x", messages=HELLO)
        with pytest.raises(openai.BadRequestError, match="messages: a list of at least one object"):
            await asked.chat.completions.create(model="demo-fast-1", messages=[])


async def test_the_flaky_one_fails_in_its_first_requests_and_always_the_same_way() -> None:
    async def outcomes() -> list[str]:
        seen = []
        async with client("demo-flaky") as asked:
            for _ in range(8):
                try:
                    await asked.chat.completions.create(model="demo-flaky-1", messages=HELLO, max_tokens=1)
                    seen.append("answer")
                except openai.RateLimitError as error:
                    seen.append(f"429 after {error.response.headers['retry-after']} s")
                except openai.APIStatusError as error:
                    seen.append(str(error.status_code))
                except openai.APIConnectionError:
                    seen.append("closed")
        return seen

    first = await outcomes()
    assert first == ["answer", "500", "answer", "429 after 15 s", "answer", "answer", "closed", "answer"]


def test_another_seed_starts_elsewhere_in_the_script() -> None:
    flaky = catalog.PROVIDERS[2]
    assert [flaky.fault(n) for n in range(4)] == [None, Fault.SERVER_ERROR, None, Fault.RATE_LIMITED]
    assert [flaky.fault(n, seed=1) for n in range(3)] == [Fault.SERVER_ERROR, None, Fault.RATE_LIMITED]


def test_the_flaky_one_is_the_cheapest_and_the_fast_one_the_dearest() -> None:
    price = {provider.id: provider.models[0].input_price for provider in catalog.PROVIDERS}
    assert price["demo-flaky"] < price["demo-cheap"] < price["demo-fast"]


def test_the_decision_service_is_told_of_them() -> None:
    told = json.loads(catalog.describe((1, 2, 3)))
    assert [(one["id"], one["base_url"], one["class"]) for one in told] == [
        ("demo-fast", "http://127.0.0.1:1/v1", "local"),
        ("demo-cheap", "http://127.0.0.1:2/v1", "local"),
        ("demo-flaky", "http://127.0.0.1:3/v1", "local"),
    ]
    assert told[0]["models"] == [
        {
            "id": "demo-fast-1",
            "input_price": 3.0,
            "output_price": 12.0,
            "context_window": 200_000,
            "max_output_tokens": 16_384,
            "capabilities": ["tools", "vision", "structured_output", "-embeddings"],
        }
    ]


@pytest.mark.parametrize("body", [None, [], "x", {}, {"messages": "x"}, {"messages": [1]}, {"messages": None}])
def test_a_body_of_another_shape_is_refused(body: Any) -> None:
    with pytest.raises(answers.BadBodyError):
        answers.answer("demo-fast", body)


@pytest.mark.parametrize(
    "odd",
    [
        {"tools": "x"},
        {"tools": [1, {"function": 2}], "tool_choice": "required"},
        {"tool_choice": {"function": 3}},
        {"response_format": "json"},
        {"response_format": {"type": "json_schema", "json_schema": 4}},
        {"max_tokens": "many"},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": 5}, 6]}]},
    ],
)
def test_odd_fields_do_no_harm(odd: dict[str, Any]) -> None:
    assert answers.answer("demo-fast", {"messages": [{"role": "user", "content": "x"}], **odd}).text


def test_parts_are_read_and_counted() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    content = [{"type": "text", "text": "one "}, image, {"type": "text", "text": "two"}]
    text = answers.answer("demo-fast", {"messages": [{"role": "user", "content": content}], "tools": [TOOL]}).text
    assert '"one two"' in text
    assert "1 images, 1 tools offered" in text


async def test_a_client_that_leaves_does_not_hold_up_the_stop() -> None:
    async with client("demo-cheap") as asked:
        stream = await asked.chat.completions.create(model="demo-cheap-1", messages=HELLO, stream=True)
        await anext(aiter(stream))
        with suppress(openai.APIError):
            await stream.close()
