"""Answers in JSON, for models that are asked for it in words and for vendors that read schemas strictly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from executor.dialects.frames import Untranslatable

MAX_DEPTH = 100
JSON_ONLY = "Answer with one JSON object and nothing else: no code fence, no words around it."

# Constraints that Anthropic's structured outputs refuse.
UNKNOWN_KEYWORDS = frozenset(
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength maxItems uniqueItems "
    "minProperties maxProperties patternProperties".split()
)
NAMED_SCHEMAS = ("properties", "$defs", "definitions")
LISTED_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")


def schema_asked_for(schema: Mapping[str, Any]) -> str:
    """An instruction to answer by ``schema``."""
    return f"{JSON_ONLY} It has to fit this JSON schema:\n{orjson.dumps(schema).decode()}"


def strict(schema: Any, depth: int = 0) -> Any:
    """The schema with closed objects and without the constraints that only validation after the fact can hold.

    Raises Untranslatable for one that is nested too deep.
    """
    if not isinstance(schema, dict):
        return schema
    if depth > MAX_DEPTH:
        raise Untranslatable(f"response_format holds a schema of more than {MAX_DEPTH} levels")
    told = {key: value for key, value in schema.items() if key not in UNKNOWN_KEYWORDS}
    for key in NAMED_SCHEMAS:
        if isinstance(told.get(key), dict):
            told[key] = {name: strict(inner, depth + 1) for name, inner in told[key].items()}
    for key in LISTED_SCHEMAS:
        if isinstance(told.get(key), list):
            told[key] = [strict(inner, depth + 1) for inner in told[key]]
    if "items" in told:
        told["items"] = strict(told["items"], depth + 1)
    if told.get("type") == "object" or "properties" in told:
        told["additionalProperties"] = False
    return told
