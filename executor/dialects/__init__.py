"""Wire dialects of upstreams, by the name that a target gives."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executor.dialects.anthropic import Anthropic
from executor.dialects.frames import Dialect
from executor.dialects.gemini import Gemini
from executor.dialects.openai import OpenAI

DIALECTS: Mapping[str, Dialect] = MappingProxyType({"openai": OpenAI(), "anthropic": Anthropic(), "gemini": Gemini()})
