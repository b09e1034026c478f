"""The anthropic dialect: the Messages API."""

from __future__ import annotations

import orjson

from executor.dialects import chat
from executor.dialects.anthropic.answer import completion_of, has_other_blocks, usage_of
from executor.dialects.anthropic.request import as_it_is, body_of
from executor.dialects.anthropic.stream import EventReader
from executor.dialects.frames import Answer, NoAnswer, Prepared
from executor.model import Call, OutcomeClass, Target

NAME = "anthropic"
PATH = "/messages"


class Anthropic:
    """See ``Dialect``. The body of a client that speaks it too passes as it is."""

    def prepare(self, call: Call, target: Target) -> Prepared:
        own = call.own_body(NAME)
        if own is not None:
            return Prepared(PATH, orjson.dumps(as_it_is(own, target)))
        return Prepared(PATH, orjson.dumps(body_of(call, target)), translated=True)

    def read_answer(self, call: Call, body: bytes) -> Answer | NoAnswer:
        body, payload = chat.loaded(body.strip())
        no_answer = chat.unusable(body, payload)
        if no_answer is not None:
            return no_answer
        if not isinstance(payload.get("content"), list):
            return NoAnswer(OutcomeClass.MALFORMED, "the upstream's answer has no content blocks")
        completion, usage = completion_of(payload, call), usage_of(payload.get("usage"))
        own = body if call.own_body(NAME) is not None else b""
        answer = chat.completion(orjson.dumps(completion), completion, usage, own)
        if isinstance(answer, NoAnswer) and own and has_other_blocks(payload["content"]):
            return Answer(orjson.dumps(completion), usage, completion["choices"][0]["finish_reason"], own=own)
        return answer

    def reader(self, call: Call) -> EventReader:
        return EventReader(call)
