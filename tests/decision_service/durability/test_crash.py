"""The process is killed again and again while outcomes come in: what was acknowledged is kept, exactly once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import grpc
import pytest

from omniroute.decision.v1 import decision_pb2 as pb
from tests.decision_service.client import Client, outcome
from tests.decision_service.durability.conftest import House

WORKERS = 6
MOST_A_WORKER = 400
CLASSES = ("SUCCESS", "SUCCESS", "CLIENT_CANCELLED", "INVALID_REQUEST", "CONTENT_POLICY")
LONGEST_LIFE_S = 0.8


@dataclass
class Ledger:
    """What reporters know: outcomes that were acknowledged, and those whose report was never answered."""

    acknowledged: list[pb.Outcome] = field(default_factory=list)
    unsure: list[pb.Outcome] = field(default_factory=list)


async def report_on(client: Client, model: str, dice: random.Random, ledger: Ledger) -> None:
    """One caller; it ends when the service is gone."""
    for _ in range(MOST_A_WORKER):
        try:
            decision = await client.decide(model)
        except grpc.aio.AioRpcError:
            return
        outcomes = [
            outcome(decision, dice.choice(CLASSES), attempt=attempt, latency_ms=dice.randrange(1, 5_000))
            for attempt in range(1, dice.randrange(2, 5))
        ]
        try:
            answer = await client.report(*outcomes)
        except grpc.aio.AioRpcError:
            ledger.unsure += outcomes
            return
        assert answer.accepted == len(outcomes), answer
        ledger.acknowledged += outcomes


async def report_again(client: Client, outcomes: Sequence[pb.Outcome]) -> tuple[int, int]:
    """(accepted, duplicates) over all of them."""
    accepted = duplicates = 0
    for start in range(0, len(outcomes), 500):
        answer = await client.report(*outcomes[start : start + 500])
        assert not answer.rejected
        accepted, duplicates = accepted + answer.accepted, duplicates + answer.duplicates
    return accepted, duplicates


def pairs(outcomes: Sequence[pb.Outcome]) -> set[tuple[str, int]]:
    return {(each.decision_id, each.attempt) for each in outcomes}


async def crash(house: House, dice: random.Random, rounds: int) -> Ledger:
    """Lives that end at random moments; after each the books are compared."""
    client = await house.start()
    model = await client.add_target("ant", provider_class="api_key", api_key="sk-of-the-test")
    whole = Ledger()
    for _ in range(rounds):
        ledger = Ledger()
        callers = [asyncio.create_task(report_on(client, model, dice, ledger)) for _ in range(WORKERS)]
        await asyncio.sleep(dice.uniform(0.02, LONGEST_LIFE_S))
        await house.service.kill()
        await asyncio.gather(*callers)
        kept = house.outcomes()
        assert pairs(ledger.acknowledged) <= kept.keys()
        client = await house.start()
        assert await report_again(client, ledger.acknowledged) == (0, len(ledger.acknowledged))
        accepted, duplicates = await report_again(client, ledger.unsure)
        assert accepted + duplicates == len(ledger.unsure)
        assert accepted == len(pairs(ledger.unsure) - kept.keys())
        whole.acknowledged += ledger.acknowledged
        whole.unsure += ledger.unsure
    return whole


async def kept_exactly_once(house: House, seed: int, rounds: int) -> None:
    ledger = await crash(house, random.Random(seed), rounds)
    assert ledger.acknowledged
    wanted = dict.fromkeys(pairs(ledger.acknowledged) | pairs(ledger.unsure), 1)
    assert house.outcomes() == wanted


@pytest.mark.parametrize("seed", [11])
async def test_every_acknowledged_outcome_is_kept_exactly_once(house: House, seed: int) -> None:
    await kept_exactly_once(house, seed, rounds=4)


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(4))
async def test_many_crashes_lose_and_double_nothing(house: House, seed: int) -> None:
    await kept_exactly_once(house, seed, rounds=20)
