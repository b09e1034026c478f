"""Demo providers: simulated ones that a launcher starts beside the service; never stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from decision_service.catalog import KnownProvider
from decision_service.kernel.model import UNKNOWN_FACTS, ModelFacts, ProviderClass
from decision_service.policy.fields import (
    Reader,
    choice,
    each,
    http_url,
    number,
    read_fields,
    shape,
    text,
    whole,
)
from decision_service.policy.known import TRUSTED
from decision_service.policy.vocabulary import CAPABILITY_WORDS
from decision_service.roster_source.knowledge import overridden
from service_kit.errors import invalid

PATH = "demo_providers"
MOST = 64

PROVIDER: Mapping[str, Reader] = {
    "id": text(64, least=1),
    "base_url": http_url,
    "class": choice(tuple(ProviderClass)),
    "models": lambda value, path, _known: tuple(_model(item, at) for item, at in _items(value, path)),
}
MODEL: Mapping[str, Reader] = {
    "id": text(200, least=1),
    "input_price": number(0),
    "output_price": number(0),
    "context_window": whole(1),
    "max_output_tokens": whole(1),
    "capabilities": each(choice(CAPABILITY_WORDS), 64),
}


def parse_demo(raw: str) -> tuple[KnownProvider, ...]:
    """The providers of the setting ``demo_providers``, a JSON list; empty: none. Raises INVALID_FIELD."""
    if not raw:
        return ()
    try:
        listed = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise invalid(PATH, f"a text of {len(raw)} characters that is no JSON", "a JSON list") from None
    return tuple(_provider(item, at) for item, at in _items(listed, PATH))


def _provider(raw: Any, path: str) -> KnownProvider:
    given = read_fields(raw, path, PROVIDER, TRUSTED)
    for key in ("id", "base_url", "models"):
        if not given.get(key):
            raise invalid(f"{path}.{key}", "nothing", "a value; it is required")
    return KnownProvider(
        id=given["id"],
        name=f"{given['id']} (simulated)",
        provider_class=ProviderClass(given.get("class", ProviderClass.LOCAL)),
        base_url=given["base_url"],
        facts=dict(given["models"]),
    )


def _model(raw: Any, path: str) -> tuple[str, ModelFacts]:
    given = read_fields(raw, path, MODEL, TRUSTED)
    if "id" not in given:
        raise invalid(f"{path}.id", "nothing", "the model's id")
    model = given.pop("id")
    return model, overridden(UNKNOWN_FACTS, given)


def _items(value: Any, path: str) -> list[tuple[Any, str]]:
    """The items of a list, each with its path."""
    if not isinstance(value, list) or len(value) > MOST:
        raise invalid(path, shape(value), f"a list of at most {MOST}")
    return [(item, f"{path}[{index}]") for index, item in enumerate(value)]
