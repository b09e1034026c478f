"""HTTP around the table: who asks, by which method, with which body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from edge_gateway import headers, json_body, problems
from edge_gateway.admin.asks import ADMIN, Answer, Ask, Operation, if_match
from edge_gateway.admin.openapi import PATH, document
from edge_gateway.admin.rpc import Remote
from edge_gateway.admin.table import by_path
from edge_gateway.auth import Caller, Gate
from edge_gateway.json_body import BodyLimits
from edge_gateway.problems import Refused
from edge_gateway.settings import is_loopback
from service_kit.errors import Reason, ServiceError

KEYS = "/api/keys"
NOT_HERE = "Without an API key this is served to names of this machine only, such as 127.0.0.1 or localhost."


@dataclass(frozen=True, slots=True)
class Office:
    """What every administrative request needs."""

    gate: Gate
    remote: Remote
    limits: BodyLimits


def admin_routes(office: Office) -> list[Route]:
    """A route for each path; its endpoint answers for all methods, so that a wider path never takes one over."""
    routes = [Route(path, Endpoint(office, methods)) for path, methods in by_path().items()]
    return [Route(PATH, Document(office)), *routes]


class Endpoint:
    """One path of the table."""

    def __init__(self, office: Office, methods: Mapping[str, Operation]) -> None:
        self._office = office
        self._methods = methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        row = self._methods.get(_method(scope))
        if row is None:
            raise _not_allowed(scope, self._methods)
        incoming = headers.incoming(scope)
        caller = await admit(self._office.gate, incoming, row.scope)
        body = {}
        if row.takes:
            body = json_body.parse(await json_body.read(receive, incoming, self._office.limits))
        request = Request(scope)
        ask = Ask(
            path=dict(request.path_params),
            query=tuple(request.query_params.multi_items()),
            body=body,
            etag=if_match(incoming.get("if-match", "")) if row.matches else "",
            api_key_id=caller.api_key_id,
        )
        if row.query is None and ask.query:
            raise ServiceError(Reason.INVALID_FIELD, "query: got parameters; allowed: none here", field="query")
        answer = await row.act(ask, self._office.remote)
        if row.path.startswith(KEYS) and row.method != "GET":
            self._office.gate.forget()
        await _response(answer)(scope, receive, send)


class Document:
    """``GET /api/openapi.json``."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._body = orjson.dumps(document())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _method(scope) != "GET":
            raise _not_allowed(scope, {"GET": None})
        await admit(self._office.gate, headers.incoming(scope), ADMIN)
        await Response(self._body, media_type="application/json")(scope, receive, send)


async def admit(gate: Gate, incoming: Mapping[str, str], scope: str) -> Caller:
    """The caller, who holds the scope. Raises ServiceError.

    A caller without a key must name this machine as the host: else a web page whose own name leads here could read
    everything, and a browser would take it for that page's own site.
    """
    caller = await gate.admit(incoming, scope)
    if not caller.api_key_id and not _names_this_machine(incoming.get("host", "")):
        raise ServiceError(Reason.FORBIDDEN, NOT_HERE)
    return caller


def _names_this_machine(host: str) -> bool:
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False


def _method(scope: Scope) -> str:
    method: str = scope["method"]
    return "GET" if method == "HEAD" else method


def _not_allowed(scope: Scope, methods: Mapping[str, object]) -> Refused:
    return Refused(problems.no_method(scope["method"], scope["path"], ", ".join(methods)))


def _response(answer: Answer) -> Response:
    given = {name: headers.safe(value).decode() for name, value in answer.headers.items()}
    if answer.body is None:
        return Response(status_code=answer.status, headers=given)
    return Response(
        orjson.dumps(answer.body),
        answer.status,
        headers={"cache-control": "no-store", **given},
        media_type="application/json",
    )
