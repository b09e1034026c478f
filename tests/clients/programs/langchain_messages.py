"""LangChain's client of Anthropic's protocol."""

from __future__ import annotations

import anthropic
from langchain_anthropic import ChatAnthropic

from tests.clients.heard import LIMIT_S, Heard, Question, serve
from tests.clients.programs import langchain_talk


def connected(question: Question) -> ChatAnthropic:
    return ChatAnthropic(
        base_url=question["url"],
        api_key=question["key"],
        model=question["model"],
        default_headers=question["headers"],
        max_tokens=99,
        max_retries=0,
        timeout=LIMIT_S,
    )


def talk(question: Question) -> Heard:
    return langchain_talk.talk(connected(question), question, anthropic.AnthropicError)


def parse(question: Question) -> Heard:
    return langchain_talk.parse(connected(question), question)


def see(question: Question) -> Heard:
    return langchain_talk.see(connected(question), question)


if __name__ == "__main__":
    serve({"talk": talk, "parse": parse, "see": see})
