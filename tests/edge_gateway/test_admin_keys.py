"""What the gateway remembers of keys while they are changed."""

from __future__ import annotations

import asyncio

from edge_gateway.auth import Gate
from edge_gateway.patience import Patience
from omniroute.registry.v1 import registry_pb2


async def test_an_answer_from_before_a_change_is_not_remembered() -> None:
    asked: list[str] = []
    go_on = asyncio.Event()

    async def authenticate(secret: str) -> registry_pb2.AuthenticateResponse:
        asked.append(secret)
        await go_on.wait()
        return registry_pb2.AuthenticateResponse(required=len(asked) > 1)

    gate = Gate(
        authenticate,
        loopback_only=True,
        patience=Patience(lambda: 0.0),
        patience_s=0.25,
        clock=lambda: 0.0,
        wall=lambda: 0.0,
    )
    async with asyncio.timeout(5):
        early = asyncio.create_task(gate.keys_exist())
        while not asked:
            await asyncio.sleep(0)
        gate.forget()
        late = asyncio.create_task(gate.keys_exist())
        while len(asked) < 2:
            await asyncio.sleep(0)
        go_on.set()
        await early
        assert await late
        assert await gate.keys_exist()
    assert len(asked) == 2
