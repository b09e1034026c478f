"""``POST /v1/messages/count_tokens``: answered here, by the estimate that routing uses."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from edge_gateway import features, headers, json_body, turns
from edge_gateway.auth import Gate
from edge_gateway.dialects import messages, messages_fields
from edge_gateway.json_body import BodyLimits
from edge_gateway.models import as_json


class TokenCounts:
    """The endpoint; no provider is asked, so that the count is the same for every model."""

    def __init__(self, gate: Gate, body_limits: BodyLimits) -> None:
        self._gate = gate
        self._body_limits = body_limits

    async def count(self, request: Request) -> Response:
        """``{"input_tokens": n}``. Raises ServiceError and Refused."""
        incoming = headers.incoming(request.scope)
        await self._gate.admit(incoming)
        body = json_body.parse(await json_body.read(request.receive, incoming, self._body_limits))
        messages_fields.check_count(body)
        asked = messages.read(body)
        return as_json({"input_tokens": features.input_tokens(asked, turns.read(asked.messages))})
