"""LiteLLM as a client, of OpenAI's or of Anthropic's protocol, as ``protocol`` says."""

from __future__ import annotations

from typing import Any

import litellm
from pydantic import BaseModel

from tests.clients.heard import (
    DESCRIPTION,
    FOUND,
    LIMIT_S,
    LOOK_UP,
    PARAMETERS,
    ROUNDS,
    Heard,
    Question,
    each,
    now,
    serve,
)

TOOL = {"type": "function", "function": {"name": LOOK_UP, "description": DESCRIPTION, "parameters": PARAMETERS}}


class Place(BaseModel):
    city: str
    ants: int


def reached(question: Question) -> dict[str, Any]:
    """Where to, and who asks. Anthropic's protocol has the gateway's address without /v1."""
    protocol = question.get("protocol", "openai")
    return {
        "model": f"{protocol}/{question['model']}",
        "api_base": question["url"] + ("/v1" if protocol == "openai" else ""),
        "api_key": question["key"],
        "extra_headers": question["headers"],
        "max_retries": 0,
        "timeout": LIMIT_S,
    }


def talk(question: Question) -> Heard:
    """A conversation to its end; the tool's results are told whenever it is called."""
    heard = Heard()
    messages: list[Any] = [{"role": "user", "content": question["prompt"]}]
    more = {"tools": [TOOL]} if question["tools"] else {}
    with heard.erring(Exception):  # its errors have no common kind but OpenAI's, and not all of them that
        for _ in range(ROUNDS):
            message = said(heard, question, {**reached(question), "messages": messages, **more})
            calls = message.tool_calls or []
            messages.append(message)
            messages += [{"role": "tool", "tool_call_id": call.id, "content": FOUND} for call in calls]
            for call in calls:
                heard.call(call.function.name, call.function.arguments)
            if not calls:
                break
    return heard


def said(heard: Heard, question: Question, asked: dict[str, Any]) -> Any:
    complete = litellm.acompletion if question.get("is_async") else litellm.completion
    if not question["stream"]:
        answer = now(complete(**asked))
        heard.text += answer.choices[0].message.content or ""
    else:
        chunks = []
        stream = now(complete(**asked, stream=True, stream_options={"include_usage": True}))
        for chunk in each(stream) if question.get("is_async") else stream:
            chunks.append(chunk)
            heard.text += chunk.choices[0].delta.content or "" if chunk.choices else ""
        answer = litellm.stream_chunk_builder(chunks)
    heard.usage = (answer.usage.prompt_tokens, answer.usage.completion_tokens)
    return answer.choices[0].message


def parse(question: Question) -> Heard:
    messages = [{"role": "user", "content": question["prompt"]}]
    answer = litellm.completion(**reached(question), messages=messages, response_format=Place)
    return Heard(value=Place.model_validate_json(answer.choices[0].message.content).model_dump())


def see(question: Question) -> Heard:
    parts = [
        {"type": "text", "text": question["prompt"]},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{question['image']}"}},
    ]
    answer = litellm.completion(**reached(question), messages=[{"role": "user", "content": parts}])
    return Heard(text=answer.choices[0].message.content)


def embed(question: Question) -> Heard:
    found = litellm.embedding(**reached(question), input=question["texts"])
    return Heard(value=[row["embedding"] for row in found.data], usage=(found.usage.prompt_tokens, 0))


if __name__ == "__main__":
    serve({"talk": talk, "parse": parse, "see": see, "embed": embed})
