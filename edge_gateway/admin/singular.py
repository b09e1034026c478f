"""Operations on what there is one of, and on what nobody stores: settings, channels, decisions, state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from edge_gateway.admin import standard
from edge_gateway.admin.asks import Act, Answer, Ask, read_query
from edge_gateway.admin.reading import read
from edge_gateway.admin.rpc import Remote, method
from edge_gateway.admin.writing import write
from service_kit.errors import Reason, ServiceError, invalid

GET_SETTINGS, UPDATE_SETTINGS = method("SettingsService", "GetSettings"), method("SettingsService", "UpdateSettings")
CHANNELS = method("CatalogService", "ListChannels")
LIST_STATES, RESET = method("StateService", "ListStates"), method("StateService", "ResetState")
LIST_DECISIONS, GET_DECISION = method("DecisionService", "ListDecisions"), method("DecisionService", "GetDecision")
EXPLAIN = method("DecisionService", "Explain")
REMOVE_MAPPING = method("ModelMappingService", "DeleteModelMapping")
KEY_NEEDED = "An override belongs to an API key; send this request with one."


async def settings(ask: Ask, remote: Remote) -> Answer:
    """``GET /api/settings``."""
    return _settings(await remote.call(GET_SETTINGS, GET_SETTINGS.request()))


async def change_settings(ask: Ask, remote: Remote) -> Answer:
    """``PATCH /api/settings``: the values that are given; null unsets."""
    request: Any = UPDATE_SETTINGS.request()
    read(request.settings, ask.body)
    if not request.settings.values.fields:
        raise invalid("values", "nothing to change", "an object of at least one setting")
    if ask.etag:
        request.settings.etag = ask.etag
    return _settings(await remote.call(UPDATE_SETTINGS, request))


def _settings(answer: Any) -> Answer:
    return Answer(write(answer.settings), headers=standard.tag_of(answer.settings))


async def channels(ask: Ask, remote: Remote) -> Answer:
    """``GET /api/combos/auto``."""
    request = CHANNELS.request()
    read_query(request, ask.query)
    return Answer(write(await remote.call(CHANNELS, request)))


async def states(ask: Ask, remote: Remote) -> Answer:
    """``GET /api/state``."""
    request = LIST_STATES.request()
    read_query(request, ask.query)
    return Answer(write(await remote.call(LIST_STATES, request)))


async def reset(ask: Ask, remote: Remote) -> Answer:
    """``POST /api/state/reset``; the state machine as it is afterwards."""
    request = RESET.request()
    read(request, ask.body)
    return Answer(write((await remote.call(RESET, request)).state))


async def decisions(ask: Ask, remote: Remote) -> Answer:
    """``GET /api/decisions``, newest first."""
    request = LIST_DECISIONS.request()
    read_query(request, ask.query)
    return Answer(write(await remote.call(LIST_DECISIONS, request)))


async def decision(ask: Ask, remote: Remote) -> Answer:
    """``GET /api/decisions/{decision_id}``."""
    answer = await remote.call(GET_DECISION, GET_DECISION.request(**ask.path))
    return Answer(write(answer.record))


async def explain(ask: Ask, remote: Remote) -> Answer:
    """``POST /api/explain``: the body is a request for a decision, which is not made."""
    request: Any = EXPLAIN.request()
    read_query(request, ask.query)
    request.request.SetInParent()
    read(request.request, ask.body)
    return Answer(write(await remote.call(EXPLAIN, request)))


async def remove_mapping(ask: Ask, remote: Remote) -> Answer:
    """``DELETE /api/model-combo-mappings?id=...``: the same as by its own path."""
    request: Any = REMOVE_MAPPING.request()
    read_query(request, ask.query)
    request.etag = ask.etag or request.etag
    await remote.call(REMOVE_MAPPING, request)
    return Answer(None, 204)


def own(act: Act) -> Act:
    """What is done to an override, done to the calling key's. Raises FORBIDDEN for a caller without a key."""

    async def act_for_caller(ask: Ask, remote: Remote) -> Answer:
        if not ask.api_key_id:
            raise ServiceError(Reason.FORBIDDEN, KEY_NEEDED)
        return await act(replace(ask, path={**ask.path, "api_key_id": ask.api_key_id}), remote)

    return act_for_caller
