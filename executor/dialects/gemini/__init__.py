"""The gemini dialect: generateContent, its stream, and embeddings."""

from __future__ import annotations

from urllib.parse import quote

import orjson

from executor.dialects import chat
from executor.dialects.frames import Answer, NoAnswer, Prepared
from executor.dialects.gemini.answer import completion_of, usage_of
from executor.dialects.gemini.embeddings import embeddings_of, request_of
from executor.dialects.gemini.request import body_of
from executor.dialects.gemini.stream import ResponseReader
from executor.model import Call, Operation, OutcomeClass, Target

STREAMED = "streamGenerateContent?alt=sse"


class Gemini:
    """See ``Dialect``."""

    def prepare(self, call: Call, target: Target) -> Prepared:
        if call.operation is Operation.EMBEDDINGS:
            method, body = "batchEmbedContents", request_of(call, target)
        else:
            method, body = STREAMED if call.stream else "generateContent", body_of(call, target)
        path = f"/models/{quote(target.model.removeprefix('models/'), safe='')}:{method}"
        return Prepared(path, orjson.dumps(body), translated=True)

    def read_answer(self, call: Call, body: bytes) -> Answer | NoAnswer:
        body, payload = chat.loaded(body.strip())
        no_answer = chat.unusable(body, payload)
        if no_answer is not None:
            return no_answer
        if call.operation is Operation.EMBEDDINGS:
            return chat.embeddings(embeddings_of(payload, chat.word(call.body.get("model"))))
        if not isinstance(payload.get("candidates", payload.get("promptFeedback")), list | dict):
            return NoAnswer(OutcomeClass.MALFORMED, "the upstream's answer has no candidates")
        completion = completion_of(payload, call)
        return chat.completion(orjson.dumps(completion), completion, usage_of(payload.get("usageMetadata")))

    def reader(self, call: Call) -> ResponseReader:
        return ResponseReader(call)
