"""What can be asked for: models, and the candidates behind a channel."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from edge_gateway import headers, problems
from edge_gateway.auth import Gate
from edge_gateway.clients import Services
from omniroute.decision.v1 import decision_pb2
from omniroute.registry.v1 import registry_pb2
from service_kit.errors import Reason, ServiceError

Json = dict[str, Any]


class Models:
    """The read-only endpoints about models."""

    def __init__(self, services: Services, gate: Gate) -> None:
        self._services = services
        self._gate = gate

    async def list_all(self, request: Request) -> Response:
        """``GET /v1/models``."""
        models = await self._advertised(request)
        if _speaks_anthropic(request):
            return as_json(_anthropic_page(models))
        return as_json({"object": "list", "data": [_model(model) for model in models]})

    async def retrieve(self, request: Request) -> Response:
        """``GET /v1/models/{id}``; an id may hold slashes, as they are or escaped."""
        wanted = request.path_params["id"]
        for model in await self._advertised(request):
            if model.id == wanted:
                return as_json(_anthropic_model(model) if _speaks_anthropic(request) else _model(model))
        raise ServiceError(Reason.MODEL_NOT_FOUND, f"The model {wanted[:200]!r} does not exist or is hidden.")

    async def candidates(self, request: Request) -> Response:
        """``GET /v1/auto-combo/{channel}/candidates``; ``auto`` is the base channel."""
        caller = await self._gate.admit(headers.incoming(request.scope))
        channel = request.path_params["channel"]
        model = channel if channel == "auto" or channel.startswith("auto/") else f"auto/{channel}"
        pool = await self._services.candidates(model, caller.api_key_id)
        return as_json({"channel": pool.combo or model, "candidates": [_candidate(view) for view in pool.candidates]})

    async def _advertised(self, request: Request) -> list[registry_pb2.AdvertisedModel]:
        caller = await self._gate.admit(headers.incoming(request.scope))
        return list((await self._services.advertised_models(caller.api_key_id)).models)


def as_json(value: Json, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")


def _model(model: registry_pb2.AdvertisedModel) -> Json:
    """OpenAI's fields, whose clients insist on ``created``; unknown limits are left out."""
    limits = {name: getattr(model, name) for name in ("context_length", "max_output_tokens") if model.HasField(name)}
    return {"id": model.id, "object": "model", "created": 0, "owned_by": model.owned_by, **limits}


def _speaks_anthropic(request: Request) -> bool:
    return problems.speaks_anthropic(request.scope["path"], headers.incoming(request.scope))


def _anthropic_page(models: list[registry_pb2.AdvertisedModel]) -> Json:
    """All there are, as one last page."""
    data = [_anthropic_model(model) for model in models]
    ends = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return {"data": data, "has_more": False, "first_id": ends[0], "last_id": ends[1]}


def _anthropic_model(model: registry_pb2.AdvertisedModel) -> Json:
    """The epoch stands for an unknown date, as in that dialect."""
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.id,
        "created_at": "1970-01-01T00:00:00Z",
        "lifecycle": "active",
        "max_input_tokens": model.context_length if model.HasField("context_length") else None,
        "max_tokens": model.max_output_tokens if model.HasField("max_output_tokens") else None,
    }


def _candidate(view: decision_pb2.CandidateView) -> Json:
    return {
        "candidate": view.candidate,
        "provider": view.provider,
        "model": view.model,
        "connectionId": view.connection_id,
        "reachable": view.reachable,
        "excluded": view.excluded,
        "rejection": _rejection(view.rejection) if view.HasField("rejection") else None,
        "economicTier": view.economic_tier,
        "contextWindow": view.context_window or None,
        "maxOutputTokens": view.max_output_tokens or None,
        "inputPrice": view.input_price if view.HasField("input_price") else None,
        "outputPrice": view.output_price if view.HasField("output_price") else None,
        "breaker": view.breaker,
        "inFlight": view.in_flight,
    }


def _rejection(rejection: decision_pb2.Rejection) -> Json:
    until_ms = rejection.until_ms if rejection.HasField("until_ms") else None
    return {"filter": rejection.filter, "reason": rejection.reason, "untilMs": until_ms}
