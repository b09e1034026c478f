"""LangChain's client of OpenAI's protocol: chat completions, or the Responses API where ``responses`` is set."""

from __future__ import annotations

from typing import Any

import openai
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from tests.clients.heard import LIMIT_S, Heard, Question, serve
from tests.clients.programs import langchain_talk


def connected(question: Question) -> ChatOpenAI:
    return ChatOpenAI(
        base_url=f"{question['url']}/v1",
        api_key=question["key"],
        model=question["model"],
        default_headers=question["headers"],
        use_responses_api=question.get("responses", False),
        stream_usage=True,
        max_retries=0,
        timeout=LIMIT_S,
    )


def talk(question: Question) -> Heard:
    """Of a response that fails it makes a ValueError."""
    return langchain_talk.talk(connected(question), question, openai.OpenAIError, ValueError)


def parse(question: Question) -> Heard:
    return langchain_talk.parse(connected(question), question)


def see(question: Question) -> Heard:
    return langchain_talk.see(connected(question), question)


def embed(question: Question) -> Heard:
    """Texts as texts; its own counting would send tokens of a tokenizer that it has to fetch."""
    given: Any = {"base_url": f"{question['url']}/v1", "api_key": question["key"], "model": question["model"]}
    embeddings = OpenAIEmbeddings(**given, check_embedding_ctx_length=False, max_retries=0)
    return Heard(value=embeddings.embed_documents(question["texts"]))


if __name__ == "__main__":
    serve({"talk": talk, "parse": parse, "see": see, "embed": embed})
