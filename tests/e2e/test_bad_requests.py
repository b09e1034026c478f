"""What cannot be meant: the right status, OpenAI's error shape, and nothing of the insides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import orjson
import pytest
import pytest_asyncio

from omniroute.registry.v1 import registry_pb2
from tests.e2e.stack import Answer, Provided, Stack, until

pytestmark = pytest.mark.asyncio(loop_scope="module")
MIB = 2**20


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ant(stack: Stack) -> Provided:
    return await stack.provider("ant")


def chat(model: str, **fields: Any) -> bytes:
    return orjson.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}], **fields})


BODIES: dict[str, tuple[bytes, int, str, str]] = {
    "nothing": (b"", 400, "invalid_value", "body"),
    "half a body": (b'{"model": "auto", "messages": [{"role"', 400, "invalid_value", "body"),
    "no object": (b'["auto"]', 400, "invalid_value", "body"),
    "no UTF-8": (chat("auto").replace(b"hi", b"\xff\xfe\xc3\x28"), 400, "invalid_value", "body"),
    "half a surrogate": (chat("auto").replace(b"hi", b"\\ud800"), 400, "invalid_value", "body"),
    "no number": (b'{"model": "auto", "messages": NaN}', 400, "invalid_value", "body"),
    "too deep": (chat("auto").replace(b'"hi"', b"[" * 500 + b"]" * 500), 400, "invalid_value", "body"),
    "no model": (b'{"messages": [{"role": "user", "content": "hi"}]}', 400, "invalid_value", "model"),
    "a model that is a number": (chat("auto").replace(b'"auto"', b"7"), 400, "invalid_value", "model"),
    "a long model": (chat("x" * 600), 400, "invalid_value", "model"),
    "a model with NUL": (chat("ant/a\0b"), 400, "invalid_value", "model"),
    "no messages": (b'{"model": "auto"}', 400, "invalid_value", "messages"),
    "no role": (chat("auto", messages=[{"content": "hi"}]), 400, "invalid_value", "messages[0].role"),
    "tools that are none": (chat("auto", tools={"a": 1}), 400, "invalid_value", "tools"),
    "tokens below nothing": (chat("auto", max_tokens=-1), 400, "invalid_value", "max_tokens"),
    "stream of sorts": (chat("auto", stream="yes"), 400, "invalid_value", "stream"),
    "unknown model": (chat("nobody/nothing"), 404, "model_not_found", "model"),
    "unknown channel": (chat("auto/nothing"), 404, "model_not_found", "model"),
}


@pytest.mark.parametrize(("body", "status", "code", "param"), BODIES.values(), ids=BODIES.keys())
async def test_a_bad_body_is_refused(
    stack: Stack, ant: Provided, body: bytes, status: int, code: str, param: str
) -> None:
    asked = len(ant.upstream.requests)
    served = await stack.post(body)
    assert served.status == status
    assert (served.error["code"], served.error["param"]) == (code, param)
    assert len(served.body) < 1_500
    assert len(ant.upstream.requests) == asked


async def test_a_near_miss_is_told(stack: Stack, ant: Provided) -> None:
    served = await stack.post(chat(f"{ant.name}x/{ant.name}-model"))
    assert served.status == 404
    assert ant.model in served.error["message"]


async def test_a_model_id_may_come_with_escaped_slashes(stack: Stack, ant: Provided) -> None:
    for path in (ant.model, ant.model.replace("/", "%2F"), ant.model.replace("/", "%2f")):
        served = await stack.get(f"/v1/models/{path}")
        assert (served.status, served.json["id"]) == (200, ant.model)
    assert (await stack.get("/v1/models/nobody%2Fnothing")).error["code"] == "model_not_found"
    listed = await stack.get(f"/v1/auto-combo/{'auto%2Fcoding'}/candidates")
    assert listed.status == 200


async def test_other_paths_and_methods(stack: Stack) -> None:
    assert ((await stack.get("/v1/nothing")).status, (await stack.get("/")).status) == (404, 404)
    assert (await stack.get("/v1/chat/completions")).status == 405
    assert (await stack.get("/v1/nothing")).error["code"] == "unknown_url"


async def test_twenty_megabytes_are_too_many(stack: Stack, ant: Provided) -> None:
    body = chat(ant.model).replace(b"hi", b"x" * 20 * MIB)
    assert await _refused_body(stack, body) == 413

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(body), MIB):
            yield body[start : start + MIB]

    assert await _refused_body(stack, parts()) == 413
    assert not ant.upstream.requests
    assert (await stack.post(chat(ant.model))).status == 200


async def _refused_body(stack: Stack, body: bytes | AsyncIterator[bytes]) -> int:
    """The refusal may come before all is sent."""
    async with httpx.AsyncClient(timeout=30) as http:
        response = await http.post(f"{stack.url}/v1/chat/completions", content=body)
    assert "too large" in Answer(response.status_code, dict(response.headers), response.content).error["message"]
    return response.status_code


async def test_fifteen_megabytes_pass(stack: Stack) -> None:
    big = await stack.provider("big")
    served = await stack.post(chat(big.model).replace(b"hi", b"x" * 15 * MIB))
    assert served.status == 200
    assert len(big.upstream.requests[0].raw_body) > 15 * MIB


async def test_what_is_no_http_is_refused(stack: Stack) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.edge_port)
    writer.write(b"\x16\x03\x01\x00\xa5 hello\r\n\r\n")
    async with asyncio.timeout(10):
        said = await reader.read()
    writer.close()
    assert said.startswith(b"HTTP/1.1 400")
    assert b"Traceback" not in said


async def test_a_wrong_key_is_refused_once_there_is_a_right_one(stack: Stack, ant: Provided) -> None:
    """Made last: from the first key on nobody is anonymous."""
    made = await stack.client.add_key("mine", allowed_models=[f"{ant.name}/*"])
    right = {"authorization": f"Bearer {made.secret}"}

    async def required() -> bool:
        return (await stack.post(chat(ant.model))).status == 401

    await until(required)
    for headers in ({}, {"authorization": "Bearer sk-wrong"}, {"authorization": "Basic abc"}, {"x-api-key": "wrong"}):
        served = await stack.post(chat(ant.model), headers)
        assert (served.status, served.error["code"]) == (401, "invalid_api_key")
        assert served.headers["www-authenticate"] == "Bearer"
        assert "sk-wrong" not in served.body.decode()
    assert (await stack.get("/v1/models", {"authorization": "Bearer sk-wrong"})).status == 401
    served = await stack.post(chat(ant.model), right)
    assert (served.status, (await stack.record(served.decision_id)).api_key_id) == (200, made.key.id)
    assert (await stack.post(chat(ant.model), {"x-api-key": made.secret})).status == 200
    other = await stack.provider("other")
    refused = await stack.post(chat(other.model), right)
    assert (refused.status, refused.error["code"]) == (403, "policy_excludes_all")
    with pytest.raises(openai.AuthenticationError):
        await stack.openai("sk-wrong").models.list()
    ids = {model.id async for model in stack.openai(made.secret).models.list()}
    assert ant.model in ids
    assert other.model not in ids
    request = registry_pb2.DeleteApiKeyRequest(id=made.key.id)
    await stack.client.keys.DeleteApiKey(request, timeout=10)
