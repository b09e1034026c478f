"""Embeddings: OpenAI's request as batchEmbedContents, and the answer back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from executor.dialects import chat, wishes
from executor.dialects.frames import Untranslatable
from executor.model import Call, Target


def request_of(call: Call, target: Target) -> dict[str, Any]:
    """Raises Untranslatable for input that is no text: tokens mean nothing to another vendor's model."""
    given = call.body.get("input")
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise Untranslatable("input holds something else than texts")
    dimensions = wishes.whole(call.body, "dimensions")
    size = {} if dimensions is None else {"outputDimensionality": dimensions}
    model = f"models/{target.model.removeprefix('models/')}"
    return {"requests": [{"model": model, "content": {"parts": [{"text": text}]}, **size} for text in texts]}


def embeddings_of(response: Mapping[str, Any], model: str) -> dict[str, Any]:
    """The vectors as lists of numbers. The vendor tells no usage."""
    vectors = [embedding.get("values") for embedding in chat.mappings(response.get("embeddings"))]
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    return {"object": "list", "data": data, "model": model, "usage": {"prompt_tokens": 0, "total_tokens": 0}}
