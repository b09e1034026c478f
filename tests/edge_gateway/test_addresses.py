"""An edge with several addresses of a service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from edge_gateway.settings import Settings
from service_kit.grpc_server import GrpcServer
from service_kit.settings import SettingsError, read
from tests.edge_gateway.conftest import Open, chat
from tests.edge_gateway.fakes import FakeDecision, FakeExecutor, plain_answer

Decisions = tuple[tuple[FakeDecision, GrpcServer], tuple[FakeDecision, GrpcServer]]
Executors = tuple[tuple[FakeExecutor, GrpcServer], tuple[FakeExecutor, GrpcServer]]


@pytest.fixture
async def decisions() -> AsyncIterator[Decisions]:
    first, second = FakeDecision(), FakeDecision()
    servers = await first.start(), await second.start()
    yield (first, servers[0]), (second, servers[1])
    for server in servers:
        await server.stop(0)


@pytest.fixture
async def executors() -> AsyncIterator[Executors]:
    first, second = FakeExecutor(plain_answer()), FakeExecutor(plain_answer())
    servers = await first.start(), await second.start()
    yield (first, servers[0]), (second, servers[1])
    for server in servers:
        await server.stop(0)


def listed(*servers: GrpcServer) -> str:
    return ",".join(f"127.0.0.1:{server.port}" for server in servers)


async def test_a_second_decision_service_stands_by(open_house: Open, decisions: Decisions) -> None:
    """They have state of their own: a conversation, and the outcomes of a decision, belong to one of them."""
    (first, first_server), (second, second_server) = decisions
    house = await open_house(decision_address=listed(first_server, second_server))
    for _ in range(6):
        assert (await house.post(chat())).status_code == 200
    await first.wait_for_outcomes(6)
    assert (len(first.asked), len(second.asked), len(second.outcomes)) == (6, 0, 0)
    await first_server.stop(0)
    for _ in range(6):
        served = await house.post(chat())
        assert (served.status_code, "x-omniroute-degraded" in served.headers) == (200, False)
    await second.wait_for_outcomes(6)
    assert (len(first.asked), len(second.asked)) == (6, 6)


async def test_executors_share_what_there_is(open_house: Open, executors: Executors) -> None:
    (first, first_server), (second, second_server) = executors
    house = await open_house(executor_address=listed(first_server, second_server))

    async def both() -> None:
        while not (first.asked and second.asked):
            assert (await house.post(chat())).status_code == 200

    await asyncio.wait_for(both(), 5)
    was = len(first.asked), len(second.asked)
    for _ in range(10):
        assert (await house.post(chat())).status_code == 200
    assert (len(first.asked) - was[0], len(second.asked) - was[1]) == (5, 5)
    await first_server.stop(0)
    for _ in range(10):
        assert (await house.post(chat())).status_code == 200


@pytest.mark.parametrize("name", ["OMNIROUTE_DECISION_ADDRESS", "OMNIROUTE_EXECUTOR_ADDRESS"])
def test_a_list_of_names_is_refused_by_the_settings(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"^{name}: got 'a:1,b:2'; allowed: .*dns:///name:port"):
        read(Settings, {name: "a:1,b:2"})
