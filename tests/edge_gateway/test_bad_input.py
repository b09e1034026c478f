"""Whatever a client may send instead of a request."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from edge_gateway import json_body
from edge_gateway.dialects import chat_fields
from service_kit.errors import ServiceError
from tests.edge_gateway.conftest import House, Open, chat

VALID = orjson.dumps(chat())
CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"


def error_of(answer: bytes) -> tuple[int, dict[str, Any]]:
    """Status and error of a raw HTTP answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"x-request-id: " in head
    return int(head.split()[1]), orjson.loads(body)["error"]


BODIES = [
    (b"", "body", "nothing"),
    (b"   ", "body", "nothing"),
    (b"{", "body", "malformed JSON"),
    (b'{"model": "a", "messages": [}', "body", "line 1 column 29"),
    (b"[1]", "body", "an array of 1"),
    (b'"text"', "body", "a string of 4 characters"),
    (b"null", "body", "null"),
    (b'{"model": "\xff\xfe"}', "body", "not UTF-8 (at byte 11)"),
    (b'{"model": NaN}', "body", "malformed JSON"),
    (b'{"x":' + b"[" * 129 + b"]" * 129 + b"," + VALID[1:], "body", "nesting deeper than 128"),
    (b"[" * 100_000 + b"]" * 100_000, "body", "malformed JSON"),
    (b'{"x":[' + b"[]," * 1_000_001 + b"[]]}", "body", "brackets"),
]


@pytest.mark.parametrize(("body", "field", "got"), BODIES, ids=lambda value: str(value)[:24])
def test_malformed_bodies(body: bytes, field: str, got: str) -> None:
    with pytest.raises(ServiceError, match="allowed: ") as caught:
        json_body.parse(body)
    assert caught.value.field == field
    assert got in caught.value.message


FIELDS = [
    ({"model": None}, "model", "null"),
    ({"model": ""}, "model", "a string of 0 characters"),
    ({"model": "  "}, "model", "a string of 2 characters"),
    ({"model": "a" * 513}, "model", "a string of 513 characters"),
    ({"model": "a\nb"}, "model", "a string of 3 characters"),
    ({"model": "a\x85b"}, "model", "a string of 3 characters"),
    ({"model": 7}, "model", "the number 7"),
    ({"messages": []}, "messages", "an array of 0"),
    ({"messages": "hi"}, "messages", "a string of 2 characters"),
    ({"messages": None}, "messages", "null"),
    ({"messages": [1]}, "messages[0]", "the number 1"),
    ({"messages": [{"role": "user"}, {"content": "x"}]}, "messages[1].role", "nothing"),
    ({"messages": [{"role": 5, "content": "x"}]}, "messages[0].role", "the number 5"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content", "the number 5"),
    ({"messages": [{"role": "user", "content": {}}]}, "messages[0].content", "an object of 0 fields"),
    ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content", "an array of 1"),
    ({"messages": [{"role": "assistant", "tool_calls": "x"}]}, "messages[0].tool_calls", "a string"),
    ({"stream": "yes"}, "stream", "a string of 3 characters"),
    ({"stream": 1}, "stream", "the number 1"),
    ({"max_tokens": -1}, "max_tokens", "the number -1"),
    ({"max_tokens": True}, "max_tokens", "a boolean"),
    ({"max_tokens": "100"}, "max_tokens", "a string of 3 characters"),
    ({"max_completion_tokens": 1.5}, "max_completion_tokens", "the number 1.5"),
    ({"tools": {}}, "tools", "an object of 0 fields"),
    ({"tools": ["x"]}, "tools[0]", "a string of 1"),
    ({"response_format": "json"}, "response_format", "a string of 4 characters"),
    ({"tool_choice": 1}, "tool_choice", "the number 1"),
    ({"modalities": "audio"}, "modalities", "a string of 5 characters"),
    ({"prompt_cache_key": 1}, "prompt_cache_key", "the number 1"),
]


@pytest.mark.parametrize(("changes", "field", "got"), FIELDS, ids=lambda value: str(value)[:40])
def test_wrong_fields(changes: dict[str, Any], field: str, got: str) -> None:
    with pytest.raises(ServiceError, match="allowed: ") as caught:
        chat_fields.check(chat() | changes)
    assert caught.value.field == field
    assert got in caught.value.message


async def test_refusals_over_http(house: House) -> None:
    for body, param in ((b"{", "body"), (orjson.dumps(chat(stream="yes")), "stream")):
        answer = await house.post(body)
        error = answer.json()["error"]
        assert (answer.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
        assert error["code"] == "invalid_value"
    assert not house.decision.asked


@pytest.mark.parametrize("missing", ["model", "messages"])
def test_missing_fields(missing: str) -> None:
    body = {name: value for name, value in chat().items() if name != missing}
    with pytest.raises(ServiceError, match=f"{missing}: got nothing"):
        chat_fields.check(body)


async def test_what_is_wrong_is_not_repeated(house: House) -> None:
    answer = await house.post(chat() | {"messages": [{"role": "user", "content": 5, "secret": "hunter2"}]})
    assert "hunter2" not in answer.text
    answer = await house.post(b'{"model": "hunter2", "messages": [hunter2')
    assert "hunter2" not in answer.text


UNUSUAL: list[dict[str, Any]] = [
    {"stream": None, "max_tokens": None, "tools": None, "response_format": None},
    {"tools": [], "tool_choice": {"type": "function", "function": {"name": "f"}}},
    {"messages": [{"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}]},
    {"messages": [{"role": "developer", "content": [{"type": "text", "text": "x"}]}]},
    {"temperature": "hot", "unknown": {"anything": [1, None]}, "n": 2},
    {"model": "модель/ü:%2F"},
]


async def test_unusual_but_fine(house: House) -> None:
    for fields in UNUSUAL:
        assert (await house.post(chat() | fields)).status_code == 200, fields


async def test_last_of_repeated_names_wins(house: House) -> None:
    answer = await house.post(b'{"model":"first",' + VALID[1:-1] + b',"model":"last"}')
    assert answer.status_code == 200
    assert house.decision.asked[0].model == "last"


@pytest.mark.parametrize(
    ("header", "value"), [("x-omniroute-session", "s" * 257), ("x-omniroute-task", "cooking")], ids=["session", "task"]
)
async def test_wrong_headers(house: House, header: str, value: str) -> None:
    answer = await house.post(chat(), {header: value})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, header)


async def test_body_over_the_limit(open_house: Open) -> None:
    house = await open_house()
    big = orjson.dumps(chat("x" * 20 * 2**20))
    answer = await house.post(big)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")
    assert not house.decision.asked
    assert (await house.post(orjson.dumps(chat("x" * 15 * 2**20)))).status_code == 200


async def test_body_over_the_limit_without_a_length(open_house: Open) -> None:
    house = await open_house(edge_max_body_bytes=1000)
    reader, writer = await house.connect()
    writer.write(CHAT + b"transfer-encoding: chunked\r\n\r\n")
    for _ in range(40):
        writer.write(b"64\r\n" + b"x" * 100 + b"\r\n")
    async with asyncio.timeout(5):
        answer = await reader.readuntil(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413")
    writer.close()


async def test_slow_bodies(open_house: Open) -> None:
    house = await open_house(edge_body_idle_timeout_ms=100, edge_keep_alive_ms=1000)
    answer = await house.raw(CHAT + b"content-length: 100\r\n\r\n{")
    assert error_of(answer)[0] == 408
    house = await open_house(edge_body_timeout_ms=200, edge_keep_alive_ms=1000, edge_head_timeout_ms=1000)
    reader, writer = await house.connect()
    writer.write(CHAT + b"content-length: 1000\r\n\r\n")
    dripping = asyncio.create_task(drip(writer))
    async with asyncio.timeout(5):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 408")
    dripping.cancel()
    writer.close()


async def drip(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b" ")
        await asyncio.sleep(0.02)


async def test_slow_head(open_house: Open) -> None:
    house = await open_house(edge_head_timeout_ms=300)
    assert await house.raw(CHAT[:20]) == b""
    assert await house.raw(b"") == b""
    reader, writer = await house.connect()
    started = asyncio.get_running_loop().time()
    async with asyncio.timeout(5):
        while not reader.at_eof():
            writer.write(b"\r\n")
            await asyncio.sleep(0.05)
            if await _closed(reader):
                break
    assert asyncio.get_running_loop().time() - started < 2


async def _closed(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(0.01):
            return await reader.read(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


async def test_dripping_on_after_the_answer(open_house: Open) -> None:
    """A client whose body goes on after its refusal cannot keep the connection for ever."""
    house = await open_house(edge_head_timeout_ms=300)
    reader, writer = await house.connect()
    writer.write(CHAT + b"content-length: 99999999\r\n\r\n")
    async with asyncio.timeout(5):
        assert (await reader.readuntil(b"}}")).startswith(b"HTTP/1.1 413")
        while not await _closed(reader):
            writer.write(b"x")
            await asyncio.sleep(0.02)


async def test_head_over_the_limit(house: House) -> None:
    answer = await house.raw(CHAT + b"x-big: " + b"x" * 400_000)
    status, error = error_of(answer)
    assert (status, error["code"]) == (431, "request_header_fields_too_large")
    answer = await house.raw(b"GET /" + b"a" * 400_000)
    assert error_of(answer)[0] == 431


@pytest.mark.parametrize("junk", [b"\x16\x03\x01\x02\x00hello\r\n\r\n", b"NONSENSE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
async def test_what_is_not_http(house: House, junk: bytes) -> None:
    assert error_of(await house.raw(junk))[0] == 400


@pytest.mark.parametrize("rest", [b"zz\r\n{", b"f" * 20 + b"\r\n{", b"0\r\ncontent-length: 5\r\n\r\n"])
async def test_a_body_that_is_no_http_is_refused(house: House, rest: bytes) -> None:
    head = CHAT + b"transfer-encoding: chunked\r\n\r\n"
    assert error_of(await house.raw(head + rest))[0] == 400
    reader, writer = await house.connect()
    writer.write(head + b"1\r\n{\r\n")
    await asyncio.sleep(0.05)
    writer.write(rest)
    async with asyncio.timeout(5):
        assert error_of(await reader.read())[0] == 400
    writer.close()
    assert not house.decision.asked


async def test_fields_behind_the_body_are_no_headers(house: House) -> None:
    head = CHAT + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    body = b"%x\r\n%s\r\n0\r\n" % (len(VALID), VALID)
    answer = await house.raw(head + body + b"x-omniroute-session: forged\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert not house.decision.asked[0].session_explicit


async def test_request_smuggling_is_refused(house: House) -> None:
    for framing in (b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", b"content-length: -5\r\n\r\n"):
        answer = await house.raw(CHAT + framing)
        assert error_of(answer)[0] == 400


async def test_request_ids(house: House) -> None:
    good = await house.post(chat(), {"x-request-id": "client-7"})
    assert good.headers["x-request-id"] != "client-7", "the edge makes its own"
    answer = await house.raw(
        b"GET /nowhere HTTP/1.1\r\nhost: x\r\nx-request-id: a\x01b\xff\r\nconnection: close\r\n\r\n"
    )
    assert b"\x01" not in answer


async def test_crlf_in_the_path_forges_nothing(house: House) -> None:
    answer = await house.raw(b"GET /a%0d%0ax-evil:%201 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    status, error = error_of(answer)
    assert (status, error["code"]) == (404, "unknown_url")
    assert b"\r\nx-evil" not in answer


async def test_unknown_paths_and_methods(house: House) -> None:
    answer = await house.get("/v2/chat")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_url")
    answer = await house.get("/v1/chat/completions")
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"
    assert answer.headers["x-request-id"]
    assert (await house.get("/v1/chat/completions/")).status_code == 404
