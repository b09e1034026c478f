"""What LangChain's chat models have in common."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel

from tests.clients.heard import FOUND, LOOK_UP, ROUNDS, Heard, Question, each, now


class Place(BaseModel):
    """Where it is."""

    city: str
    ants: int


@tool(LOOK_UP)  # type: ignore[untyped-decorator, unused-ignore]
def look_up(q: str) -> str:
    """Looks something up."""
    return FOUND


def talk(model: Any, question: Question, *errors: type[Exception]) -> Heard:
    """A conversation to its end; the tool is run whenever it is called."""
    heard = Heard()
    bound = model.bind_tools([look_up]) if question["tools"] else model
    messages: list[Any] = [HumanMessage(question["prompt"])]
    with heard.erring(*errors):
        for _ in range(ROUNDS):
            message = said(bound, heard, messages, question)
            messages.append(message)
            for call in message.tool_calls:
                heard.call(call["name"], call["args"])
                messages.append(ToolMessage(look_up.invoke(call["args"]), tool_call_id=call["id"]))
            usage = message.usage_metadata
            heard.usage = (usage["input_tokens"], usage["output_tokens"])
            if not message.tool_calls:
                break
    return heard


def said(model: Any, heard: Heard, messages: list[Any], question: Question) -> Any:
    """One message; a stream's pieces are added up as LangChain adds them."""
    is_async = question.get("is_async")
    if not question["stream"]:
        message = now(model.ainvoke(messages)) if is_async else model.invoke(messages)
        heard.text += message.text
        return message
    message = None
    for piece in each(model.astream(messages) if is_async else model.stream(messages)):
        heard.text += piece.text
        message = piece if message is None else message + piece
    return message


def parse(model: Any, question: Question) -> Heard:
    """A typed answer, by a schema or by a call."""
    asked = model.with_structured_output(Place, method=question["method"])
    if question["stream"]:
        *_, found = asked.stream(question["prompt"])
    else:
        found = asked.invoke(question["prompt"])
    return Heard(value=found.model_dump())


def see(model: Any, question: Question) -> Heard:
    picture = {"type": "image", "base64": question["image"], "mime_type": "image/png"}
    answer = model.invoke([HumanMessage(content=[{"type": "text", "text": question["prompt"]}, picture])])
    return Heard(text=answer.text)
