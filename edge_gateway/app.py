"""The routes."""

from __future__ import annotations

from starlette.routing import Route, Router

from edge_gateway.admin.endpoint import Office, admin_routes
from edge_gateway.admin.rpc import Remote
from edge_gateway.completion import Completions, House
from edge_gateway.counting import TokenCounts
from edge_gateway.models import Models
from edge_gateway.probes import Probes
from edge_gateway.surface import CHAT, EMBEDDINGS, MESSAGES, RESPONSES


def routes(house: House, probes: Probes) -> Router:
    """Everything that the gateway serves, without what stands around every request."""
    models = Models(house.services, house.gate)
    counts = TokenCounts(house.gate, house.body_limits)
    office = Office(house.gate, Remote(house.services.administer), house.body_limits)
    return Router(
        [
            Route("/v1/chat/completions", Completions(house, CHAT), methods=["POST"]),
            Route("/v1/responses", Completions(house, RESPONSES), methods=["POST"]),
            Route("/v1/messages", Completions(house, MESSAGES), methods=["POST"]),
            Route("/v1/messages/count_tokens", counts.count, methods=["POST"]),
            Route("/v1/embeddings", Completions(house, EMBEDDINGS), methods=["POST"]),
            Route("/v1/models", models.list_all, methods=["GET"]),
            Route("/v1/models/{id:path}", models.retrieve, methods=["GET"]),
            Route("/v1/auto-combo/{channel:path}/candidates", models.candidates, methods=["GET"]),
            *admin_routes(office),
            Route("/healthz", probes.alive, methods=["GET"]),
            Route("/readyz", probes.ready, methods=["GET"]),
            Route("/metrics", probes.figures, methods=["GET"]),
        ],
        redirect_slashes=False,
    )
