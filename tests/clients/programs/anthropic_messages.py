"""Anthropic's own client."""

from __future__ import annotations

from typing import Any

import anthropic
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

TOOL = {"name": LOOK_UP, "description": DESCRIPTION, "input_schema": PARAMETERS}
MAX_TOKENS = 99


class Place(BaseModel):
    city: str
    ants: int


def connected(question: Question) -> Any:
    kind: Any = anthropic.AsyncAnthropic if question.get("is_async") else anthropic.Anthropic
    return kind(base_url=question["url"], api_key=question["key"], max_retries=0, timeout=LIMIT_S)


def talk(question: Question) -> Heard:
    """A conversation to its end; the tool's results are told whenever it is called."""
    heard, client = Heard(), connected(question)
    messages: list[Any] = [{"role": "user", "content": question["prompt"]}]
    more = {"tools": [TOOL]} if question["tools"] else {}
    with heard.erring(anthropic.AnthropicError):
        for _ in range(ROUNDS):
            asked = {"model": question["model"], "messages": messages, "max_tokens": MAX_TOKENS, **more}
            message = said(client, heard, question["stream"], asked | {"extra_headers": question["headers"]})
            calls = [block for block in message.content if block.type == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": call.id, "content": FOUND} for call in calls]
            messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
            for call in calls:
                heard.call(call.name, call.input)
            assert (message.stop_reason == "tool_use") is bool(calls)
            if not calls:
                break
    return heard


def said(client: Any, heard: Heard, streamed: bool, asked: dict[str, Any]) -> Any:
    """One answer."""
    if streamed:
        stream = now(client.messages.stream(**asked))
        for text in each(stream.text_stream):
            heard.text += text
        message = now(stream.get_final_message())
    else:
        message = now(client.messages.create(**asked))
        heard.text += "".join(block.text for block in message.content if block.type == "text")
    heard.usage = (message.usage.input_tokens, message.usage.output_tokens)
    return message


def parse(question: Question) -> Heard:
    """A typed answer."""
    client = connected(question)
    messages: Any = [{"role": "user", "content": question["prompt"]}]
    asked: Any = {"model": question["model"], "max_tokens": MAX_TOKENS, "messages": messages, "output_format": Place}
    if question["stream"]:
        with client.messages.stream(**asked) as stream:
            answer: Any = stream.get_final_message()
    else:
        answer = client.messages.parse(**asked)
    return Heard(value=answer.parsed_output.model_dump())


def see(question: Question) -> Heard:
    source = {"type": "base64", "media_type": "image/png", "data": question["image"]}
    parts: Any = [{"type": "text", "text": question["prompt"]}, {"type": "image", "source": source}]
    answer: Any = connected(question).messages.create(
        model=question["model"], max_tokens=MAX_TOKENS, messages=[{"role": "user", "content": parts}]
    )
    return Heard(text=answer.content[0].text)


def count(question: Question) -> Heard:
    messages: Any = [{"role": "user", "content": question["prompt"]}]
    counted = now(connected(question).messages.count_tokens(model=question["model"], messages=messages))
    return Heard(usage=(counted.input_tokens, 0))


if __name__ == "__main__":
    serve({"talk": talk, "parse": parse, "see": see, "count": count})
