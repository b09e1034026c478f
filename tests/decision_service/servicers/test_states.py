"""ListStates and ResetState over loopback: what the machines say, and an operator who puts one back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import grpc
import pytest

from omniroute.registry.v1 import registry_pb2 as pb
from tests.decision_service.client import LIMIT_S, Client, outcome, refused
from tests.decision_service.loopback import serving

HOUR_MS = 3_600_000


async def reset(service: Client, kind: str, key: str) -> pb.State:
    request = pb.ResetStateRequest(kind=kind, key=key)
    return (await service.machines.ResetState(request, timeout=LIMIT_S)).state


async def troubled(service: Client) -> None:
    """An open breaker, a connection without credit, one that is refused, and a model that is not there."""
    for name in ("broke", "dear", "locked", "refused"):
        await service.add_target(name)
    for _ in range(2):
        await service.attempt("broke/broke-model", "NETWORK")
    await service.attempt("dear/dear-model", "QUOTA_EXHAUSTED")
    await service.attempt("locked/locked-model", "MODEL_NOT_FOUND", http_status=404)
    await service.attempt("refused/refused-model", "AUTH_FAILED", http_status=401)


async def test_trouble_is_shown_with_reason_and_until_when(service: Client) -> None:
    await troubled(service)
    states = await service.states(abnormal_only=True)
    told = {key: (state.kind, state.state, state.reason) for key, state in states.items()}
    assert told == {
        "broke": ("breaker", "OPEN", ""),
        "dear/dear-1": ("cooldown", "RESTING", "quota_exhausted"),
        "locked/locked-model@locked-1": ("lockout", "RESTING", "model_not_found"),
        "refused/refused-1": ("cooldown", "RESTING", "auth_failed"),
    }
    assert states["broke"].generation == 1
    longest = {"broke": 15_000, "dear/dear-1": HOUR_MS, "locked/locked-model@locked-1": HOUR_MS}
    for key, most in {**longest, "refused/refused-1": 300_000}.items():
        assert most - 10_000 < states[key].until_ms <= most


async def test_every_machine_is_listed_by_kind_and_page(service: Client) -> None:
    await troubled(service)
    assert set(await service.states("breaker")) == {"broke", "dear", "locked", "refused"}
    listed: list[tuple[str, str]] = []
    token = ""
    while True:
        request = pb.ListStatesRequest(page_size=5, page_token=token)
        answer = await service.machines.ListStates(request, timeout=LIMIT_S)
        assert len(answer.states) <= 5
        listed += [(state.kind, state.key) for state in answer.states]
        token = answer.next_page_token
        if not token:
            break
    assert len(listed) == 12
    assert listed == sorted(set(listed))


async def test_a_lease_is_shown_until_its_outcome(service: Client) -> None:
    model = await service.add_target("ant")
    decision = await service.decide(model)
    [(key, lease)] = (await service.states("lease")).items()
    assert key == decision.decision_id
    assert lease.reason == "ant/ant-model@ant-1"
    assert 140_000 < lease.until_ms <= 150_000
    await service.report(outcome(decision, "CLIENT_CANCELLED"))
    assert not await service.states("lease")


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("breaker", "broke"),
        ("cooldown", "dear/dear-1"),
        ("cooldown", "refused/refused-1"),
        ("lockout", "locked/locked-model@locked-1"),
    ],
)
async def test_a_reset_lets_the_next_request_through(service: Client, tmp_path: Path, kind: str, key: str) -> None:
    await troubled(service)
    name = key.split("/", maxsplit=1)[0]
    await refused(service.decide(f"{name}/{name}-model"))
    state = await reset(service, kind, key)
    assert (state.kind, state.key, state.state) == (kind, key, "CLOSED" if kind == "breaker" else "CLEAR")
    assert not state.HasField("until_ms")
    assert (await service.decide(f"{name}/{name}-model")).decision_id
    with closing(sqlite3.connect(tmp_path / "omniroute.db")) as connection:
        audited = connection.execute("SELECT action, key FROM audit WHERE kind = ?", (kind,)).fetchall()
    assert audited == [("reset", key)]


async def test_a_reset_outlives_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as service:
        await troubled(service)
        await reset(service, "cooldown", "dear/dear-1")
    async with serving(tmp_path) as service:
        assert "dear/dear-1" not in await service.states(abnormal_only=True)
        assert "refused/refused-1" in await service.states(abnormal_only=True)


async def test_an_outcome_from_before_a_reset_moves_no_breaker(service: Client) -> None:
    """The generation rose: what was decided before it says nothing of the breaker as it is now."""
    model = await service.add_target("broke")
    before = [await service.decide(model) for _ in range(4)]
    for decision in before[:2]:
        await service.report(outcome(decision, "TIMEOUT"))
    state = await reset(service, "breaker", "broke")
    for decision in before[2:]:
        await service.report(outcome(decision, "TIMEOUT"))
    assert (await service.states("breaker"))["broke"] == state


@pytest.mark.parametrize(
    ("kind", "key", "field"),
    [("breakers", "broke", "kind"), ("lease", "broke", "kind"), ("", "", "kind"), ("breaker", "nobody", "key")],
)
async def test_what_is_not_there_is_not_reset(service: Client, kind: str, key: str, field: str) -> None:
    await troubled(service)
    told = await refused(reset(service, kind, key))
    assert told.field == field
    assert told.code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)


@pytest.mark.parametrize(
    "request_",
    [
        pb.ListStatesRequest(kind="nothing"),
        pb.ListStatesRequest(page_size=1001),
        pb.ListStatesRequest(page_size=-1),
        pb.ListStatesRequest(page_token="x"),
    ],
)
async def test_a_wrong_question_is_refused(service: Client, request_: pb.ListStatesRequest) -> None:
    told = await refused(service.machines.ListStates(request_, timeout=LIMIT_S))
    assert told.reason == "INVALID_FIELD"
    assert told.field in ("kind", "page_size", "page_token")


async def test_with_an_admin_token_only_its_bearer_sees_and_resets(tmp_path: Path) -> None:
    async with serving(tmp_path, admin_token="the admin's word") as service:
        for call in (service.machines.ListStates(pb.ListStatesRequest()), reset(service, "breaker", "broke")):
            told = await refused(call)
            assert (told.code, told.reason) == (grpc.StatusCode.PERMISSION_DENIED, "FORBIDDEN")
        mine = (("x-omniroute-token", "the admin's word"),)
        assert not (await service.machines.ListStates(pb.ListStatesRequest(), metadata=mine)).states
