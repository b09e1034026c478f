"""An account with OAuth tokens through the whole: renewed once for all who wait, and never shown."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from omniroute.registry.v1 import registry_pb2
from service_kit import clock
from tests.e2e.stack import Provided, Stack
from tests.e2e.test_secrets import everything_said
from tests.executor.upstream import Connection, Received, Upstream, answer

pytestmark = pytest.mark.asyncio(loop_scope="module")
WAITERS = 20
FRESH, REFRESH, ROTATED, CLIENT = "at-Zq81-fresh", "rt-Zq81-first", "rt-Zq81-rotated", "cs-Zq81-client"


class Tokens:
    """A token endpoint that takes its time."""

    def __init__(self) -> None:
        self.asked: list[dict[str, list[str]]] = []

    async def __call__(self, received: Received, connection: Connection) -> None:
        self.asked.append(parse_qs(received.raw_body.decode()))
        await asyncio.sleep(0.1)
        told = {"access_token": FRESH, "refresh_token": ROTATED, "expires_in": 3_600}
        await answer(200, told)(received, connection)


async def with_ended_token(stack: Stack, token_url: str) -> Provided:
    """A provider whose one account has a token that has ended."""
    provided = await stack.provider("tokened", provider_class="api_key")
    oauth = registry_pb2.OAuthCredential(
        access_token="at-Zq81-ended",
        refresh_token=REFRESH,
        expires_at=Timestamp(seconds=int(clock.wall()) - 5),
        token_url=token_url,
        client_id="the-client",
        client_secret=CLIENT,
    )
    given = registry_pb2.Connection(id=f"{provided.name}-2", provider=provided.name, models=[f"{provided.name}-model"])
    given.credential.oauth.CopyFrom(oauth)
    request = registry_pb2.CreateConnectionRequest(connection=given)
    await stack.client.connections.CreateConnection(request, timeout=10)
    return provided


async def test_a_token_is_renewed_once_for_all_who_wait_and_shown_to_nobody(stack: Stack) -> None:
    tokens = Tokens()
    endpoint = await Upstream(tokens).start()
    stack.upstreams.append(endpoint)
    provided = await with_ended_token(stack, f"{endpoint.url}/token")
    step = registry_pb2.ComboStep(model=provided.model, connection_id=f"{provided.name}-2")
    await stack.client.add_combo("tokened", [step])
    served = await asyncio.gather(*(stack.chat("tokened") for _ in range(WAITERS)))
    assert {each.status for each in served} == {200}
    sent = {received.headers["authorization"] for received in provided.upstream.requests}
    assert sent == {f"Bearer {FRESH}"}
    [asked] = tokens.asked
    assert (asked["grant_type"], asked["refresh_token"]) == (["refresh_token"], [REFRESH])
    said = await everything_said(stack) + str([(each.headers, each.body) for each in served])
    assert provided.connection in said
    assert "Zq81" not in said
