"""Every refusal carries its reason, the field that is wrong, and how long to wait where that is known."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import pytest

from omniroute.decision.v1 import decision_pb2 as pb
from omniroute.registry.v1 import registry_pb2
from tests.decision_service.client import Client, Refusal, refused
from tests.decision_service.loopback import EDGE_TOKEN

Code = grpc.StatusCode
Scene = Callable[[Client], Awaitable[Refusal]]


@dataclass(frozen=True)
class Expected:
    """``retry_ms`` is the longest and the shortest wait that fits; None: no wait is told."""

    code: grpc.StatusCode
    reason: str
    field: str = ""
    says: str = ""
    retry_ms: tuple[int, int] | None = None


async def no_model(service: Client) -> Refusal:
    return await refused(service.decide(""))


async def unknown_model(service: Client) -> Refusal:
    await service.add_target("ant")
    return await refused(service.decide("aunt/ant-model"))


async def unknown_channel(service: Client) -> Refusal:
    return await refused(service.decide("auto/nonsense"))


async def nothing_connected(service: Client) -> Refusal:
    return await refused(service.decide("auto"))


async def blind_model(service: Client) -> Refusal:
    model = await service.add_target("ant", capabilities=["tools"])
    return await refused(service.decide(model, features=pb.RequestFeatures(needs_vision=True)))


async def small_window(service: Client) -> Refusal:
    model = await service.add_target("ant", context_window=1_000)
    return await refused(service.decide(model, features=pb.RequestFeatures(input_tokens=1_001)))


async def smaller_than_the_client_wants(service: Client) -> Refusal:
    model = await service.add_target("ant", context_window=1_000)
    return await refused(service.decide(model, controls=pb.RequestControls(min_context_tokens=2_000)))


async def strict_budget(service: Client) -> Refusal:
    await service.add_target("ant", input_price=10.0)
    controls = pb.RequestControls(budget_usd=0.001, budget_fallback="strict")
    features = pb.RequestFeatures(input_tokens=1_000, max_output_tokens=0)
    return await refused(service.decide("auto", features=features, controls=controls))


async def model_not_allowed(service: Client) -> Refusal:
    model = await service.add_target("ant")
    made = await service.add_key("k", allowed_models=["bee/*"])
    return await refused(service.decide(model, api_key_id=made.key.id))


async def all_rate_limited(service: Client) -> Refusal:
    model = await service.add_target("ant")
    await service.attempt(model, "RATE_LIMITED", retry_after_ms=60_000)
    return await refused(service.decide(model))


async def breaker_open(service: Client) -> Refusal:
    model = await service.add_target("ant")
    for _ in range(2):
        await service.attempt(model, "UPSTREAM_ERROR")
    return await refused(service.decide(model))


async def one_limited_one_refused(service: Client) -> Refusal:
    """Not every reason is a rate limit; the earliest recovery counts."""
    first, second = await service.add_target("ant"), await service.add_target("bee")
    await service.add_combo("both", [first, second])
    await service.attempt(first, "RATE_LIMITED", retry_after_ms=600_000)
    await service.attempt(second, "AUTH_FAILED")
    return await refused(service.decide("both"))


async def unknown_key(service: Client) -> Refusal:
    await service.add_key("k")
    request = registry_pb2.AuthenticateRequest(secret="not a key")
    return await refused(service.keys.Authenticate(request, metadata=(("x-omniroute-token", EDGE_TOKEN),)))


async def not_the_executor(service: Client) -> Refusal:
    await service.add_target("ant")
    request = registry_pb2.ResolveRequest(connection_id="ant-1")
    return await refused(service.secrets.Resolve(request, metadata=(("x-omniroute-token", EDGE_TOKEN),)))


async def unknown_decision(service: Client) -> Refusal:
    return await refused(service.record("dec_nobody_1"))


async def taken_id(service: Client) -> Refusal:
    await service.add_target("ant")
    return await refused(service.add_connection("ant-1", "ant"))


async def old_etag(service: Client) -> Refusal:
    await service.add_target("ant")
    changed = registry_pb2.Connection(id="ant-1", provider="ant", label="new", etag="of another version")
    request = registry_pb2.UpdateConnectionRequest(connection=changed)
    return await refused(service.connections.UpdateConnection(request))


UNAVAILABLE = "NO_AVAILABLE_TARGET"
SCENES: dict[Scene, Expected] = {
    no_model: Expected(Code.INVALID_ARGUMENT, "INVALID_FIELD", "model", "model: got nothing"),
    unknown_model: Expected(Code.NOT_FOUND, "MODEL_NOT_FOUND", "model", "near matches: ant/ant-model"),
    unknown_channel: Expected(Code.NOT_FOUND, "MODEL_NOT_FOUND", "model", "coding"),
    nothing_connected: Expected(Code.UNAVAILABLE, UNAVAILABLE, says="no connection"),
    blind_model: Expected(Code.INVALID_ARGUMENT, "CAPABILITY_MISMATCH", says="vision"),
    small_window: Expected(Code.INVALID_ARGUMENT, "CONTEXT_LENGTH_EXCEEDED", says="window 1000 < 1001"),
    smaller_than_the_client_wants: Expected(
        Code.INVALID_ARGUMENT, "CONTEXT_LENGTH_EXCEEDED", says="X-OmniRoute-Min-Context"
    ),
    strict_budget: Expected(Code.FAILED_PRECONDITION, "BUDGET_EXCEEDED", says="cap 0.001 USD"),
    model_not_allowed: Expected(Code.PERMISSION_DENIED, "POLICY_EXCLUDES_ALL", says="key_models"),
    all_rate_limited: Expected(Code.RESOURCE_EXHAUSTED, UNAVAILABLE, says="cooldown: 1", retry_ms=(50_000, 60_000)),
    breaker_open: Expected(Code.UNAVAILABLE, UNAVAILABLE, says="breaker: 1", retry_ms=(5_000, 15_000)),
    one_limited_one_refused: Expected(Code.UNAVAILABLE, UNAVAILABLE, says="cooldown: 2", retry_ms=(290_000, 300_000)),
    unknown_key: Expected(Code.UNAUTHENTICATED, "UNAUTHENTICATED"),
    not_the_executor: Expected(Code.PERMISSION_DENIED, "FORBIDDEN"),
    unknown_decision: Expected(Code.NOT_FOUND, "NOT_FOUND", "decision_id"),
    taken_id: Expected(Code.ALREADY_EXISTS, "ALREADY_EXISTS", "id"),
    old_etag: Expected(Code.ABORTED, "CONFLICT", "etag"),
}


@pytest.mark.parametrize(("scene", "expected"), SCENES.items(), ids=lambda value: getattr(value, "__name__", ""))
async def test_refusal(service: Client, scene: Scene, expected: Expected) -> None:
    told = await scene(service)
    assert (told.code, told.reason, told.field) == (expected.code, expected.reason, expected.field)
    assert expected.says in told.message
    if expected.retry_ms is None:
        assert told.retry_after_ms is None
    else:
        shortest, longest = expected.retry_ms
        assert told.retry_after_ms is not None
        assert shortest <= told.retry_after_ms <= longest


OVERSIZE: dict[str, dict[str, Any]] = {
    "model": {"model": "x" * 513},
    "request_id": {"request_id": "x" * 129},
    "api_key_id": {"api_key_id": "x" * 129},
    "session_id": {"session_id": "x" * 257},
    "features.last_user_text": {"features": pb.RequestFeatures(last_user_text="x" * 16_001)},
    "features.task_type": {"features": pb.RequestFeatures(task_type="x" * 100_000)},
    "features.prompt_cache_key": {"features": pb.RequestFeatures(prompt_cache_key="x" * 100_000)},
    "features.prompt_prefix_hash": {"features": pb.RequestFeatures(prompt_prefix_hash="x" * 100_000)},
    "features.operation": {"features": pb.RequestFeatures(operation=77)},  # type: ignore[arg-type]
    "features.specificity": {"features": pb.RequestFeatures(specificity=float("nan"))},
}


@pytest.mark.parametrize("field", OVERSIZE)
async def test_a_field_out_of_bounds_is_named(service: Client, field: str) -> None:
    await service.add_target("ant")
    request: dict[str, Any] = {"model": "ant/ant-model", **OVERSIZE[field]}
    told = await refused(service.decide(**request))
    assert (told.code, told.reason, told.field) == (Code.INVALID_ARGUMENT, "INVALID_FIELD", field)
    assert told.message.startswith(f"{field}: got ")
    assert len(told.message) < 300


async def test_a_field_at_its_bound_is_taken(service: Client) -> None:
    model = await service.add_target("ant")
    features = pb.RequestFeatures(last_user_text="é" * 16_000, specificity=100.0)
    fields = {"request_id": "x" * 128, "api_key_id": "x" * 128, "session_id": "x" * 256}
    assert (await service.decide(model, features=features, **fields)).decision_id


async def test_controls_that_make_no_sense_are_ignored_and_named(service: Client) -> None:
    model = await service.add_target("ant")
    controls = pb.RequestControls(
        mode="x" * 10_000, budget_usd=float("nan"), budget_fallback="perhaps", min_context_tokens=0, effort="high"
    )
    decision = await service.decide(model, controls=controls)
    assert set(decision.ignored_controls) == {"mode", "budget_usd", "budget_fallback", "effort"}


@pytest.mark.parametrize("field", ["model", "request_id", "api_key_id", "session_id"])
@pytest.mark.parametrize("character", ["\0", "\x1f", "\n", "\x7f"])
async def test_a_control_character_is_in_no_name(service: Client, field: str, character: str) -> None:
    model = await service.add_target("ant")
    told = await refused(service.decide(**{"model": model, field: f"ant/a{character}b"}))
    assert (told.reason, told.field) == ("INVALID_FIELD", field)
    assert character not in told.message
    assert "control character" in told.message
