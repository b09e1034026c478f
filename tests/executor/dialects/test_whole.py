"""Whole answers of every vendor for clients of every dialect."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from executor.clients import CLIENTS
from executor.dialects import DIALECTS
from executor.dialects.frames import Answer, NoAnswer
from executor.model import Call, ClientDialect, OutcomeClass, Usage
from tests.executor.dialects.recorded import ANTHROPIC_WHOLE, WHOLE, counted, response
from tests.executor.dialects.streams import BODIES, call_of

USAGE = {"openai": Usage(55, 89, 40), "anthropic": Usage(55, 89, 40), "gemini": Usage(55, 89, 40, 60)}


def read(dialect: str, payload: Any, call: Call | None = None) -> Answer | NoAnswer:
    data = payload if isinstance(payload, bytes) else orjson.dumps(payload)
    return DIALECTS[dialect].read_answer(call or Call("d", {}), data)


@pytest.mark.parametrize("dialect", WHOLE)
def test_in_chat_form(dialect: str) -> None:
    answer = read(dialect, WHOLE[dialect])
    assert isinstance(answer, Answer)
    message = orjson.loads(answer.body)["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("I'll check.", "Let me see.")
    (call,) = message["tool_calls"]
    assert (call["function"]["name"], orjson.loads(call["function"]["arguments"])) == (
        "get_weather",
        {"location": "Paris"},
    )
    assert "index" not in call
    assert (answer.finish_reason, answer.usage, answer.refused) == ("tool_calls", USAGE[dialect], False)


@pytest.mark.parametrize("dialect", WHOLE)
def test_as_a_message(dialect: str) -> None:
    call = call_of(ClientDialect.ANTHROPIC_MESSAGES)
    answer = read(dialect, WHOLE[dialect], call)
    assert isinstance(answer, Answer)
    message = orjson.loads(CLIENTS[call.client].answer(call, answer))
    if dialect == "anthropic":
        assert message == ANTHROPIC_WHOLE, "it passes as it is"
        return
    thinking, text, tool_use = message["content"]
    assert (thinking["thinking"], text["text"], tool_use["input"]) == (
        "Let me see.",
        "I'll check.",
        {"location": "Paris"},
    )
    assert (message["stop_reason"], message["role"], message["type"]) == ("tool_use", "assistant", "message")
    assert message["usage"] == {
        "input_tokens": 15,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 40,
        "output_tokens": 89,
    }


@pytest.mark.parametrize("dialect", WHOLE)
def test_as_a_response(dialect: str) -> None:
    call = call_of(ClientDialect.OPENAI_RESPONSES, {"instructions": "be brief", "metadata": {"a": "b"}})
    answer = read(dialect, WHOLE[dialect], call)
    assert isinstance(answer, Answer)
    told = orjson.loads(CLIENTS[call.client].answer(call, answer))
    assert [item["type"] for item in told["output"]] == ["reasoning", "message", "function_call"]
    assert (told["status"], told["instructions"], told["metadata"]) == ("completed", "be brief", {"a": "b"})
    assert told["usage"]["input_tokens_details"]["cached_tokens"] == 40
    assert len({item["id"] for item in told["output"]}) == 3


def test_thinking_is_shown_to_those_who_asked_for_it() -> None:
    asked = {key: value for key, value in BODIES[ClientDialect.ANTHROPIC_MESSAGES].items() if key != "thinking"}
    client = CLIENTS[ClientDialect.ANTHROPIC_MESSAGES]
    spoken = client.read(asked)
    assert spoken is not None
    call = Call("d", spoken.chat, client=ClientDialect.ANTHROPIC_MESSAGES, spoken=spoken)
    answer = read("openai", WHOLE["openai"], call)
    assert isinstance(answer, Answer)
    assert [block["type"] for block in orjson.loads(client.answer(call, answer))["content"]] == ["text", "tool_use"]


def test_a_custom_tool_is_called_as_one() -> None:
    tools = [{"type": "custom", "name": "get_weather"}]
    call = call_of(ClientDialect.OPENAI_RESPONSES, {"tools": tools})
    whole = orjson.loads(orjson.dumps(WHOLE["openai"]))
    whole["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = '{"input":"*** Begin"}'
    answer = read("openai", whole, call)
    assert isinstance(answer, Answer)
    item = orjson.loads(CLIENTS[call.client].answer(call, answer))["output"][-1]
    assert (item["type"], item["name"], item["input"], item["call_id"]) == (
        "custom_tool_call",
        "get_weather",
        "*** Begin",
        "call_A",
    )


def test_a_tool_of_a_namespace_is_called_by_its_own_name() -> None:
    tools = [
        {"type": "namespace", "name": "get", "description": "d", "tools": [{"type": "function", "name": "weather"}]}
    ]
    call = call_of(ClientDialect.OPENAI_RESPONSES, {"tools": tools})
    renamed = orjson.dumps(WHOLE["openai"]).replace(b"get_weather", b"get__weather")
    answer = read("openai", renamed, call)
    assert isinstance(answer, Answer)
    item = orjson.loads(CLIENTS[call.client].answer(call, answer))["output"][-1]
    assert (item["name"], item["namespace"]) == ("weather", "get")


NOT_ANSWERS: dict[str, tuple[str, Any, OutcomeClass]] = {
    "anthropic, nothing": ("anthropic", b"", OutcomeClass.EMPTY),
    "anthropic, a page": ("anthropic", b"<html>", OutcomeClass.MALFORMED),
    "anthropic, another object": ("anthropic", {"choices": []}, OutcomeClass.MALFORMED),
    "anthropic, no content": ("anthropic", {**ANTHROPIC_WHOLE, "content": []}, OutcomeClass.EMPTY),
    "anthropic, an error": (
        "anthropic",
        {"type": "error", "error": {"type": "api_error", "message": "x"}},
        OutcomeClass.UPSTREAM_ERROR,
    ),
    "gemini, nothing": ("gemini", b" ", OutcomeClass.EMPTY),
    "gemini, another object": ("gemini", {"choices": []}, OutcomeClass.MALFORMED),
    "gemini, no candidate": ("gemini", {"candidates": []}, OutcomeClass.EMPTY),
    "gemini, no content": ("gemini", response(finish="STOP"), OutcomeClass.EMPTY),
    "gemini, a broken call": ("gemini", response(finish="MALFORMED_FUNCTION_CALL"), OutcomeClass.EMPTY),
    "gemini, an error in a list": (
        "gemini",
        [{"error": {"code": 500, "message": "x", "status": "INTERNAL"}}],
        OutcomeClass.UPSTREAM_ERROR,
    ),
}


@pytest.mark.parametrize("name", NOT_ANSWERS)
def test_what_is_no_answer(name: str) -> None:
    dialect, payload, outcome_class = NOT_ANSWERS[name]
    got = read(dialect, payload)
    assert isinstance(got, NoAnswer)
    assert got.outcome_class is outcome_class


WITHHELD: dict[str, tuple[str, Any]] = {
    "anthropic": ("anthropic", {**ANTHROPIC_WHOLE, "content": [], "stop_reason": "refusal"}),
    "gemini, the answer": ("gemini", response(finish="SAFETY")),
    "gemini, the prompt": ("gemini", {"promptFeedback": {"blockReason": "SAFETY"}, **counted(8)}),
}
FINISH = {
    ClientDialect.OPENAI_CHAT: lambda told: told["choices"][0]["finish_reason"] == "content_filter",
    ClientDialect.OPENAI_RESPONSES: lambda told: told["incomplete_details"] == {"reason": "content_filter"},
    ClientDialect.ANTHROPIC_MESSAGES: lambda told: told["stop_reason"] == "refusal",
}


@pytest.mark.parametrize("client", FINISH)
@pytest.mark.parametrize("name", WITHHELD)
def test_what_a_content_filter_withheld_is_passed_on_as_such(client: ClientDialect, name: str) -> None:
    dialect, payload = WITHHELD[name]
    call = call_of(client)
    answer = read(dialect, payload, call)
    assert isinstance(answer, Answer)
    assert answer.refused
    assert FINISH[client](orjson.loads(CLIENTS[client].answer(call, answer)))


def test_several_candidates_are_several_choices() -> None:
    payload = response({"text": "one"}, finish="STOP")
    payload["candidates"].append({"content": {"parts": [{"text": "two"}]}, "finishReason": "MAX_TOKENS", "index": 1})
    answer = read("gemini", payload)
    assert isinstance(answer, Answer)
    choices = orjson.loads(answer.body)["choices"]
    assert [(c["index"], c["message"]["content"], c["finish_reason"]) for c in choices] == [
        (0, "one", "stop"),
        (1, "two", "length"),
    ]


def test_pictures_are_content() -> None:
    answer = read("gemini", response({"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}, finish="STOP"))
    assert isinstance(answer, Answer)
    (image,) = orjson.loads(answer.body)["choices"][0]["message"]["images"]
    assert image["image_url"]["url"] == "data:image/png;base64,iVBORw0KGgo="


def test_what_the_vendors_own_tools_left_is_an_answer_to_those_who_asked_for_them() -> None:
    paused = {
        **ANTHROPIC_WHOLE,
        "content": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}],
        "stop_reason": "pause_turn",
    }
    own = read("anthropic", paused, call_of(ClientDialect.ANTHROPIC_MESSAGES))
    assert isinstance(own, Answer)
    assert orjson.loads(own.own) == paused
    assert isinstance(read("anthropic", paused), NoAnswer)
