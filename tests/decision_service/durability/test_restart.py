"""What was learnt is there again after the process died, on every database."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from omniroute.decision.v1 import decision_pb2 as pb
from omniroute.registry.v1 import registry_pb2
from service_kit import clock
from tests.decision_service.client import Client, refused, stranger
from tests.decision_service.durability.conftest import Build, House

KINDS = ("breaker", "cooldown", "lockout", "exclusion")


async def troubled(client: Client) -> None:
    """One of each machine out of order, and statistics of a model that is well."""
    for name in ("broke", "limited", "refused", "locked", "spent", "fine"):
        await client.add_target(name)
    for _ in range(2):
        await client.attempt("broke/broke-model", "TIMEOUT")
    await client.attempt("limited/limited-model", "RATE_LIMITED", retry_after_ms=600_000)
    await client.attempt("refused/refused-model", "AUTH_FAILED")
    await client.attempt("locked/locked-model", "OVERLOADED")
    reset_at = pb.Outcome().at
    reset_at.FromMilliseconds(int(clock.wall() * 1000) + 900_000)
    window = pb.QuotaWindow(name="session", remaining_fraction=0.0, reset_at=reset_at)
    await client.attempt("spent/spent-model", "SUCCESS", quota=[window])
    for number in range(25):
        kind = "SUCCESS" if number % 5 else "INTERRUPTED"
        await client.attempt("fine/fine-model", kind, latency_ms=100 + 20 * number, output_tokens=50)


async def machines(client: Client) -> dict[tuple[str, str], registry_pb2.State]:
    return {(kind, key): state for kind in KINDS for key, state in (await client.states(kind)).items()}


async def factors(client: Client, provider: str) -> dict[str, float]:
    """What `auto` makes of a provider's one candidate."""
    request = pb.ExplainRequest(request=pb.DecideRequest(model="auto", seed=1))
    trace = (await client.decisions.Explain(request)).decision.trace
    return next(dict(row.factors) for row in trace.candidates if row.provider == provider)


async def knowledge_survives(house: House) -> None:
    client = await house.start()
    await troubled(client)
    before, known = await machines(client), await factors(client, "fine")
    learnt_at = clock.wall()
    await house.service.kill()
    client = await house.start()
    after = await machines(client)
    away_ms = (clock.wall() - learnt_at) * 1000
    abnormal = {key for key, state in before.items() if state.state not in ("CLOSED", "CLEAR")}
    assert abnormal == {key for key, state in after.items() if state.state not in ("CLOSED", "CLEAR")}
    assert {kind for kind, _ in abnormal} == {"breaker", "cooldown", "lockout"}
    for key in abnormal:
        was, now = before[key], after[key]
        assert (now.state, now.reason, now.generation, now.count) == (was.state, was.reason, was.generation, was.count)
        assert was.until_ms - away_ms - 1_000 <= now.until_ms <= was.until_ms
    told = await refused(client.decide("spent/spent-model"))
    assert "quota" in told.message
    assert await factors(client, "fine") == pytest.approx(known, abs=0.02)


async def test_machines_quota_and_statistics_survive_a_kill(build: Build) -> None:
    await knowledge_survives(build())


async def test_a_state_that_cannot_be_read_is_told_and_costs_no_other(house: House) -> None:
    client = await house.start()
    for name in ("ant", "bee"):
        await client.add_target(name)
        await client.attempt(f"{name}/{name}-model", "RATE_LIMITED", retry_after_ms=600_000)
    await house.service.terminate()
    with closing(sqlite3.connect(house.database)) as database, database:
        database.execute("UPDATE health_states SET state = '{half' WHERE kind = 'cooldown' AND key LIKE 'ant%'")
    client = await house.start()
    assert set(await client.states(abnormal_only=True)) == {"bee/bee-1"}
    [line] = [line for line in house.service.said.splitlines() if "state_unreadable" in line]
    assert "ant ant-1" in line


@pytest.mark.full
async def test_machines_quota_and_statistics_survive_a_kill_on_postgresql(build: Build, postgres: str) -> None:
    house = build(OMNIROUTE_DATABASE_URL=postgres)
    await knowledge_survives(house)
    outcomes = [stranger(f"dec-{number}", "fine") for number in range(50)]
    assert (await house.clients[-1].report(*outcomes)).accepted == 50
    await house.service.kill()
    client = await house.start()
    assert (await client.report(*outcomes)).duplicates == 50
