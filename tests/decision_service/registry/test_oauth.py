"""Renewal of OAuth tokens against a token endpoint that the test plays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import parse_qs

import pytest
import uvicorn
from google.protobuf.timestamp_pb2 import Timestamp
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from omniroute.registry.v1 import registry_pb2 as pb
from service_kit.errors import Reason, ServiceError
from tests.decision_service.conftest import Clock
from tests.decision_service.registry.conftest import EXECUTOR, Running


class TokenEndpoint:
    """Gives out access tokens at-1, at-2 ... and rotates the refresh token."""

    def __init__(self) -> None:
        self.asked: list[dict[str, list[str]]] = []
        self.answer: Response | None = None
        self.url = ""

    async def __call__(self, request: Request) -> Response:
        self.asked.append(parse_qs((await request.body()).decode()))
        await asyncio.sleep(0.05)
        if self.answer is not None:
            return self.answer
        count = len(self.asked)
        return JSONResponse({"access_token": f"at-{count}", "refresh_token": f"rt-{count}", "expires_in": 3600})


@pytest.fixture
async def endpoint() -> AsyncIterator[TokenEndpoint]:
    made = TokenEndpoint()
    app = Starlette(routes=[Route("/token", made.__call__, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    made.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/token"
    yield made
    server.should_exit = True
    await serving


@pytest.fixture
async def connection_id(live: Running, endpoint: TokenEndpoint, clock: Clock) -> str:
    oauth = pb.OAuthCredential(
        access_token="at-0",
        refresh_token="rt-0",
        expires_at=Timestamp(seconds=int(clock()) + 600),
        token_url=endpoint.url,
        client_id="id",
        client_secret="client-hush",
        scope="a b",
    )
    connection = pb.Connection(provider="github-copilot", credential=pb.CredentialInput(oauth=oauth))
    request = pb.CreateConnectionRequest(connection=connection)
    answer = await live.call("ConnectionService", "CreateConnection", request)
    return answer.connection.id  # type: ignore[no-any-return]


async def token(live: Running, name: str, *, refresh: bool = False) -> str:
    request = pb.ResolveRequest(connection_id=name, refresh=refresh)
    answer = await live.call("CredentialService", "Resolve", request, EXECUTOR)
    assert not answer.oauth.refresh_token
    assert not answer.oauth.client_secret
    return answer.oauth.access_token  # type: ignore[no-any-return]


async def test_a_token_that_is_good_is_not_renewed(
    live: Running, endpoint: TokenEndpoint, connection_id: str, clock: Clock
) -> None:
    assert await token(live, connection_id) == "at-0"
    clock.now += 530
    assert await token(live, connection_id) == "at-0"
    assert endpoint.asked == []


async def test_a_token_about_to_end_is_renewed_once_and_kept(
    live: Running, endpoint: TokenEndpoint, connection_id: str, clock: Clock
) -> None:
    clock.now += 550
    found = await asyncio.gather(*(token(live, connection_id) for _ in range(10)))
    assert set(found) == {"at-1"}
    asked = {"grant_type": ["refresh_token"], "refresh_token": ["rt-0"], "client_id": ["id"]}
    assert endpoint.asked == [asked | {"client_secret": ["client-hush"], "scope": ["a b"]}]
    clock.now += 3_600
    assert await token(live, connection_id) == "at-2"
    assert endpoint.asked[1]["refresh_token"] == ["rt-1"]


async def test_a_refused_token_is_renewed_unless_it_is_new(
    live: Running, endpoint: TokenEndpoint, connection_id: str, clock: Clock
) -> None:
    assert await token(live, connection_id, refresh=True) == "at-0"
    clock.now += 31
    assert await token(live, connection_id, refresh=True) == "at-1"
    assert await token(live, connection_id, refresh=True) == "at-1"
    assert len(endpoint.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        JSONResponse({"error": "invalid_grant"}, 400),
        Response("x", 500),
        Response("no json"),
        JSONResponse([]),
        JSONResponse({"access_token": ""}),
        JSONResponse({"access_token": "two\nlines"}),
    ],
)
async def test_a_failed_renewal_leaves_the_token_until_it_ends(
    live: Running, endpoint: TokenEndpoint, connection_id: str, clock: Clock, answer: Response
) -> None:
    endpoint.answer = answer
    clock.now += 550
    assert await token(live, connection_id) == "at-0"
    clock.now += 51
    with pytest.raises(ServiceError, match="was not renewed") as caught:
        await token(live, connection_id)
    assert caught.value.reason is Reason.UNAVAILABLE
    endpoint.answer = None
    assert (await token(live, connection_id)).startswith("at-")


async def test_a_lifetime_that_nobody_tells_is_unknown(
    live: Running, endpoint: TokenEndpoint, connection_id: str, clock: Clock
) -> None:
    endpoint.answer = JSONResponse({"access_token": "forever", "expires_in": "soon"})
    clock.now += 550
    assert await token(live, connection_id) == "forever"
    clock.now += 10**6
    assert await token(live, connection_id) == "forever"
    assert len(endpoint.asked) == 1
