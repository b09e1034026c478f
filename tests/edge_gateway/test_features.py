"""Features, prefix, session and controls: pure functions of a body and its headers."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge_gateway import controls, features, tokens
from edge_gateway.dialects import chat as chat_body
from edge_gateway.dialects import chat_fields
from service_kit.errors import ServiceError
from tests.edge_gateway.conftest import chat

USER = {"role": "user", "content": "Fix the bug"}
SYSTEM = {"role": "system", "content": "You are terse."}
ASSISTANT = {"role": "assistant", "content": "Done."}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "ok"}
RESULT_IN_USER = {"role": "user", "content": [{"type": "tool_result", "content": "ok"}, {"type": "tool_result"}]}
TOOL = {"type": "function", "function": {"name": "f"}}


def of(*messages: dict[str, Any], **fields: Any) -> Any:
    return features.of(chat_body.read({"model": "auto", "messages": list(messages)} | fields))


def session_of(api_key_id: str, body: dict[str, Any]) -> str:
    return features.session_id(api_key_id, chat_body.read(body))


def test_plain_question() -> None:
    found = of(SYSTEM, USER, max_tokens=50, stream=True)
    assert (found.last_user_text, found.last_user_chars) == ("Fix the bug", 11)
    assert found.max_output_tokens == 50
    assert found.stream
    assert found.input_tokens == found.context_tokens_to_last_user == 2 * tokens.PER_MESSAGE + 4 + 3
    quiet = ("has_tools", "needs_vision", "needs_audio", "needs_structured_output", "is_tool_continuation")
    assert not [name for name in (*quiet, "tool_rounds", "tool_results_before_last_user") if getattr(found, name)]


def test_output_limit_of_today_goes_first() -> None:
    assert of(USER, max_tokens=50, max_completion_tokens=70).max_output_tokens == 70
    assert not of(USER, max_tokens=None).HasField("max_output_tokens")


def test_tools() -> None:
    found = of(USER, tools=[TOOL, TOOL], tool_choice="none")
    assert (found.has_tools, found.tool_count, found.tool_choice_none) == (True, 2, True)
    assert found.input_tokens > of(USER).input_tokens
    assert not of(USER, tools=[]).has_tools
    assert of(USER, functions=[{"name": "f"}], function_call="none").tool_choice_none


@pytest.mark.parametrize(
    ("part", "vision", "audio"),
    [
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9000}}, True, False),
        ({"type": "input_image"}, True, False),
        ({"type": "input_audio", "input_audio": {"data": "A" * 9000, "format": "wav"}}, False, True),
        ({"type": "file", "file": {"file_data": "A" * 9000}}, False, False),
        ({"type": "text", "text": "image_url"}, False, False),
    ],
    ids=lambda value: value.get("type") if isinstance(value, dict) else None,
)
def test_media(part: dict[str, Any], vision: bool, audio: bool) -> None:
    found = of({"role": "user", "content": [{"type": "text", "text": "What is this?"}, part]})
    assert (found.needs_vision, found.needs_audio) == (vision, audio)
    assert found.input_tokens < 800, "a flat count, whatever the size of the data"
    assert found.last_user_text.startswith("What is this?")


def test_audio_may_be_asked_for() -> None:
    assert of(USER, modalities=["text", "audio"]).needs_audio
    assert of(USER, audio={"voice": "x"}).needs_audio
    assert not of(USER, modalities=["text"]).needs_audio


def test_structured_output() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    assert of(USER, response_format=schema).needs_structured_output
    assert of(USER, response_format={"type": "json_object"}).needs_structured_output
    assert not of(USER, response_format={"type": "text"}).needs_structured_output


@pytest.mark.parametrize("field", ["reasoning_effort", "reasoning", "thinking"])
def test_reasoning_fields(field: str) -> None:
    assert of(USER, **{field: {}}).has_reasoning_params


def test_tool_loop() -> None:
    loop = of(USER, CALL, RESULT, CALL, RESULT)
    assert (loop.is_tool_continuation, loop.tool_rounds, loop.tool_results_before_last_user) == (True, 2, 0)
    assert loop.last_user_text == "Fix the bug"
    after = of(USER, CALL, RESULT, RESULT, ASSISTANT, USER)
    assert (after.is_tool_continuation, after.tool_rounds, after.tool_results_before_last_user) == (False, 0, 2)


def test_every_request_of_a_tool_loop_looks_the_same_up_to_the_user() -> None:
    messages: list[dict[str, Any]] = [SYSTEM, USER, CALL, RESULT, ASSISTANT, USER]
    loop: list[dict[str, Any]] = [CALL, RESULT]
    levels = set()
    for rounds in range(4):
        found = of(*messages, *(loop * rounds))
        levels.add((found.last_user_chars, found.context_tokens_to_last_user, found.tool_results_before_last_user))
    assert len(levels) == 1


def test_user_message_of_tool_results_is_a_tool_result() -> None:
    found = of(USER, CALL, RESULT_IN_USER)
    assert found.is_tool_continuation
    assert found.last_user_text == "Fix the bug"
    assert found.tool_rounds == 1
    mixed = {"role": "user", "content": [*RESULT_IN_USER["content"], {"type": "text", "text": "And?"}]}
    spoken = of(USER, CALL, mixed)
    assert (spoken.is_tool_continuation, spoken.last_user_text) == (False, "And?")
    assert of(USER, CALL, RESULT_IN_USER, USER).tool_results_before_last_user == 2


def test_long_user_text_is_cut() -> None:
    found = of({"role": "user", "content": "ü" * 20_000})
    assert (len(found.last_user_text), found.last_user_chars) == (16_000, 20_000)


def test_prefix_of_a_lone_question_is_none() -> None:
    assert of(USER).prompt_prefix_hash == ""


def test_prefix_stays_the_same_as_the_conversation_grows() -> None:
    grown = [
        of(USER, ASSISTANT, USER),
        of(USER, ASSISTANT, USER, CALL, RESULT),
        of(USER, ASSISTANT, USER, ASSISTANT, {"role": "user", "content": "More"}),
    ]
    assert len({found.prompt_prefix_hash for found in grown}) == 1
    assert grown[0].prompt_prefix_hash


def test_prefix_of_different_questions_under_one_system_turn_is_one() -> None:
    first, second = of(SYSTEM, USER), of(SYSTEM, {"role": "user", "content": "Other"})
    assert first.prompt_prefix_hash == second.prompt_prefix_hash != ""
    assert of(SYSTEM, USER, tools=[TOOL]).prompt_prefix_hash not in ("", first.prompt_prefix_hash)
    assert of(USER, tools=[TOOL]).prompt_prefix_hash


def test_cache_key() -> None:
    assert of(USER, prompt_cache_key="mine").prompt_cache_key == "mine"
    assert len(of(USER, prompt_cache_key="k" * 5000).prompt_cache_key) == 64


def test_session() -> None:
    first = session_of("key-1", chat("Hello"))
    assert first == session_of("key-1", chat("Hello") | {"messages": [SYSTEM, *chat("Hello")["messages"], ASSISTANT]})
    assert first != session_of("key-2", chat("Hello"))
    assert first != session_of("key-1", chat("Other"))
    assert session_of("key-1", {"messages": [SYSTEM]}) == ""


@pytest.mark.parametrize(
    ("text", "real"),
    [
        ("The quick brown fox jumps over the lazy dog. " * 40, 401),
        ("今天天气很好，我们去公园散步，看到了很多花。" * 20, 300),
        ("Система должна выбирать лучший маршрут для каждого запроса. " * 20, 220),
        ("El sistema debe elegir la mejor ruta según el costo y la latencia. " * 20, 280),
    ],
    ids=["english", "chinese", "russian", "spanish"],
)
def test_token_estimates(text: str, real: int) -> None:
    assert 0.65 * real <= tokens.of_text(text) <= 1.35 * real
    found = of({"role": "user", "content": text})
    assert found.least_input_tokens <= real <= 2 * found.input_tokens
    assert found.least_input_tokens >= 0.3 * real


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from([*sorted(chat_fields.ChatFields.model_fields), "reasoning", "audio", "function_call"])
MESSAGE_NAMES = st.sampled_from(["role", "content", "tool_calls", "type", "text", "function_call"])
WORDS = st.sampled_from(["user", "assistant", "tool", "system", "text", "tool_result", "image_url", "none", "auto"])
MESSAGES = st.dictionaries(MESSAGE_NAMES, JSON | WORDS | st.lists(st.dictionaries(MESSAGE_NAMES, JSON | WORDS)))
BODIES = st.dictionaries(NAMES, JSON | WORDS | st.lists(MESSAGES | JSON, max_size=5))
generous = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@generous
@given(BODIES)
def test_any_json_body_has_features(body: dict[str, Any]) -> None:
    body = orjson.loads(orjson.dumps(body))
    found = features.of(chat_body.read(body))
    assert found.context_tokens_to_last_user <= found.input_tokens
    assert len(found.last_user_text) <= features.MAX_USER_TEXT
    session_of("key", body)


@generous
@given(BODIES)
def test_any_json_body_is_fine_or_named(body: dict[str, Any]) -> None:
    refusals = []
    try:
        chat_fields.check(orjson.loads(orjson.dumps(body)))
    except ServiceError as error:
        refusals.append(error)
    assert all(refusal.field and "allowed: " in refusal.message for refusal in refusals)


HEADER_VALUES = st.text(st.characters(max_codepoint=255), max_size=80) | st.sampled_from(
    ["0.5", "1e-3", "nan", "inf", "-1", "0", "1_000", "²", "99999999999999999999", "auto"]
)


@given(st.dictionaries(st.sampled_from(sorted(controls.HEADER_OF.values())), HEADER_VALUES))
def test_any_control_is_read_or_ignored(headers: dict[str, str]) -> None:
    found = controls.read(headers)
    assert 0 <= found.routing.budget_usd < float("inf")
    assert set(found.ignored) <= set(controls.HEADER_OF)


@pytest.mark.parametrize(
    ("value", "budget", "ignored"),
    [
        (" 0.5 ", 0.5, False),
        ("1e-3", 0.001, False),
        (".5", 0.5, False),
        ("", 0.0, False),
        ("0", 0.0, True),
        ("-1", 0.0, True),
        ("nan", 0.0, True),
        ("inf", 0.0, True),
        ("1e999", 0.0, True),
        ("1_0", 0.0, True),
        ("five", 0.0, True),
    ],
)
def test_budgets(value: str, budget: float, ignored: bool) -> None:
    found = controls.read({controls.BUDGET: value})
    assert (found.routing.budget_usd, found.ignored) == (budget, ("budget_usd",) if ignored else ())


@pytest.mark.parametrize(
    ("value", "window", "ignored"),
    [("200000", 200_000, False), ("99999999999", 2**32 - 1, False), ("1.5", 0, True), ("-5", 0, True), ("0", 0, True)],
)
def test_smallest_windows(value: str, window: int, ignored: bool) -> None:
    found = controls.read({controls.MIN_CONTEXT: value})
    assert (found.routing.min_context_tokens, bool(found.ignored)) == (window, ignored)
