"""The rows of the table for what is not stored by a name of its own."""

from __future__ import annotations

from edge_gateway.admin import singular, standard
from edge_gateway.admin.asks import Operation
from edge_gateway.admin.examples import AT
from edge_gateway.admin.resources import OVERRIDES
from edge_gateway.auth import INFERENCE
from edge_gateway.json_body import Json

SETTINGS, DECISION = "omniroute.registry.v1.Settings", "omniroute.decision.v1.DecisionRecord"
CHANNEL, OVERRIDE = "/v1/auto-combo/{channel:path}/overrides", "omniroute.registry.v1.Override"
OWN_AT = {"channel": "coding"}
OWN_BODY: Json = {"candidates": [{"candidate": "example/small@example-1", "excluded": True}]}

SINGULAR = (
    Operation("GET", "/api/settings", "The settings", singular.settings, SETTINGS),
    Operation(
        "PATCH",
        "/api/settings",
        "Change the given settings; null unsets",
        singular.change_settings,
        SETTINGS,
        SETTINGS,
        matches=True,
        example={"values": {"hidePaidModels": False, "comboRefMaxDepth": None}},
    ),
    Operation(
        "GET",
        "/api/combos/auto",
        "The auto channels, each with its pool and limits",
        singular.channels,
        singular.CHANNELS.answer.DESCRIPTOR.full_name,
        query=singular.CHANNELS.request,
    ),
    Operation(
        "DELETE",
        "/api/model-combo-mappings",
        "Remove the model mapping of this id",
        singular.remove_mapping,
        query=singular.REMOVE_MAPPING.request,
        status=204,
        matches=True,
        at=AT["ModelMapping"],
    ),
    Operation(
        "GET",
        "/api/decisions",
        "A page of recent decisions, newest first",
        singular.decisions,
        singular.LIST_DECISIONS.answer.DESCRIPTOR.full_name,
        query=singular.LIST_DECISIONS.request,
    ),
    Operation(
        "GET",
        "/api/decisions/{decision_id}",
        "One recent decision with its trace and outcomes",
        singular.decision,
        DECISION,
        at={"decision_id": "0"},
    ),
    Operation(
        "POST",
        "/api/explain",
        "What would be decided, and why; nothing changes",
        singular.explain,
        singular.EXPLAIN.answer.DESCRIPTOR.full_name,
        "omniroute.decision.v1.DecideRequest",
        query=singular.EXPLAIN.request,
        example={"model": "auto/coding", "features": {"inputTokens": 1200, "hasTools": True, "toolCount": 2}},
    ),
    Operation(
        "GET",
        "/api/state",
        "Breakers, cooldowns, lockouts, exclusions and leases",
        singular.states,
        singular.LIST_STATES.answer.DESCRIPTOR.full_name,
        query=singular.LIST_STATES.request,
    ),
    Operation(
        "POST",
        "/api/state/reset",
        "Put a state machine back",
        singular.reset,
        "omniroute.registry.v1.State",
        singular.RESET.request.DESCRIPTOR.full_name,
        example={"kind": "cooldown", "key": "example/example-1"},
    ),
    Operation(
        "PUT",
        CHANNEL,
        "Replace the calling key's override of a channel",
        singular.own(standard.update_of(OVERRIDES, whole=True)),
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
        singular.own(standard.get_of(OVERRIDES)),
        OVERRIDE,
        scope=INFERENCE,
        at=OWN_AT,
    ),
    Operation(
        "DELETE",
        CHANNEL,
        "Remove the calling key's override of a channel",
        singular.own(standard.remove_of(OVERRIDES)),
        status=204,
        scope=INFERENCE,
        matches=True,
        at=OWN_AT,
    ),
)
