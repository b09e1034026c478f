"""The bundled catalogue, and the demo providers."""

from __future__ import annotations

import orjson
import pytest

from decision_service.catalog import Catalog
from decision_service.kernel.knowledge.tiers import economic_tier
from decision_service.kernel.model import EconomicTier, ProviderClass
from decision_service.roster_source import parse_demo
from service_kit.errors import Reason, ServiceError

CATALOG = Catalog()


@pytest.mark.parametrize(
    ("name", "dialect", "base_url", "variable"),
    [
        ("openai", "openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("anthropic", "anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
        ("google", "gemini", "https://generativelanguage.googleapis.com/v1beta", "GEMINI_API_KEY"),
        ("groq", "openai", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        ("openrouter", "openai", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        ("kimi-for-coding", "anthropic", "https://api.kimi.com/coding/v1", "KIMI_API_KEY"),
    ],
)
def test_how_providers_are_spoken_to(name: str, dialect: str, base_url: str, variable: str) -> None:
    provider = CATALOG.provider(name)
    assert provider is not None
    assert (provider.dialect, provider.base_url) == (dialect, base_url)
    assert variable in provider.env_names


def test_every_provider_has_an_endpoint_or_says_that_a_connection_must_name_it() -> None:
    for name in CATALOG.ids:
        provider = CATALOG.provider(name)
        assert provider is not None
        assert "$" not in provider.base_url
        assert provider.base_url == "" or provider.base_url.startswith(
            ("https://", "http://127.0.0.1:", "http://local")
        )
    assert CATALOG.provider("azure").base_url == ""  # type: ignore[union-attr]
    assert CATALOG.provider("nobody") is None


def test_facts_are_what_the_catalogue_tells_and_no_more() -> None:
    openai = CATALOG.provider("openai")
    assert openai is not None
    gpt = openai.facts["gpt-4o"]
    assert (gpt.input_price, gpt.output_price, gpt.cached_input_price) == (2.5, 10.0, 1.25)
    assert (gpt.context_window, gpt.max_output) == (128_000, 16_384)
    assert gpt.has == {"tools", "vision", "structured_output"}
    assert gpt.lacks == {"audio", "reasoning", "embeddings"}
    image = openai.facts["chatgpt-image-latest"]
    assert (image.input_price, image.context_window, image.max_output) == (None, None, None)
    assert "structured_output" not in image.has | image.lacks
    assert "embeddings" in openai.facts["text-embedding-3-small"].has
    for name in CATALOG.ids:
        for facts in CATALOG.provider(name).facts.values():  # type: ignore[union-attr]
            assert not facts.has & facts.lacks
            assert facts.context_window != 0
            assert (facts.input_price or 0) >= 0


def test_models_that_end_in_free_are_free() -> None:
    router = CATALOG.provider("openrouter")
    assert router is not None
    free = [name for name in router.models if name.endswith(":free")]
    assert free
    assert all(economic_tier(router.facts[name]) is EconomicTier.FREE for name in free)


@pytest.mark.parametrize("name", ["openai", "anthropic", "google", "groq", "mistral", "xai", "deepseek", "openrouter"])
def test_the_first_model_is_a_sound_default(name: str) -> None:
    provider = CATALOG.provider(name)
    assert provider is not None
    facts = provider.facts[provider.models[0]]
    assert {"tools"} <= facts.has
    assert "embeddings" not in facts.has
    assert facts.input_price is not None
    assert facts.input_price <= 3
    assert facts.context_window


def test_classes() -> None:
    classes = {name: CATALOG.provider(name).provider_class for name in ("openai", "github-copilot", "lmstudio")}  # type: ignore[union-attr]
    assert list(classes.values()) == [ProviderClass.API_KEY, ProviderClass.OAUTH, ProviderClass.LOCAL]
    assert CATALOG.provider("ollama-local").provider_class is ProviderClass.LOCAL  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["OPENAI_API_KEY", "PATH"], {"openai": "OPENAI_API_KEY"}),
        (["GEMINI_API_KEY"], {"google": "GEMINI_API_KEY"}),
        (["GEMINI_API_KEY", "GOOGLE_API_KEY"], {"google": "GOOGLE_API_KEY"}),
        (["MINIMAX_API_KEY"], {"minimax": "MINIMAX_API_KEY"}),
        (["ZHIPU_API_KEY"], {"zai": "ZHIPU_API_KEY"}),
        (["HF_TOKEN"], {"huggingface": "HF_TOKEN"}),
        (["GITHUB_TOKEN", "AWS_ACCESS_KEY_ID", "AZURE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"], {}),
        ([], {}),
    ],
)
def test_key_variables_name_providers(names: list[str], found: dict[str, str]) -> None:
    assert CATALOG.by_variable(names) == found


def test_vendors_are_found_before_resellers() -> None:
    assert CATALOG.owner_of("gpt-4o") == "openai"
    assert CATALOG.owner_of("gemini-2.5-flash") == "google"
    assert CATALOG.owner_of("no such model") == ""


# Demo providers

GOOD = {
    "id": "demo-a",
    "base_url": "http://127.0.0.1:9/v1",
    "class": "local",
    "models": [{"id": "tiny", "input_price": 0, "max_output_tokens": 9, "capabilities": ["tools", "-vision"]}],
}


def test_demo_providers() -> None:
    (provider,) = parse_demo(orjson.dumps([GOOD]).decode())
    assert (provider.id, provider.provider_class, provider.models) == ("demo-a", ProviderClass.LOCAL, ("tiny",))
    facts = provider.facts["tiny"]
    assert (facts.input_price, facts.output_price, facts.max_output) == (0, None, 9)
    assert (set(facts.has), set(facts.lacks)) == ({"tools"}, {"vision"})
    assert parse_demo("") == ()


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ("{", "demo_providers"),
        ("{}", "demo_providers"),
        ([1], "demo_providers[0]"),
        ([GOOD, {**GOOD, "base_url": "x"}], "demo_providers[1].base_url"),
        ([{**GOOD, "class": "x"}], "demo_providers[0].class"),
        ([{**GOOD, "id": None}], "demo_providers[0].id"),
        ([{**GOOD, "models": []}], "demo_providers[0].models"),
        ([{**GOOD, "models": [{}]}], "demo_providers[0].models[0].id"),
        ([{**GOOD, "models": [{"id": "x", "input_price": -1}]}], "demo_providers[0].models[0].input_price"),
        ([{**GOOD, "colour": 1}], "demo_providers[0].colour"),
    ],
)
def test_bad_demo_providers_are_refused(raw: object, field: str) -> None:
    with pytest.raises(ServiceError) as caught:
        parse_demo(raw if isinstance(raw, str) else orjson.dumps(raw).decode())
    assert (caught.value.reason, caught.value.field) == (Reason.INVALID_FIELD, field)
