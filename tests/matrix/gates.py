"""Everything that can stop a candidate: a row each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc

from omniroute.decision.v1 import decision_pb2 as pb
from omniroute.registry.v1 import registry_pb2
from tests.matrix.policies import ANYBODY, POLICIES, Policy
from tests.matrix.world import CANDIDATES, DAY_S, FAVOURITE, HOUR_S, MODEL, PRICES, World, instant, provider_of, window

Candidates = tuple[str, ...]
Block = Callable[[World, Candidates], Awaitable[None]]

# What is stopped where only some are: the favourite, and one of the three accounts behind the dynamic step.
BY_ACCOUNT: Candidates = (FAVOURITE, "a/m@a-2")
BY_PROVIDER: Candidates = (FAVOURITE,)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a caller is told when every candidate is stopped."""

    reason: str
    code: grpc.StatusCode


UNAVAILABLE = Refusal("NO_AVAILABLE_TARGET", grpc.StatusCode.UNAVAILABLE)
LIMITED = Refusal("NO_AVAILABLE_TARGET", grpc.StatusCode.RESOURCE_EXHAUSTED)
FORBIDDEN = Refusal("POLICY_EXCLUDES_ALL", grpc.StatusCode.PERMISSION_DENIED)
INCAPABLE = Refusal("CAPABILITY_MISMATCH", grpc.StatusCode.INVALID_ARGUMENT)
TOO_LONG = Refusal("CONTEXT_LENGTH_EXCEEDED", grpc.StatusCode.INVALID_ARGUMENT)
TOO_DEAR = Refusal("BUDGET_EXCEEDED", grpc.StatusCode.FAILED_PRECONDITION)


def everywhere(_policy: Policy) -> bool:
    return True


def nowhere(_policy: Policy) -> bool:
    return False


def in_channels(policy: Policy) -> bool:
    return bool(policy.channel)


@dataclass(frozen=True, slots=True)
class Gate:
    """One reason why a candidate cannot serve.

    ``block`` brings it about for some candidates. ``filter`` and ``reason`` are how a trace tells of it, ``refusal`` is
    what comes of it when all are stopped. ``rest_s`` is how long it lasts, None: nobody knows. ``some`` is whom it
    stops where it does not stop everybody. ``asks`` are the fields of a request that it needs. ``acts`` says on which
    policies, ``keeps_out`` on which it keeps the candidate out of the pool as if it were not there. Under the policies
    ``in_part`` only some calls ask for what the candidate lacks.
    """

    name: str
    block: Block
    filter: str
    reason: str
    refusal: Refusal
    rest_s: int | None = None
    some: Candidates = BY_ACCOUNT
    asks: Mapping[str, Any] = field(default_factory=dict)
    acts: Callable[[Policy], bool] = everywhere
    keeps_out: Callable[[Policy], bool] = nowhere
    in_part: frozenset[str] = frozenset()


# What upstreams make happen


def outcome(outcome_class: str, times: int = 1, **fields: Any) -> Block:
    async def block(world: World, candidates: Candidates) -> None:
        for candidate in candidates:
            await world.happen(candidate, outcome_class, times, **fields)

    return block


async def break_providers(world: World, candidates: Candidates) -> None:
    """So many failures that the provider's breaker opens; of each provider once."""
    for candidate in {provider_of(candidate): candidate for candidate in candidates}.values():
        await world.happen(candidate, "UPSTREAM_ERROR", times=12, http_status=503)


def quota(name: str, left: float, resets_in_s: float | None, *, reached: bool = False) -> Block:
    async def block(world: World, candidates: Candidates) -> None:
        for candidate in candidates:
            await world.happen(candidate, "SUCCESS", quota=[window(name, left, resets_in_s, reached=reached)])

    return block


# What operators do


async def disable_connections(world: World, candidates: Candidates) -> None:
    for candidate in candidates:
        await world.connection(candidate, enabled=False)


async def disable_providers(world: World, candidates: Candidates) -> None:
    for provider in {provider_of(candidate) for candidate in candidates}:
        await world.provider(provider, enabled=False)


async def take_credentials(world: World, candidates: Candidates) -> None:
    for candidate in candidates:
        none = registry_pb2.CredentialInput(none=registry_pb2.NoCredential())
        await world.connection(candidate, credential=none)


async def expire_tokens(world: World, candidates: Candidates) -> None:
    token = registry_pb2.OAuthCredential(access_token="of-yesterday", expires_at=instant(-DAY_S))
    for candidate in candidates:
        await world.connection(candidate, credential=registry_pb2.CredentialInput(oauth=token))


def models(stopped: Mapping[str, Any], others: Mapping[str, Any] | None = None) -> Block:
    """Facts of the models of the stopped providers, and of the others."""

    async def block(world: World, candidates: Candidates) -> None:
        hit = {provider_of(candidate) for candidate in candidates}
        for provider in PRICES:
            facts = stopped if provider in hit else others or {}
            if facts:
                await world.model(provider, **facts)

    return block


async def hide_paid_models(world: World, candidates: Candidates) -> None:
    await models({}, {"input_price": 0.0, "output_price": 0.0})(world, candidates)
    await world.settings(hidePaidModels=True)


KEYS = (ANYBODY, *(policy.key for policy in POLICIES if policy.key != ANYBODY))


async def allow_models(world: World, candidates: Candidates) -> None:
    """Every key may use the models of the other providers alone."""
    hit = {provider_of(candidate) for candidate in candidates}
    allowed = [f"{provider}/{MODEL}" for provider in PRICES if provider not in hit] or ["another/*"]
    for key in KEYS:
        await world.key(key, allowed_models=allowed)


async def allow_connections(world: World, candidates: Candidates) -> None:
    """Every key may use the other connections alone; one that serves another model where there is no other."""
    allowed = [candidate.rpartition("@")[2] for candidate in CANDIDATES if candidate not in candidates]
    if not allowed:
        await world.client.add_target("elsewhere", api_key="key-of-elsewhere", provider_class="api_key")
        await world.provider("elsewhere", enabled=False)
        allowed = ["elsewhere-1"]
    for key in KEYS:
        await world.key(key, allowed_connections=allowed)


async def exclude(world: World, candidates: Candidates) -> None:
    for policy in POLICIES:
        if policy.key != ANYBODY:
            await policy.override(world, candidates)


# The rows


def resting(name: str, block: Block, filter_: str, reason: str, rest_s: int | None, refusal: Refusal = LIMITED) -> Gate:
    return Gate(name, block, filter_, reason, refusal, rest_s)


def needs(capability: str, *in_part: str, known_not_to: bool, **features: Any) -> Gate:
    stopped = [f"-{capability}"] if known_not_to else ["reasoning"]
    return Gate(
        f"no-{capability}",
        models({"capabilities": stopped}, {"capabilities": [capability]}),
        "capability",
        f"lacks {capability}",
        INCAPABLE,
        some=BY_PROVIDER,
        asks={"features": pb.RequestFeatures(**features)},
        in_part=frozenset(in_part),
    )


def limit(filter_: str, reason: str, refusal: Refusal, facts: Mapping[str, Any], **asks: Any) -> Gate:
    return Gate(filter_, models(facts), filter_, reason, refusal, some=BY_PROVIDER, asks=asks)


GATES = (
    Gate("breaker", break_providers, "breaker", "OPEN", UNAVAILABLE, rest_s=30, some=BY_PROVIDER),
    resting("429", outcome("RATE_LIMITED", retry_after_ms=90_000), "cooldown", "rate_limited", 90),
    resting("402", outcome("QUOTA_EXHAUSTED"), "cooldown", "quota_exhausted", HOUR_S),
    resting("401", outcome("AUTH_FAILED"), "cooldown", "auth_failed", 300, UNAVAILABLE),
    resting("limit-reached", quota("weekly", 0.4, DAY_S, reached=True), "quota", "weekly limit reached", DAY_S),
    resting("nothing-left", quota("session", 0.0, HOUR_S), "quota", "session limit reached", HOUR_S),
    resting("nobody-knows-the-reset", quota("tokens", 0.0, None), "quota", "tokens limit reached", None),
    resting("no-such-model", outcome("MODEL_NOT_FOUND"), "lockout", "model_not_found", HOUR_S, UNAVAILABLE),
    resting("529", outcome("OVERLOADED", retry_after_ms=200_000), "lockout", "overloaded", 200, UNAVAILABLE),
    resting(
        "429-of-the-model",
        outcome("RATE_LIMITED", retry_after_ms=90_000, model_scoped=True),
        "lockout",
        "rate_limited",
        90,
    ),
    Gate("disabled", disable_connections, "connection", "disabled", UNAVAILABLE, keeps_out=in_channels),
    Gate(
        "provider-disabled",
        disable_providers,
        "connection",
        "disabled",
        UNAVAILABLE,
        some=BY_PROVIDER,
        keeps_out=in_channels,
    ),
    Gate("no-credential", take_credentials, "connection", "no usable credential", UNAVAILABLE, keeps_out=in_channels),
    Gate("token-expired", expire_tokens, "connection", "credential expired", UNAVAILABLE),
    Gate("hidden", models({"hidden": True}), "hidden", "hidden model", FORBIDDEN, some=BY_PROVIDER),
    Gate("paid", hide_paid_models, "paid", "paid model", FORBIDDEN, some=BY_PROVIDER),
    Gate("key-models", allow_models, "key_models", "not allowed", FORBIDDEN, some=BY_PROVIDER),
    Gate("key-connections", allow_connections, "key_connections", "not allowed", FORBIDDEN),
    Gate("excluded-for-the-key", exclude, "override", "excluded for this key", FORBIDDEN, acts=in_channels),
    needs("tools", "pipeline", "agentic", known_not_to=True, has_tools=True),
    needs("vision", "pipeline", known_not_to=False, needs_vision=True),
    needs("audio", "pipeline", known_not_to=False, needs_audio=True),
    needs("structured_output", "pipeline", "fusion", known_not_to=True, needs_structured_output=True),
    limit(
        "capability",
        "lacks embeddings",
        INCAPABLE,
        {"capabilities": ["-embeddings"]},
        features=pb.RequestFeatures(operation=pb.OPERATION_EMBEDDINGS),
    ),
    limit(
        "context_window",
        "window 1000 < 1001",
        TOO_LONG,
        {"context_window": 1_000},
        features=pb.RequestFeatures(input_tokens=900, max_output_tokens=101),
    ),
    limit(
        "output_limit",
        "output limit 100 < 101",
        INCAPABLE,
        {"max_output_tokens": 100},
        features=pb.RequestFeatures(max_output_tokens=101),
    ),
    limit(
        "min_context",
        "window 1000 < 1001",
        TOO_LONG,
        {"context_window": 1_000},
        controls=pb.RequestControls(min_context_tokens=1_001),
    ),
    Gate(
        "strict-budget",
        models({"input_price": 1_000.0}),
        "budget",
        "estimate 1 USD > 0.5 USD",
        TOO_DEAR,
        some=BY_PROVIDER,
        asks={
            "features": pb.RequestFeatures(input_tokens=1_000, max_output_tokens=0),
            "controls": pb.RequestControls(budget_usd=0.5, budget_fallback="strict"),
        },
        acts=lambda policy: policy.scored,
    ),
)
