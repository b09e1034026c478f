"""OpenAI's own client: chat completions and embeddings."""

from __future__ import annotations

from typing import Any

import openai
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

FUNCTION = {"name": LOOK_UP, "description": DESCRIPTION, "strict": True}
TOOL = {"type": "function", "function": FUNCTION | {"parameters": PARAMETERS | {"additionalProperties": False}}}


class Place(BaseModel):
    city: str
    ants: int


def connected(question: Question) -> Any:
    kind: Any = openai.AsyncOpenAI if question.get("is_async") else openai.OpenAI
    return kind(base_url=f"{question['url']}/v1", api_key=question["key"], max_retries=0, timeout=LIMIT_S)


def talk(question: Question) -> Heard:
    """A conversation to its end; the tool's results are told whenever it is called."""
    heard, client = Heard(), connected(question)
    messages: list[Any] = [{"role": "user", "content": question["prompt"]}]
    more = {"tools": [TOOL]} if question["tools"] else {}
    with heard.erring(openai.OpenAIError):
        for _ in range(ROUNDS):
            asked = {"model": question["model"], "messages": messages, "extra_headers": question["headers"], **more}
            message = said(client, heard, question["stream"], asked)
            calls = message.tool_calls or []
            messages.append(message.to_dict())
            messages += [{"role": "tool", "tool_call_id": call.id, "content": FOUND} for call in calls]
            for call in calls:
                heard.call(call.function.name, call.function.arguments)
            if not calls:
                break
    return heard


def said(client: Any, heard: Heard, streamed: bool, asked: dict[str, Any]) -> Any:
    """The message of one answer."""
    if streamed:
        stream = now(client.chat.completions.stream(**asked, stream_options={"include_usage": True}))
        for event in each(stream):
            if event.type == "content.delta":
                heard.text += event.delta
        answer = now(stream.get_final_completion())
    else:
        answer = now(client.chat.completions.create(**asked))
        heard.text += answer.choices[0].message.content or ""
    heard.usage = (answer.usage.prompt_tokens, answer.usage.completion_tokens)
    return answer.choices[0].message


def parse(question: Question) -> Heard:
    """A typed answer."""
    heard, client = Heard(), connected(question)
    messages: Any = [{"role": "user", "content": question["prompt"]}]
    asked: Any = {"model": question["model"], "messages": messages, "response_format": Place}
    if question["stream"]:
        with client.chat.completions.stream(**asked) as stream:
            answer: Any = stream.get_final_completion()
    else:
        answer = client.chat.completions.parse(**asked)
    heard.value = answer.choices[0].message.parsed.model_dump()
    return heard


def see(question: Question) -> Heard:
    heard = Heard()
    parts: Any = [
        {"type": "text", "text": question["prompt"]},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{question['image']}"}},
    ]
    answer = connected(question).chat.completions.create(
        model=question["model"], messages=[{"role": "user", "content": parts}]
    )
    heard.text = answer.choices[0].message.content
    return heard


def embed(question: Question) -> Heard:
    found = now(connected(question).embeddings.create(model=question["model"], input=question["texts"]))
    return Heard(value=[row.embedding for row in found.data], usage=(found.usage.prompt_tokens, 0))


if __name__ == "__main__":
    serve({"talk": talk, "parse": parse, "see": see, "embed": embed})
