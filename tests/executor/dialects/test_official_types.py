"""What clients get, and what the recorded vendors send, is what the vendors' own types say."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from executor.clients import CLIENTS
from executor.dialects import DIALECTS
from executor.dialects.frames import Answer
from executor.model import ClientDialect
from tests.executor.dialects.recorded import ANTHROPIC, GEMINI, GEMINI_WHOLE, OPENAI, OPENAI_WHOLE, WHOLE, cases
from tests.executor.dialects.streams import call_of, payloads, whole

EVENTS: dict[ClientDialect, TypeAdapter[Any]] = {
    ClientDialect.OPENAI_CHAT: TypeAdapter(ChatCompletionChunk),
    ClientDialect.OPENAI_RESPONSES: TypeAdapter(ResponseStreamEvent),
    ClientDialect.ANTHROPIC_MESSAGES: TypeAdapter(RawMessageStreamEvent),
}
ANSWERS: dict[ClientDialect, TypeAdapter[Any]] = {
    ClientDialect.OPENAI_CHAT: TypeAdapter(ChatCompletion),
    ClientDialect.OPENAI_RESPONSES: TypeAdapter(Response),
    ClientDialect.ANTHROPIC_MESSAGES: TypeAdapter(Message),
}
PROXIED = [case for case in cases() if case != ("anthropic", "unknown events")]


@pytest.mark.parametrize("client", EVENTS)
@pytest.mark.parametrize(("dialect", "name"), PROXIED)
def test_events_for_clients(client: ClientDialect, dialect: str, name: str) -> None:
    for event in whole(client, dialect, name).events:
        if event.get("type") != "ping":
            EVENTS[client].validate_python(event)


@pytest.mark.parametrize("client", ANSWERS)
@pytest.mark.parametrize("dialect", WHOLE)
def test_whole_answers_for_clients(client: ClientDialect, dialect: str) -> None:
    call = call_of(client)
    answer = DIALECTS[dialect].read_answer(call, orjson.dumps(WHOLE[dialect]))
    assert isinstance(answer, Answer)
    ANSWERS[client].validate_json(CLIENTS[client].answer(call, answer))


def test_recorded_vendors_speak_as_their_types_say() -> None:
    for name, data in ANTHROPIC.items():
        for event in payloads(data):
            if event["type"] not in ("ping", "error", "some_new_event"):
                EVENTS[ClientDialect.ANTHROPIC_MESSAGES].validate_python(event), name
    for data in OPENAI.values():
        for event in payloads(data):
            if "error" not in event:
                ChatCompletionChunk.model_validate(event)
    ChatCompletion.model_validate(OPENAI_WHOLE)


@pytest.mark.full
def test_recorded_google_speaks_as_its_types_say() -> None:
    types = pytest.importorskip("google.genai.types")
    for event in (*(event for data in GEMINI.values() for event in payloads(data)), GEMINI_WHOLE):
        if "error" not in event:
            types.GenerateContentResponse.model_validate(event)
