"""OpenAI's own client against the whole."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest

from omniroute.decision.v1 import decision_pb2
from tests.e2e.stack import Stack
from tests.executor.upstream import answer, error_body

pytestmark = pytest.mark.asyncio(loop_scope="module")
MESSAGES: Any = [{"role": "user", "content": "Say hello"}]


async def test_a_plain_answer(stack: Stack) -> None:
    ant = await stack.provider("ant", input_price=1.0, output_price=2.0)
    raw = await stack.openai().chat.completions.with_raw_response.create(model=ant.model, messages=MESSAGES)
    completion = raw.parse()
    assert completion.choices[0].message.content == "Hello"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage is not None
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (10, 5)
    told = {name: raw.headers[f"x-omniroute-{name}"] for name in ("provider", "model", "connection", "attempts")}
    assert told == {"provider": ant.name, "model": f"{ant.name}-model", "connection": ant.connection, "attempts": "1"}
    assert float(raw.headers["x-omniroute-cost-usd"]) == pytest.approx((10 * 1.0 + 5 * 2.0) / 1e6)
    assert raw.headers["x-request-id"]
    assert await stack.settled(raw.headers["x-omniroute-decision-id"]) == ["SUCCESS"]
    [received] = ant.upstream.requests
    assert received.body["model"] == f"{ant.name}-model"
    assert received.body["messages"] == MESSAGES


async def test_a_stream(stack: Stack) -> None:
    ant = await stack.provider("ant", input_price=1.0, output_price=2.0)
    call = await stack.openai().chat.completions.create(
        model=ant.model, messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in call]
    assert "".join(c.delta.content or "" for chunk in chunks for c in chunk.choices) == "Hello"
    assert [c.finish_reason for chunk in chunks for c in chunk.choices if c.finish_reason] == ["stop"]
    usage = chunks[-1].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (100, 20)
    assert all(chunk.usage is None for chunk in chunks[:-1])
    [decision_id] = [
        r.decision.decision_id for r in await recent(stack) if r.decision.plan.targets[0].provider == ant.name
    ]
    assert await stack.settled(decision_id) == ["SUCCESS"]


async def recent(stack: Stack) -> Any:
    return (await stack.client.decisions.ListDecisions(decision_pb2.ListDecisionsRequest())).records


async def test_the_synchronous_client(stack: Stack) -> None:
    ant = await stack.provider("ant")
    client = openai.OpenAI(base_url=f"{stack.url}/v1", api_key="any", max_retries=0, timeout=20)

    def both() -> tuple[str | None, str]:
        plain = client.chat.completions.create(model=ant.model, messages=MESSAGES)
        call = client.chat.completions.create(model=ant.model, messages=MESSAGES, stream=True)
        streamed = "".join(c.delta.content or "" for chunk in call for c in chunk.choices)
        return plain.choices[0].message.content, streamed

    assert await asyncio.to_thread(both) == ("Hello", "Hello")


async def test_models_are_listed_and_found_by_their_ids(stack: Stack) -> None:
    ant = await stack.provider("ant", context_window=12_345)
    combo = await stack.combo(ant)
    client = stack.openai()
    listed = {model.id: model async for model in client.models.list()}
    assert {"auto", "auto/coding", "auto/best-fast", combo, ant.model} <= listed.keys()
    assert listed[ant.model].owned_by == ant.name
    for name in ("auto", "auto/coding", combo, ant.model):
        assert (await client.models.retrieve(name)).id == name
    assert (await client.models.retrieve(ant.model)).model_dump()["context_length"] == 12_345
    with pytest.raises(openai.NotFoundError) as refused:
        await client.models.retrieve(f"{ant.name}/nothing")
    assert refused.value.code == "model_not_found"


async def test_auto_finds_somebody(stack: Stack) -> None:
    await stack.provider("ant")
    for model in ("auto", "auto/fast", "auto/coding:cheap", "auto/best-chat"):
        completion = await stack.openai().chat.completions.create(model=model, messages=MESSAGES)
        assert completion.choices[0].message.content == "Hello"


async def test_an_estimate_that_may_be_too_high_takes_no_model_from_the_request(stack: Stack) -> None:
    """By the estimate it does not fit, by its lower bound it may: the first model is asked, and knows."""
    full = error_body("This model's maximum context length is 600 tokens.", code="context_length_exceeded")
    small, large = await stack.provider("small", answer(400, full), context_window=600), await stack.provider("large")
    combo = await stack.combo(small, large)
    messages: Any = [{"role": "user", "content": "Please mend it. " * 160}]
    raw = await stack.openai().chat.completions.with_raw_response.create(model=combo, messages=messages)
    assert raw.headers["x-omniroute-provider"] == large.name
    classes = await stack.settled(raw.headers["x-omniroute-decision-id"])
    assert classes == ["CONTEXT_TOO_LONG", "SUCCESS"]


async def test_refusals_are_the_errors_that_the_client_knows(stack: Stack) -> None:
    small = await stack.provider("small", context_window=100)
    client = stack.openai()
    with pytest.raises(openai.NotFoundError) as unknown:
        await client.chat.completions.create(model="nobody/nothing", messages=MESSAGES)
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as too_long:
        await client.chat.completions.create(model=small.model, messages=[{"role": "user", "content": "word " * 500}])
    assert too_long.value.code == "context_length_exceeded"
    empty: Any = []
    with pytest.raises(openai.BadRequestError) as wrong:
        await client.chat.completions.create(model=small.model, messages=empty)
    assert wrong.value.param == "messages"
