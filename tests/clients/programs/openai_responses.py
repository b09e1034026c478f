"""OpenAI's own client: the Responses API."""

from __future__ import annotations

from typing import Any

import openai

from tests.clients.heard import DESCRIPTION, FOUND, LOOK_UP, PARAMETERS, ROUNDS, Heard, Question, each, now, serve
from tests.clients.programs.openai_chat import Place, connected

TOOL = {"type": "function", "name": LOOK_UP, "description": DESCRIPTION, "parameters": PARAMETERS, "strict": False}


def talk(question: Question) -> Heard:
    """A conversation to its end; the whole of it is sent each time."""
    heard, client = Heard(), connected(question)
    told: list[Any] = [{"role": "user", "content": question["prompt"]}]
    more = {"tools": [TOOL]} if question["tools"] else {}
    with heard.erring(openai.OpenAIError):
        for _ in range(ROUNDS):
            asked = {"model": question["model"], "input": told, "extra_headers": question["headers"], **more}
            output = said(client, heard, question["stream"], asked)
            calls = [item for item in output if item.type == "function_call"]
            told += [item.to_dict() for item in output]
            told += [{"type": "function_call_output", "call_id": call.call_id, "output": FOUND} for call in calls]
            for call in calls:
                heard.call(call.name, call.arguments)
            if not calls:
                break
    return heard


def said(client: Any, heard: Heard, streamed: bool, asked: dict[str, Any]) -> list[Any]:
    """The items of one answer."""
    if streamed:
        for event in each(now(client.responses.create(**asked, stream=True))):
            if event.type == "response.output_text.delta":
                heard.text += event.delta
            last = event
        answer = last.response
    else:
        answer = now(client.responses.create(**asked))
        heard.text += answer.output_text
    if answer.status != "completed":
        heard.error = {"kind": f"response.{answer.status}", **answer.error.to_dict()}
        return []
    heard.usage = (answer.usage.input_tokens, answer.usage.output_tokens)
    return list(answer.output)


def parse(question: Question) -> Heard:
    """A typed answer."""
    client = connected(question)
    asked: Any = {"model": question["model"], "input": question["prompt"], "text_format": Place}
    if question["stream"]:
        with client.responses.stream(**asked) as stream:
            answer: Any = stream.until_done().get_final_response()
    else:
        answer = client.responses.parse(**asked)
    return Heard(value=answer.output_parsed.model_dump())


def see(question: Question) -> Heard:
    parts: Any = [
        {"type": "input_text", "text": question["prompt"]},
        {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{question['image']}"},
    ]
    told: Any = [{"role": "user", "content": parts}]
    return Heard(text=connected(question).responses.create(model=question["model"], input=told).output_text)


if __name__ == "__main__":
    serve({"talk": talk, "parse": parse, "see": see})
