"""Dialects of clients: how a request is read, and how answers, streams and errors are written."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executor.clients.anthropic_messages import AnthropicMessages
from executor.clients.openai_chat import OpenAIChat
from executor.clients.openai_responses import OpenAIResponses
from executor.clients.port import Client
from executor.model import ClientDialect

CLIENTS: Mapping[ClientDialect, Client] = MappingProxyType(
    {
        ClientDialect.OPENAI_CHAT: OpenAIChat(),
        ClientDialect.OPENAI_RESPONSES: OpenAIResponses(),
        ClientDialect.ANTHROPIC_MESSAGES: AnthropicMessages(),
    }
)
