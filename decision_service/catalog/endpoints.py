"""How providers are spoken to, where the catalogue does not say it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

OPENAI, ANTHROPIC, GEMINI = "openai", "anthropic", "gemini"
DIALECTS = (OPENAI, ANTHROPIC, GEMINI)

# Client library that the catalogue names -> dialect; every other one speaks OpenAI's.
DIALECT_OF_LIBRARY: Mapping[str, str] = MappingProxyType(
    {
        "@ai-sdk/anthropic": ANTHROPIC,
        "@ai-sdk/google-vertex/anthropic": ANTHROPIC,
        "@ai-sdk/google": GEMINI,
        "@ai-sdk/google-vertex": GEMINI,
    }
)

# Base URLs end where the path of an operation begins: `/chat/completions`, `/messages`, `/models/...`.
BASE_URLS: Mapping[str, str] = MappingProxyType(
    {
        "aihubmix": "https://aihubmix.com/v1",
        "anthropic": "https://api.anthropic.com/v1",
        "cerebras": "https://api.cerebras.ai/v1",
        "cohere": "https://api.cohere.ai/compatibility/v1",
        "deepinfra": "https://api.deepinfra.com/v1/openai",
        "google": "https://generativelanguage.googleapis.com/v1beta",
        "groq": "https://api.groq.com/openai/v1",
        "mistral": "https://api.mistral.ai/v1",
        "openai": "https://api.openai.com/v1",
        "perplexity": "https://api.perplexity.ai",
        "togetherai": "https://api.together.xyz/v1",
        "v0": "https://api.v0.dev/v1",
        "venice": "https://api.venice.ai/api/v1",
        "vercel": "https://ai-gateway.vercel.sh/v1",
        "xai": "https://api.x.ai/v1",
    }
)

# Servers on the operator's own machine: they need no credential.
LOCAL_HOSTS = ("http://127.0.0.1:", "http://localhost:")


def base_url(provider: str, catalogued: str | None) -> str:
    """The API's base URL; empty where it depends on the account, so that a connection has to name it."""
    url = (catalogued or BASE_URLS.get(provider, "")).rstrip("/")
    return "" if "${" in url else url
