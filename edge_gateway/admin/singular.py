"""Operations on what there is one of, and on what nobody stores: settings, channels, decisions, state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from edge_gateway.admin import codec, standard
from edge_gateway.admin.asks import Act, Answer, Ask, Operation, read_query
from edge_gateway.admin.resources import OVERRIDES
from edge_gateway.admin.rpc import Remote, method
from edge_gateway.auth import INFERENCE
from edge_gateway.json_body import Json
from service_kit.errors import Reason, ServiceError, invalid

GET_SETTINGS, UPDATE_SETTINGS = method("SettingsService", "GetSettings"), method("SettingsService", "UpdateSettings")
CHANNELS = method("CatalogService", "ListChannels")
LIST_STATES, RESET = method("StateService", "ListStates"), method("StateService", "ResetState")
LIST_DECISIONS, GET_DECISION = method("DecisionService", "ListDecisions"), method("DecisionService", "GetDecision")
EXPLAIN = method("DecisionService", "Explain")
SETTINGS = "omniroute.registry.v1.Settings"
KEY_NEEDED = "An override belongs to an API key; send this request with one."


async def settings(ask: Ask, remote: Remote) -> Answer:
    """``GET /api/settings``."""
    return _settings(await remote.call(GET_SETTINGS, GET_SETTINGS.request()))


async def change_settings(ask: Ask, remote: Remote) -> Answer:
    """``PATCH /api/settings``: the values that are given; null unsets."""
    request: Any = UPDATE_SETTINGS.request()
    codec.read(request.settings, ask.body)
    if not request.settings.values.fields:
        raise invalid("values", "nothing to change", "an object of at least one setting")
    if ask.etag:
        request.settings.etag = ask.etag
    return _settings(await remote.call(UPDATE_SETTINGS, request))


def _settings(answer: Any) -> Answer:
    return Answer(codec.write(answer.settings), headers=standard.tag_of(answer.settings))


async def channels(ask: Ask, remote: Remote) -> Answer:
    """``GET /api/combos/auto``."""
    request = CHANNELS.request()
    read_query(request, ask.query)
    return Answer(codec.write(await remote.call(CHANNELS, request)))


async def states(ask: Ask, remote: Remote) -> Answer:
    """``GET /api/state``."""
    request = LIST_STATES.request()
    read_query(request, ask.query)
    return Answer(codec.write(await remote.call(LIST_STATES, request)))


async def reset(ask: Ask, remote: Remote) -> Answer:
    """``POST /api/state/reset``; the state machine as it is afterwards."""
    request = RESET.request()
    codec.read(request, ask.body)
    return Answer(codec.write((await remote.call(RESET, request)).state))


async def decisions(ask: Ask, remote: Remote) -> Answer:
    """``GET /api/decisions``, newest first."""
    request = LIST_DECISIONS.request()
    read_query(request, ask.query)
    return Answer(codec.write(await remote.call(LIST_DECISIONS, request)))


async def decision(ask: Ask, remote: Remote) -> Answer:
    """``GET /api/decisions/{decision_id}``."""
    answer = await remote.call(GET_DECISION, GET_DECISION.request(**ask.path))
    return Answer(codec.write(answer.record))


async def explain(ask: Ask, remote: Remote) -> Answer:
    """``POST /api/explain``: the body is a request for a decision, which is not made."""
    request: Any = EXPLAIN.request()
    read_query(request, ask.query)
    request.request.SetInParent()
    codec.read(request.request, ask.body)
    return Answer(codec.write(await remote.call(EXPLAIN, request)))


def own(act: Act) -> Act:
    """What is done to an override, done to the calling key's. Raises FORBIDDEN for a caller without a key."""

    async def act_for_caller(ask: Ask, remote: Remote) -> Answer:
        if not ask.api_key_id:
            raise ServiceError(Reason.FORBIDDEN, KEY_NEEDED)
        return await act(replace(ask, path={**ask.path, "api_key_id": ask.api_key_id}), remote)

    return act_for_caller


CHANNEL, OVERRIDE = "/v1/auto-combo/{channel:path}/overrides", "omniroute.registry.v1.Override"
OWN_AT = {"channel": "coding"}
OWN_BODY: Json = {"candidates": [{"candidate": "example/small@example-1", "excluded": True}]}

SINGULAR = (
    Operation("GET", "/api/settings", "The settings", settings, SETTINGS),
    Operation(
        "PATCH",
        "/api/settings",
        "Change the given settings; null unsets",
        change_settings,
        SETTINGS,
        SETTINGS,
        matches=True,
        example={"values": {"hidePaidModels": False, "comboRefMaxDepth": None}},
    ),
    Operation(
        "GET",
        "/api/combos/auto",
        "The auto channels, each with its pool and limits",
        channels,
        CHANNELS.answer.DESCRIPTOR.full_name,
        query=CHANNELS.request,
    ),
    Operation(
        "GET",
        "/api/decisions",
        "A page of recent decisions, newest first",
        decisions,
        LIST_DECISIONS.answer.DESCRIPTOR.full_name,
        query=LIST_DECISIONS.request,
    ),
    Operation(
        "GET",
        "/api/decisions/{decision_id}",
        "One recent decision with its trace and outcomes",
        decision,
        "omniroute.decision.v1.DecisionRecord",
        at={"decision_id": "0"},
    ),
    Operation(
        "POST",
        "/api/explain",
        "What would be decided, and why; nothing changes",
        explain,
        EXPLAIN.answer.DESCRIPTOR.full_name,
        "omniroute.decision.v1.DecideRequest",
        query=EXPLAIN.request,
        example={"model": "auto/coding", "features": {"inputTokens": 1200, "hasTools": True, "toolCount": 2}},
    ),
    Operation(
        "GET",
        "/api/state",
        "Breakers, cooldowns, lockouts, exclusions and leases",
        states,
        LIST_STATES.answer.DESCRIPTOR.full_name,
        query=LIST_STATES.request,
    ),
    Operation(
        "POST",
        "/api/state/reset",
        "Put a state machine back",
        reset,
        "omniroute.registry.v1.State",
        RESET.request.DESCRIPTOR.full_name,
        example={"kind": "cooldown", "key": "example/example-1"},
    ),
    Operation(
        "PUT",
        CHANNEL,
        "Replace the calling key's override of a channel",
        own(standard.update_of(OVERRIDES, whole=True)),
        OVERRIDE,
        OVERRIDE,
        scope=INFERENCE,
        matches=True,
        example=OWN_BODY,
        at=OWN_AT,
    ),
    Operation(
        "GET",
        CHANNEL,
        "The calling key's override of a channel",
        own(standard.get_of(OVERRIDES)),
        OVERRIDE,
        scope=INFERENCE,
        at=OWN_AT,
    ),
    Operation(
        "DELETE",
        CHANNEL,
        "Remove the calling key's override of a channel",
        own(standard.remove_of(OVERRIDES)),
        status=204,
        scope=INFERENCE,
        matches=True,
        at=OWN_AT,
    ),
)
