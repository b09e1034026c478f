"""The gemini dialect: generateContent and its stream."""

from __future__ import annotations

from urllib.parse import quote

import orjson

from executor.dialects import chat
from executor.dialects.frames import Answer, NoAnswer, Prepared
from executor.dialects.gemini.answer import completion_of, usage_of
from executor.dialects.gemini.request import body_of
from executor.dialects.gemini.stream import ResponseReader
from executor.model import Call, OutcomeClass, Target


class Gemini:
    """See ``Dialect``."""

    def prepare(self, call: Call, target: Target) -> Prepared:
        method = "streamGenerateContent?alt=sse" if call.stream else "generateContent"
        path = f"/models/{quote(target.model.removeprefix('models/'), safe='')}:{method}"
        return Prepared(path, orjson.dumps(body_of(call, target)), translated=True)

    def read_answer(self, call: Call, body: bytes) -> Answer | NoAnswer:
        body, payload = chat.loaded(body.strip())
        no_answer = chat.unusable(body, payload)
        if no_answer is not None:
            return no_answer
        if not isinstance(payload.get("candidates", payload.get("promptFeedback")), list | dict):
            return NoAnswer(OutcomeClass.MALFORMED, "the upstream's answer has no candidates")
        completion = completion_of(payload, call)
        return chat.completion(orjson.dumps(completion), completion, usage_of(payload.get("usageMetadata")))

    def reader(self, call: Call) -> ResponseReader:
        return ResponseReader(call)
